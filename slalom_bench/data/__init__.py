"""Data sets: where they may be (sources), their files (tables), their examples (splits), tasks by name (loading)."""
