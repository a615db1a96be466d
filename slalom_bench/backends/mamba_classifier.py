"""A classifier that transformers lacks: Mamba with a last-token head, loaded and saved like any other checkpoint."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import AutoModelForSequenceClassification, MambaConfig, MambaModel, MambaPreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput


class MambaForSequenceClassification(MambaPreTrainedModel):
    """A Mamba backbone whose state at the last token goes through a linear head, as the GPT-2 classifier's does."""

    base_model_prefix = "backbone"

    def __init__(self, config: MambaConfig) -> None:
        super().__init__(config)
        self.backbone = MambaModel(config)
        self.score = nn.Linear(config.hidden_size, config.num_labels, bias=False)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        """The table of words."""
        return self.backbone.embeddings

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the table of words."""
        self.backbone.embeddings = value

    def forward(self, attention_mask: torch.Tensor | None = None, **inputs: Any) -> SequenceClassifierOutput:
        """Logits (batch x classes) at the last attended position, from `input_ids` or `inputs_embeds`."""
        states = self.backbone(attention_mask=attention_mask, use_cache=False, **inputs)[0].to(self.score.weight.dtype)
        if attention_mask is None:
            return SequenceClassifierOutput(logits=self.score(states[:, -1]))
        last = (torch.arange(states.shape[1], device=states.device) * attention_mask).argmax(dim=1)
        rows = torch.arange(len(states), device=states.device)
        return SequenceClassifierOutput(logits=self.score(states[rows, last]))


AutoModelForSequenceClassification.register(MambaConfig, MambaForSequenceClassification, exist_ok=True)
