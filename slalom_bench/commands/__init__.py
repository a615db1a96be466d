"""One file a command; `slalom_bench.cli` puts them together."""
