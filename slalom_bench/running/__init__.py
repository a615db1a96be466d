"""From a suite to stored rows: plan, cells, store, provenance, progress."""
