"""The classifier handle: the only way to query a model; it batches, caches, counts and limits."""
