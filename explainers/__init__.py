"""Explainers: one flat file per family. Import as `slalom_bench.explainers`."""
