"""Models by name: what loads, trains or generates a classifier for a task. One file a family."""
