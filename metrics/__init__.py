"""Metrics: one flat file per metric. Import as `slalom_bench.metrics`."""
