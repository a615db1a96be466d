"""Finding, reading and splitting data sets."""
