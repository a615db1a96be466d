"""Surrogates: what an explanation predicts the model's log-odds to be for a part of the text. One file each."""
