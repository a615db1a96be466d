"""Agreement between explainers on the same samples, and of one explainer with itself across seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from slalom_bench.core import undefined
from slalom_bench.core.types import Explanation, Floats, Score
from slalom_bench.errors import InvalidInput
from slalom_bench.numerics.correlation import pearson, spearman, top_overlap
from slalom_bench.results.reading import CellResult, Run
from slalom_bench.results.statistics import Summary, summarise

TOP = 10
MEASURES = ("spearman", "pearson", "top")


@dataclass(frozen=True)
class TableAgreement:
    """How far the explainers on one task, model and budget agree, and each with itself across seeds."""

    title: str
    pairs: Mapping[tuple[str, str], Mapping[str, Summary]]
    stability: Mapping[str, Summary]
    """Of explainers that were run with several seeds."""

    def to_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "group": self.title,
            "pairs": [
                {"a": a, "b": b, **{name: vars(summary) for name, summary in measures.items()}}
                for (a, b), measures in self.pairs.items()
            ],
            "stability": {name: vars(summary) for name, summary in self.stability.items()},
        }


def run_agreement(run: Run, *, top: int = TOP, magnitudes: bool | None = None) -> list[TableAgreement]:
    """Agreement in every table of a run, from the stored explanations.

    Args:
        run: the run.
        top: the size of the sets that the overlap compares.
        magnitudes: compare |score|; None: only where one side is unsigned.

    Returns:
        For each table the pairs of explainers in their first seed, and the stability of each over all seeds.
    """
    made = []
    for cells in run.tables():
        seeds: dict[str, list[Mapping[str, Explanation]]] = {}
        for cell in cells:
            seeds.setdefault(_name(cell, cells), []).append(cell.explained())
        identity = cells[0].identity
        made.append(
            TableAgreement(
                f"{identity.task.name} · {identity.model.name} · budget {identity.budget}",
                pairwise({name: runs[0] for name, runs in seeds.items()}, top=top, magnitudes=magnitudes),
                {name: summarise(stability(runs).values()) for name, runs in seeds.items() if len(runs) > 1},
            )
        )
    return made


def _name(cell: CellResult, cells: Sequence[CellResult]) -> str:
    """The explainer's title, with its version where the table has several."""
    explainer = cell.identity.explainer
    versions = {c.identity.explainer.version for c in cells if c.identity.explainer.title == explainer.title}
    return explainer.title if len(versions) == 1 else f"{explainer.title} (v{explainer.version})"


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
