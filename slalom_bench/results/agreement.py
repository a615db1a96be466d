"""Agreement between explainers on the same samples, and of one explainer with itself across seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from slalom_bench.core import undefined
from slalom_bench.core.types import Explanation, Floats, Score
from slalom_bench.errors import InvalidInput
from slalom_bench.numerics.correlation import pearson, spearman, top_overlap
from slalom_bench.results.statistics import Summary, summarise

TOP = 10
MEASURES = ("spearman", "pearson", "top")


def agreement(a: Explanation, b: Explanation, *, top: int = TOP, magnitudes: bool | None = None) -> Score:
    """Spearman, Pearson and top-k overlap of two explanations' primary scores over the positions of one sample.

    `magnitudes` compares |score| of signed kinds. By default that is so where either side is unsigned (LIME against
    attention, say: False gives the second paper's plain correlation, True the one of absolute values). The overlap
    always is of the largest magnitudes.
    """
    if len(a) != len(b):
        raise InvalidInput(f"explanations of {len(a)} and {len(b)} positions are not of one sample")
    sizes = size(a), size(b)
    if magnitudes is None:
        magnitudes = any(explanation.primary in explanation.unsigned for explanation in (a, b))
    x, y = sizes if magnitudes else (a.scores[a.primary], b.scores[b.primary])
    sign = 1.0 if magnitudes or a.target == b.target else -1.0
    reason = undefined.correlation(x, y)
    return undefined.as_score(
        {
            "spearman": reason or sign * spearman(x, y),
            "pearson": reason or sign * pearson(x, y),
            "top": undefined.correlation(*sizes) or undefined.too_short(len(a), top) or top_overlap(*sizes, top),
        }
    )


def size(explanation: Explanation) -> Floats:
    """How much each position matters, whatever the direction."""
    scores = explanation.scores[explanation.primary]
    return scores if explanation.primary in explanation.unsigned else np.abs(scores)


def pairwise(
    explanations: Mapping[str, Mapping[str, Explanation]], *, top: int = TOP, magnitudes: bool | None = None
) -> dict[tuple[str, str], dict[str, Summary]]:
    """Every pair of explainers, summarised over the samples that both explained; undefined samples are counted."""
    out = {}
    for first, second in combinations(explanations, 2):
        a, b = explanations[first], explanations[second]
        scores = [agreement(a[key], b[key], top=top, magnitudes=magnitudes) for key in a if key in b]
        out[first, second] = {name: summarise(score.values.get(name) for score in scores) for name in MEASURES}
    return out


def stability(runs: Sequence[Mapping[str, Explanation]]) -> dict[str, float | None]:
    """For each sample, the mean Spearman correlation over all pairs of seeds; None where no pair has one."""
    out: dict[str, float | None] = {}
    for key in dict.fromkeys(key for run in runs for key in run):
        present = [run[key] for run in runs if key in run]
        pairs = [agreement(a, b, magnitudes=False).values.get("spearman") for a, b in combinations(present, 2)]
        found = [value for value in pairs if value is not None]
        out[key] = float(np.mean(found)) if found else None
    return out
