"""Models whose output is known in closed form: a bag of words, and a transformer that is a SLALOM."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from slalom_bench.backends.torch_backend import DifferentiableBackend, two_columns
from slalom_bench.core.tokens import WordTokens
from slalom_bench.core.types import Ints


class BagOfWordsNet(nn.Module):
    """F = bias + sum of one weight per attended token: additive in tokens and in their embeddings."""

    def __init__(self, weights: Sequence[float], bias: float) -> None:
        super().__init__()
        self.bias: torch.Tensor
        self.words = nn.Embedding.from_pretrained(torch.tensor(weights, dtype=torch.float32)[:, None], freeze=True)
        self.register_buffer("bias", torch.tensor(float(bias)))

    def forward(self, mask: torch.Tensor | None, words: torch.Tensor) -> torch.Tensor:
        """One logit (batch x 1) of word embeddings (batch x length x 1)."""
        kept = words if mask is None else words * mask[..., None]
        return kept.sum(dim=1) + self.bias


class SlalomNet(nn.Module):
    """The transformer layer of proposition 5.1 with key and query the right way round.

    Embeddings are (importance, value, 0). W_q = 0, b_q = sqrt(d_k) e_1 and W_k = I make every attention score the
    key token's importance; the value map moves component 2 to 3; the head reads component 3.
    """

    def __init__(self, importance: Sequence[float], value: Sequence[float]) -> None:
        super().__init__()
        table = torch.tensor([importance, value, [0.0] * len(value)], dtype=torch.float32).T.contiguous()
        self.words = nn.Embedding.from_pretrained(table, freeze=True)
        self.query = nn.Linear(3, 3)
        self.key = nn.Linear(3, 3, bias=False)
        self.move = nn.Linear(3, 3, bias=False)
        self.head = nn.Linear(3, 1, bias=False)
        with torch.no_grad():
            self.query.weight.zero_()
            self.query.bias.copy_(torch.tensor([math.sqrt(3.0), 0.0, 0.0]))
            self.key.weight.copy_(torch.eye(3))
            self.move.weight.zero_()
            self.move.weight[2, 1] = 1.0
            self.head.weight.copy_(torch.tensor([[0.0, 0.0, 1.0]]))

    def attention(self, mask: torch.Tensor | None, words: torch.Tensor) -> torch.Tensor:
        """Who attends to whom (batch x length x length)."""
        scores = self.query(words) @ self.key(words).transpose(1, 2) / math.sqrt(3.0)
        if mask is not None:
            scores = scores.masked_fill(mask[:, None, :] == 0, -torch.inf)
        return scores.softmax(dim=-1)

    def attended(self, words: torch.Tensor, attention: torch.Tensor) -> torch.Tensor:
        """One logit (batch x 1) of word embeddings (batch x length x 3) under an attention map."""
        states = words + attention @ self.move(words)
        return self.head(states[:, 0])

    def forward(self, mask: torch.Tensor | None, words: torch.Tensor) -> torch.Tensor:
        """One logit (batch x 1) of word embeddings (batch x length x 3)."""
        return self.attended(words, self.attention(mask, words))


class _ClosedForm(DifferentiableBackend):
    """A closed-form net over whitespace words."""

    module: BagOfWordsNet | SlalomNet

    def __init__(self, module: BagOfWordsNet | SlalomNet, tokens: WordTokens, name: str) -> None:
        super().__init__(module.eval(), tokens, name=name, class_names=("negative", "positive"), max_length=None)

    def forward(self, module: nn.Module, mask: torch.Tensor | None, **inputs: torch.Tensor) -> torch.Tensor:
        """One logit (batch x 1): see `TorchBackend.forward`."""
        words = inputs["inputs_embeds"] if "inputs_embeds" in inputs else self.module.words(inputs["input_ids"])
        return module(mask, words)

    def word_embeddings(self) -> nn.Module:
        """The fixed table of words."""
        return self.module.words


class BagOfWordsBackend(_ClosedForm):
    """A bag of words: queries and gradients."""

    module: BagOfWordsNet


class SlalomBackend(_ClosedForm):
    """The SLALOM transformer, read at its first position; it has attention as well."""

    module: SlalomNet
    capabilities = frozenset({"queries", "gradients", "attentions"})

    def attended_logits(self, words: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Differentiable logits, and the map of its one layer and one head (batch x 1 x length x length)."""
        attention = self.module.attention(None, words)[:, None]
        return two_columns(self.module.attended(words, attention[:, 0])), [attention]

    def attentions(self, sequence: Ints) -> NDArray[np.floating]:
        """The map of its one layer and one head (1 x 1 x length x length)."""
        with torch.inference_mode():
            return self.module.attention(None, self.embed(sequence)[None])[None].numpy(force=True)[:, :1]

    def read_position(self, length: int) -> int:
        """The first."""
        return 0


def bag_of_words(weights: Mapping[str, float], bias: float = 0.0, *, specials: bool = False) -> BagOfWordsBackend:
    """F(text) = bias + sum of the words' weights; with `specials`, [CLS] and [SEP] of weight 0 stand round it."""
    template = {"prefix": ["[CLS]"], "suffix": ["[SEP]"]} if specials else {}
    tokens = WordTokens(list(weights), **template)
    table = [weights.get(word, 0.0) for word in tokens.strings]
    return BagOfWordsBackend(BagOfWordsNet(table, bias), tokens, "bag-of-words")


def slalom_transformer(value: Mapping[str, float], importance: Mapping[str, float]) -> SlalomBackend:
    """A transformer whose log-odds are exactly SLALOM's, for every word's (value, importance)."""
    tokens = WordTokens(list(value))
    table = [[source.get(word, 0.0) for word in tokens.strings] for source in (importance, value)]
    return SlalomBackend(SlalomNet(*table), tokens, "slalom-transformer")
