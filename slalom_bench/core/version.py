"""The version of the package, stated once: pyproject.toml reads it here."""

VERSION = "0.2.0.dev0"
