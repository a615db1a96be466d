"""Surrogates: what an explanation predicts the model to say of a part of the text. One file each."""
