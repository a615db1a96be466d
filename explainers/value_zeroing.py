"""Value zeroing: how much a layer's output at one token changes without another token's value vector, rolled out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slalom_bench.core.budget import require_budget
from slalom_bench.core.types import Explanation, Floats, Sample
from slalom_bench.registry import explainer

if TYPE_CHECKING:
    from slalom_bench.handle.classifier import Classifier


def rolled_out(distances: Floats) -> Floats:
    """The product of row-normalised maps (layers x length x length), the last layer leftmost.

    A row without any distance stays where it is: a token that no value changes mixes with nothing.

    >>> rolled_out(np.array([[[0.0, 0.0], [1.0, 3.0]], [[1.0, 0.0], [2.0, 2.0]]])).tolist()
    [[1.0, 0.0], [0.625, 0.375]]
    """
    length = distances.shape[-1]
    rolled = np.eye(length)
    for layer in distances:
        total = layer.sum(axis=1, keepdims=True)
        rolled = np.where(total > 0, layer / np.where(total > 0, total, 1.0), np.eye(length)) @ rolled
    return rolled


@explainer(
    "value-zeroing", version=1, needs={"attentions", "gradients", "values"}, stochastic=False, family="attention"
)
class ValueZeroing:
    """Value zeroing (Mohebbi et al. 2023): what zeroing a token's values does to each layer's output, rolled out.

    States are those of the full text; no identity is added, for the residual stream is inside y. Distances that
    rounding alone can make count as 0. Needs word embeddings (of a model with gradients), the position that is read
    (attentions) and layers whose value maps are known (values); others are skipped before a run. Costs one pass for the
    text and one for each of its positions, special tokens included: that many queries are its least budget. Unsigned,
    so without a surrogate: fidelity is undefined.

    Formula:
        C_ij = 1 - cos(y_i, y_i without the value vectors of token j), y: the output of the whole layer
        rows divided by their sums, layers multiplied; score_i = C[read, i]

    Choose it:
        Over attention maps for what flows between tokens, feed-forward layers and residuals counted; it knows no class.

    Example:
        One layer: without the first token's values the read output turns by a cosine distance of 0.3, without the
        second's by 0.1. Divided by their sum: 0.75 and 0.25.

    Reference:
        Mohebbi, Zuidema, Chrupala and Alishahi 2023, Quantifying Context Mixing in Transformers, EACL, section 3.
    """

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        """The text, then each position's zeroing, in batches that fit."""
        import torch

        from slalom_bench.backends.value_zeroing import ValueZeroing as Zeroing

        words = classifier.embed(sample)
        length = len(words)
        require_budget("value-zeroing", budget, length + 1, f"the text and one for each of {length} positions")
        zeroing = Zeroing(classifier.backend)

        def directions(rows: torch.Tensor) -> torch.Tensor:
            """Unit vectors of all layers' outputs (layers x batch x length x width) in float64."""
            classifier.log_odds_from_embeddings(rows, zeroing.logits)
            return torch.nn.functional.normalize(torch.stack(zeroing.outputs).double(), dim=-1)

        with torch.no_grad():
            full = directions(words[None])
            parts = []
            for positions in torch.arange(length, device=words.device).split(classifier.rows_per_batch(length)):
                zeroing.zeroed = positions
                # half the squared distance of unit vectors is 1 - cosine, without its cancellation
                parts.append((directions(words.expand(len(positions), -1, -1)) - full).pow(2).sum(dim=-1) / 2)
        distances = torch.cat(parts, dim=1).transpose(1, 2).cpu().numpy()
        distances[distances < classifier.rounding(1.0) ** 2 / 2] = 0.0
        scores = rolled_out(distances)[classifier.read_position(sample)][classifier.content]
        return Explanation({"mixing": scores}, "mixing", classifier.target, unsigned=frozenset({"mixing"}))
