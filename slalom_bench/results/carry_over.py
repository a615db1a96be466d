"""Carry-over: does the order of the explainers on one model predict their order on another?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from slalom_bench.core import undefined
from slalom_bench.core.types import Floats
from slalom_bench.errors import InvalidInput
from slalom_bench.numerics.correlation import spearman
from slalom_bench.results.collect import require_results
from slalom_bench.results.quality import LEAST_METHODS
from slalom_bench.results.ranking import paired, turn
from slalom_bench.results.reading import Run
from slalom_bench.results.statistics import RESAMPLES, Scores, average_seeds, blocks, resampling_weights
from slalom_bench.results.submission import MetricInfo, Submission, task_reference
from slalom_bench.running.identity import MetricLabel

TOO_FEW = f"fewer than {LEAST_METHODS} methods in common"
NOT_RANKED = "all methods have the same mean on one side"
TAILS = (0.025, 0.5, 0.975)


@dataclass(frozen=True)
class Resampled:
    """Percentiles of a correlation over bootstrap resamples of the texts; those without a correlation are left out."""

    low: float
    median: float
    high: float


@dataclass(frozen=True)
class CarryOver:
    """How far one model's column of a metric predicts another's."""

    table: str
    """The task, budget, protocol, removal rule and cut in words."""
    models: tuple[str, str]
    metric: MetricInfo
    texts: tuple[int, int, int]
    """That all methods in common define: on the first model, on the second, on both."""
    means: Mapping[str, tuple[float, float]]
    """Of each method in common; geometric where the metric is compared on the log scale."""
    spearman: float | None = None
    interval: Resampled | None = None
    """Of `spearman`; None for fewer than two texts on either side."""
    ceiling: tuple[Resampled | None, Resampled | None] = (None, None)
    """Of either model's column with itself on resampled texts: what other texts alone would do to the order."""
    reason: str = ""
    """Why there is no correlation."""

    def to_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "table": self.table,
            "models": list(self.models),
            "metric": str(self.metric.label),
            "texts": dict(zip(("a", "b", "both"), self.texts, strict=True)),
            "means": {name: list(pair) for name, pair in self.means.items()},
            "spearman": self.spearman,
            "interval": None if self.interval is None else vars(self.interval),
            "ceiling": [None if found is None else vars(found) for found in self.ceiling],
            "reason": self.reason,
        }


@dataclass
class _Board:
    """One model on one task and budget: the scores of every metric by method (title and version), one for each row."""

    model: str
    weights: str
    content: str
    samples: Sequence[str]
    infos: dict[MetricLabel, MetricInfo] = field(default_factory=dict)
    scores: dict[MetricLabel, dict[str, list[Scores]]] = field(default_factory=dict)


def carry_over(a: Run, b: Run) -> list[CarryOver]:
    """Spearman correlation, over the methods in common, between the columns of two runs' models, metric by metric.

    Paired is what has the same task, budget, protocol, removal rule, cut and metric, of every model of `a` with every
    model of `b`; methods are the same where title and version are. Those with scores for less than half of the texts
    that others define are left out, as on a board. Means are over the texts that all methods in common define.

    Args:
        a: the run whose order is to predict, e.g. that of a mini.
        b: the run that is predicted.

    Returns:
        One number for each table, pair of models and metric, by table. Two boards of one model on the same table in
        a run, or no table in common, are errors.
    """
    left, right = _boards(a), _boards(b)
    found = [
        correlate(
            table,
            (one.model, other.model),
            one.infos[label],
            one.scores[label],
            other.scores[label],
            same_texts=one.content == other.content,
        )
        for table in left
        if table in right
        for one, other in product(left[table], right[table])
        for label, _ in sorted(one.infos.items(), key=lambda item: (item[1].order, item[0]))
        if label in other.infos
    ]
    if not found:
        raise InvalidInput(
            f"no task, budget and metric in common: {a.path} has {'; '.join(left)}, {b.path} has {'; '.join(right)}. "
            "Run both models with the same --task, --budget, --removal, --max-tokens and metrics"
        )
    return found


def _boards(run: Run) -> dict[str, list[_Board]]:
    """The boards of a run by what must be the same for two models to be compared."""
    found: dict[str, dict[str, _Board]] = {}
    for collected in require_results(run, unfinished=True):
        said = collected.submission
        for table, title, label, scores in _columns(said):
            new = _Board(said.model.name, said.model.identity, said.task.content, said.samples)
            board = found.setdefault(table, {}).setdefault(said.model.name, new)
            if (board.weights, board.content, board.samples) != (new.weights, new.content, new.samples):
                raise InvalidInput(
                    f"{run.path} holds several boards of {said.model.name} on {table}, of other texts or weights: "
                    "run one of them into a new --out"
                )
            board.infos[label] = said.metrics[label]
            board.scores.setdefault(label, {}).setdefault(title, []).append(scores)
    return {table: list(models.values()) for table, models in sorted(found.items())}


def _columns(said: Submission) -> Iterator[tuple[str, str, MetricLabel, Scores]]:
    """Table, method, metric and scores of every result that ranks explainers."""
    cut = "" if said.max_tokens is None else f" · {said.max_tokens} tokens"
    for row in said.rows:
        table = f"{task_reference(said.task)} · budget {row.budget} · {said.protocol} · {said.removal}{cut}"
        for label in row.results:
            if said.metrics[label].level == "explainer":
                yield table, f"{row.explainer.title} (v{row.explainer.version})", label, said.scores(row, label)


def correlate(
    table: str,
    models: tuple[str, str],
    info: MetricInfo,
    left: Mapping[str, Sequence[Scores]],
    right: Mapping[str, Sequence[Scores]],
    *,
    same_texts: bool = True,
    seed: int = 0,
) -> CarryOver:
    """The correlation of two columns, with its interval and ceiling.

    A resample draws the texts that both sides have, those of the first and those of the second alone, each as many as
    there are; a text of both is drawn for both. The ceiling correlates a side's resampled means with its own means.

    Args:
        table: for the result, like `models`.
        models: their names.
        info: the metric.
        left: the scores of the first model by method, averaged where there are several.
        right: those of the second.
        same_texts: whether samples of one id are one text.
        seed: of the resamples.
    """
    sides = [{name: average_seeds(rows).values for name, rows in side.items()} for side in (left, right)]
    ranked = [paired(side)[0] for side in sides]
    names = [name for name in ranked[0] if name in ranked[1]]
    texts = [_whole([side[name] for name in names]) for side in sides]
    both = set(texts[0]) & set(texts[1]) if same_texts else set()
    counts = len(texts[0]), len(texts[1]), len(both)
    if len(names) < LEAST_METHODS or not all(texts):
        return CarryOver(table, models, info, counts, {}, reason=TOO_FEW)
    x, y = (
        turn(
            np.array([[side[name][key] for name in names] for key in keys], np.float64), "lower", info.scale or "linear"
        )
        for side, keys in zip(sides, texts, strict=True)
    )
    own = x.mean(axis=0), y.mean(axis=0)
    shown = [np.exp(mean) if info.scale == "log" else mean for mean in own]
    means = {name: (float(one), float(other)) for name, one, other in zip(names, *shown, strict=True)}
    if undefined.correlation(*own):
        return CarryOver(table, models, info, counts, means, reason=NOT_RANKED)
    drawn = [
        _resampled(scores, keys, both, seed, i) for i, (scores, keys) in enumerate(zip((x, y), texts, strict=True))
    ]
    interval = _percentiles(drawn[0], drawn[1]) if min(counts[:2]) > 1 else None
    first, second = (
        _percentiles(means, np.broadcast_to(mean, means.shape)) if n > 1 else None
        for means, mean, n in zip(drawn, own, counts, strict=False)
    )
    return CarryOver(table, models, info, counts, means, spearman(*own), interval, (first, second))


def _whole(rows: Sequence[Scores]) -> list[str]:
    """The texts that all methods define, sorted: those of both sides stand in the same order."""
    return sorted(key for key in rows[0] if all(row.get(key) is not None for row in rows)) if rows else []


def _resampled(scores: Floats, keys: Sequence[str], both: set[str], seed: int, side: int) -> Floats:
    """Means (RESAMPLES x methods) of resampled texts; of those on both sides the same are drawn for either."""
    shared = np.array([key in both for key in keys])
    means = np.zeros((RESAMPLES, scores.shape[1]))
    for part, number in ((shared, 0), (~shared, 1 + side)):
        if n := int(part.sum()):
            drawn = [resampling_weights(n, *block, 3 * seed + number) @ scores[part] for block in blocks(n, RESAMPLES)]
            means += np.concatenate(drawn) * (n / len(keys))
    return means


def _percentiles(x: Floats, y: Floats) -> Resampled | None:
    """Of the Spearman correlations of the rows; None where no row has one."""
    centred = [_row_ranks(side) - (side.shape[1] + 1) / 2 for side in (x, y)]
    sizes = np.sqrt((centred[0] ** 2).sum(axis=1) * (centred[1] ** 2).sum(axis=1))
    found = (centred[0] * centred[1]).sum(axis=1)[sizes > 0] / sizes[sizes > 0]
    return Resampled(*(float(end) for end in np.quantile(found, TAILS))) if len(found) else None


def _row_ranks(x: Floats) -> Floats:
    """Average ranks inside each row, as `numerics.correlation.ranks`."""
    above = x[:, :, None] - x[:, None, :]
    ranks: Floats = (np.sign(above).sum(axis=2) + x.shape[1] + 1) / 2
    return ranks
