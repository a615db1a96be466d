"""One explanation for a person: terminal, figure, page."""
