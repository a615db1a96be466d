"""Mamba: a state space model without attention, classified by the last token."""

from __future__ import annotations

from typing import Any

from slalom_bench.backends.architectures.base import Architecture, Size


class Mamba(Architecture):
    """Mamba (Gu and Dao 2023), with a classifier that transformers lacks."""

    model_type = "mamba"
    random_scale = 1.0

    def register(self) -> None:
        """Importing the classifier tells transformers of it."""
        import slalom_bench.backends.mamba_classifier  # noqa: F401

    def random_classifier(self, size: Size) -> Any:
        """`backends.mamba_classifier.MambaForSequenceClassification`."""
        import transformers as hf

        from slalom_bench.backends.mamba_classifier import MambaForSequenceClassification

        config = hf.MambaConfig(
            hidden_size=size.width,
            num_hidden_layers=size.layers,
            state_size=8,
            **size.shared_by_decoders(),
        )
        return MambaForSequenceClassification(config)
