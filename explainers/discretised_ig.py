"""Discretised integrated gradients: a path to each word that passes close to other words of the vocabulary."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slalom_bench.core.budget import require_budget
from slalom_bench.core.parameters import Count
from slalom_bench.core.types import Explanation, Sample
from slalom_bench.explainers.gradients import origin
from slalom_bench.handle.backend import gradient_backend
from slalom_bench.registry import explainer
from slalom_bench.surrogates.linear import LinearSurrogate

if TYPE_CHECKING:
    import torch

    from slalom_bench.handle.classifier import Classifier


_ENTRIES = 2**24
"""Numbers that the neighbours of the words looked at together may have: 64 MB in single precision."""


def monotonised(anchors: torch.Tensor, word: torch.Tensor, base: torch.Tensor, steps: int) -> torch.Tensor:
    """Anchors with every component that does not lie between word and baseline put a step from the word towards it.

    Args:
        anchors: candidates (.. x k x width).
        word: where the path has come to (.. x width).
        base: where it ends (width, or .. x width).
        steps: of the path: the step is 1/steps of the way.
    """
    import torch

    here, there = word.unsqueeze(-2), base.unsqueeze(-2)
    between = (torch.minimum(here, there) <= anchors) & (anchors <= torch.maximum(here, there))
    return torch.where(between, anchors, here + (there - here) / steps)


def paths(words: torch.Tensor, base: torch.Tensor, vocabulary: torch.Tensor, steps: int, near: int) -> torch.Tensor:
    """Monotone paths from the baseline to each word (steps + 1 x words x width), the greedy strategy.

    Each step goes to that of the `near` nearest words, none twice, which is changed least by being monotonised.
    Neighbours are those of the word stepped to last, as published, not of its monotonised place.

    Args:
        words: distinct embeddings (words x width).
        base: the baseline's embedding (width).
        vocabulary: embeddings of words that may be stepped to (v x width).
        steps: of a path.
        near: how many nearest words are looked at.
    """
    import torch

    norms = vocabulary.pow(2).sum(dim=1)
    rows = torch.arange(len(words), device=words.device)
    at = (norms - 2 * words @ vocabulary.T).argmin(dim=1)
    used = torch.zeros(len(words), len(vocabulary), dtype=torch.bool, device=words.device)
    used[rows, at] = True
    used |= (vocabulary == base).all(dim=1)
    here, points = words, [words]
    for _ in range(steps - 1):
        distance = (norms - 2 * vocabulary[at] @ vocabulary.T).masked_fill(used, torch.inf)
        chosen = distance.topk(min(near, len(vocabulary)), largest=False)
        anchors = vocabulary[chosen.indices]
        moved = monotonised(anchors, here, base.expand_as(here), steps)
        change = (moved - anchors).pow(2).sum(dim=-1).masked_fill(chosen.values.isinf(), torch.inf)
        best = change.argmin(dim=1)
        at = chosen.indices[rows, best]
        used[rows, at] = True
        here = torch.where(chosen.values[rows, best].isinf()[:, None], base.expand_as(here), moved[rows, best])
        points.append(here)
    return torch.stack([base.expand_as(words), *reversed(points)])


@explainer("discretised-ig", version=1, needs={"gradients"}, stochastic=False, family="gradient")
class DiscretisedIG:
    """Discretised integrated gradients (Sanyal and Ren 2021): along a path that passes close to real words.

    On the way there are, for each token, words of the vocabulary (those near the last one, none twice, that change
    least when made monotone, the greedy strategy), each component of which that leads back is put 1/m of the way from
    the point before towards the baseline. Left sums over m points, as published: the scores add up to F(text) -
    F(baseline) as m grows and the largest step shrinks, which here it need not: `completeness_gap` says how far.
    Special tokens stay. Needs gradients and a budget of at least 3: the points and the text. Sequential integrated
    gradients (Enguehard 2023) are not here: a token's score there is F(text) - F(text with that token at the baseline)
    but for quadrature error, leave-one-out at the embedding at 30 times its cost.

    Formula:
        score_i = sum over k = 0..m-1 of (p_i,k+1 - p_i,k) . dF/dx_i at p_k
        p_0: the baseline; p_m: the text; between them points close to words of the vocabulary

    Choose it:
        Over `integrated-gradients` where embeddings between words are thought to mislead; look at `completeness_gap`.

    Example:
        One number from 0 to 3 by way of a word at 1, F = x^2: (1 - 0) x 0 + (3 - 1) x 2 = 4, while F(3) - F(0) = 9: the
        gap of two large steps is -5.

    Args:
        steps: m; fewer where the budget allows no more.
        near: how many nearest words are looked at.
        baseline: the embedding that content tokens begin from: `zero`, `pad` or `mask` (where there is one).

    Reference:
        Sanyal and Ren 2021, Discretized Integrated Gradients for Explaining Language Models, EMNLP, section 3.
    """

    def __init__(self, steps: Count = 30, near: Count = 500, baseline: str = "pad") -> None:
        self.steps = steps
        self.near = near
        self.baseline = baseline

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        """The paths of the distinct tokens, then all points of the way and the text at once."""
        import torch

        require_budget("discretised-ig", budget, 3, "two points and the text")
        steps = min(self.steps, budget - 1)
        words = classifier.embed(sample)
        content = classifier.content
        start = origin(self.baseline, classifier, sample, words)
        _, first, of = np.unique(sample.ids, return_index=True, return_inverse=True)
        table = gradient_backend(classifier.backend).vocabulary()
        parts = words[content][first].split(max(1, _ENTRIES // (self.near * words.shape[1])))
        found = torch.cat([paths(part, start[content][0], table, steps, self.near) for part in parts], dim=1)
        points = words.repeat(steps + 1, 1, 1)
        points[:, content] = found[:, of]
        values, grads = classifier.gradients(points[:-1])
        (full,) = classifier.log_odds([sample.ids])
        scores = (grads.double() * points.diff(dim=0)).sum(dim=(0, 2)).cpu().numpy()[content]
        change = float(full - values[0])
        gap = float(scores.sum()) - change
        return Explanation(
            {"attribution": scores},
            "attribution",
            classifier.target,
            surrogate=LinearSurrogate.from_full(scores, float(full)),
            diagnostics={"steps": steps, "change": change, "completeness_gap": gap},
        )
