"""Models as the handle sees them: torch modules, checkpoints, callables, endpoints, closed forms."""
