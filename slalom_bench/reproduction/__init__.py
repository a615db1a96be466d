"""The papers' tables and figures again: one TOML file each in `entries/`, one engine that runs, compares and shows."""
