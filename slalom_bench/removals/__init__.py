"""Removal rules: what happens to a token that a mask takes away. One file each."""
