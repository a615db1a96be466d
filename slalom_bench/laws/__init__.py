"""Mask laws: which parts of a text are removed to test a surrogate, or to fit one. One file each."""
