"""Two runs side by side: paired differences of every metric, and what else changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slalom_bench import registry
from slalom_bench.errors import InvalidInput
from slalom_bench.results.collect import run_calls
from slalom_bench.results.reading import CellResult, read_run
from slalom_bench.results.statistics import EXACT, Difference, Scores, average_seeds, compare, holm

LEVEL = 0.05


@dataclass(frozen=True)
class Change:
    """One metric of one explainer, B minus A on the samples that both define."""

    row: str
    metric: str
    direction: str
    difference: Difference
    p_adjusted: float | None
    lost: int
    """Samples that A defines and B has, undefined or failed."""

    @property
    def worse(self) -> bool:
        """Significantly worse after Holm over all comparisons, or scores lost."""
        mean = self.difference.mean
        towards_worse = mean is not None and (mean > 0 if self.direction == "lower" else mean < 0)
        return self.lost > 0 or (self.significant and towards_worse)

    @property
    def significant(self) -> bool:
        return self.p_adjusted is not None and self.p_adjusted < LEVEL

    @property
    def verdict(self) -> str:
        if self.worse:
            return f"WORSE ({self.lost} samples lost)" if self.lost else "WORSE"
        if self.significant:
            return "better"
        if not self.difference.mean:
            return "same" if self.difference.mean is not None else "no common sample"
        return "not separable"

    def to_dict(self) -> dict[str, Any]:
        return {
            "row": self.row,
            "metric": self.metric,
            "direction": self.direction,
            **vars(self.difference),
            "p_adjusted": self.p_adjusted,
            "lost": self.lost,
            "verdict": self.verdict,
        }


@dataclass(frozen=True)
class Comparison:
    changes: Sequence[Change]
    only_a: Sequence[str]
    only_b: Sequence[str]
    provenance: Sequence[tuple[str, str, str]]
    """What, in A, in B."""
    too_few: bool
    """Whether there are so few samples that no difference could be significant."""

    @property
    def worse(self) -> list[Change]:
        return [change for change in self.changes if change.worse]


def compare_runs(a: Path, b: Path) -> Comparison:
    """Pair what has the same names and settings; contents, weights and versions may differ and are reported."""
    left, right = _tables(read_run(a)), _tables(read_run(b))
    common = [key for key in left if key in right]
    if not common:
        raise InvalidInput(f"{a} and {b} have no explainer on the same task, model, budget and metric in common")
    pairs = [(key, compare(right[key], left[key]), _lost(left[key], right[key])) for key in common]
    tested = [(key, d.p) for key, d, _ in pairs if d.p is not None]
    adjusted = dict(zip((key for key, _ in tested), holm([p for _, p in tested]), strict=True))
    changes = []
    for key, difference, lost in pairs:
        name = key[1].split("@")[0]
        direction = registry.metrics.get(name).direction
        changes.append(Change(key[0], key[1], direction, difference, adjusted.get(key), lost))
    most = max((d.n for _, d, _ in pairs), default=0)
    too_few = most <= EXACT and 2.0 / 2**most * len(tested) >= LEVEL
    spell = lambda key: f"{key[0]} · {key[1]}"  # noqa: E731
    return Comparison(
        changes,
        [spell(key) for key in left if key not in right],
        [spell(key) for key in right if key not in left],
        changed_provenance(a, b),
        too_few,
    )


def _tables(cells: Sequence[CellResult]) -> dict[tuple[str, str], Scores]:
    """Headline scores by row and metric, seeds averaged within samples."""
    found: dict[tuple[str, str], list[Scores]] = {}
    for cell in cells:
        for label, metric in cell.metrics.items():
            entry = registry.metrics.get(metric.name)
            row = _row(cell, "the model itself" if entry.level == "model" else cell.explainer)
            found.setdefault((row, _unversioned(label)), []).append(cell.values(label, entry.headline))
    return {key: average_seeds(runs).values for key, runs in sorted(found.items())}


def _row(cell: CellResult, who: str) -> str:
    said = cell.identity
    cut = "" if said["max_tokens"] is None else f" · {said['max_tokens']} tokens"
    return (
        f"{said['task']['name']} · {said['model']['name']} · {who} · budget {said['budget']} · "
        f"{said['protocol']} · {said['removal']}{cut}"
    )


def _unversioned(label: str) -> str:
    """A metric's name with the hash of its parameters, without its version: that is reported as a change."""
    name, _, rest = label.partition("@")
    _, dash, suffix = rest.partition("-")
    return name + (f"@{suffix}" if dash else "")


def _lost(a: Scores, b: Scores) -> int:
    return sum(1 for sample, value in a.items() if value is not None and sample in b and b[sample] is None)


def changed_provenance(a: Path, b: Path) -> list[tuple[str, str, str]]:
    """Every fact of code, machine, data, model and versions that the two runs do not share."""
    left, right = _facts(a), _facts(b)
    keys = [*left, *(key for key in right if key not in left)]
    return [(key, left.get(key, "absent"), right.get(key, "absent")) for key in keys if left.get(key) != right.get(key)]


def _facts(path: Path) -> dict[str, str]:
    last = run_calls(path)[-1]
    found: dict[str, Any] = {"slalom-bench": last["slalom_bench"], "revision": last["git"]["revision"]}
    found |= {"uncommitted changes": last["git"]["dirty"], "python": last["python"], "platform": last["platform"]}
    found |= {f"package {name}": version for name, version in last["packages"].items()}
    found |= {f"machine {name}": value for name, value in last["machine"].items()}
    for source in last["sources"]:
        where = f"{source['task']} · {source['model']}"
        found[f"content of {source['task']}"] = source["source"]["content_hash"]
        found[f"weights of {where}"] = source["weights"]
        found[f"dtype of {where}"] = source["dtype"]
    for cell in read_run(path):
        explainer: Mapping[str, Any] = cell.identity["explainer"]
        found[f"version of explainer {explainer['name']}"] = explainer["version"]
        found[f"version of task {cell.identity['task']['name']}"] = cell.identity["task"]["version"]
        for label in cell.metrics:
            found[f"version of metric {label.split('@')[0]}"] = label.split("@")[1].split("-")[0]
    return {key: str(value) for key, value in found.items()}
