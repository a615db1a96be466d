"""From a run directory to submissions: what is public of a run, and what a report shows of it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

from pydantic import ValidationError

from slalom_bench import registry
from slalom_bench.core.hashing import canonical, short_hash
from slalom_bench.core.references import Ref
from slalom_bench.errors import StoreError, UnknownName
from slalom_bench.results.reading import PRIMARY, CellResult, read_cell, require_run
from slalom_bench.results.statistics import average_seeds, summarise
from slalom_bench.results.submission import (
    OUTSIDE,
    STEERING,
    CostInfo,
    Entry,
    ExplainerInfo,
    Machine,
    MetricInfo,
    ModelInfo,
    Origin,
    Result,
    Submission,
    TaskInfo,
    rounded,
    to_text,
)
from slalom_bench.run.store import RunStore, read_json, write_text

NOT_COMPUTED = "not computed"
NOT_EXPLAINED = "NotExplained"
"""The error of a score whose explanation failed: the explanation's own error is counted."""
COUNTS = ("queries", "forwards", "backwards", "hits", "tokens", "padding")


@dataclass(frozen=True)
class Collected:
    """A submission with the cells it was made of, in the order of its entries."""

    submission: Submission
    cells: list[list[CellResult]]


def collect(path: Path, *, unfinished: bool = False) -> list[Collected]:
    """One submission for each task, model, protocol and set of samples; cells that are not done only if asked for."""
    require_run(path)
    calls = run_calls(path)
    found: dict[str, list[tuple[list[str], CellResult]]] = {}
    waiting: list[tuple[str, CellResult]] = []
    for store in RunStore(path).cells():
        cell = read_cell(store)
        identity = dict(store.identity)
        common = canonical({k: v for k, v in identity.items() if k not in ("explainer", "seed", "budget")})
        if (store.path / "done.json").is_file():
            found.setdefault(common, []).append((read_json(store.path / "done.json")["samples"], cell))
        elif unfinished:
            waiting.append((common, cell))
        else:
            raise StoreError(f"cell {store.path.name} of {path} is not finished: run the same command again first")
    for common, cell in waiting:
        # an unfinished cell stands beside the finished ones of the most samples, with gaps
        samples = max((samples for samples, _ in found.get(common, [])), key=len, default=list(cell.explanations))
        if samples:
            found.setdefault(common, []).append((samples, cell))
    made = []
    for members in found.values():
        by_samples: dict[tuple[str, ...], list[CellResult]] = {}
        for samples, cell in members:
            by_samples.setdefault(tuple(samples), []).append(cell)
        try:
            made += [_collected(calls, samples, cells) for samples, cells in by_samples.items()]
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise StoreError(f"{path} cannot be summarised: {where}: {first['msg']} ({first['input']!r})") from error
    if not made:
        raise StoreError(f"{path} holds no finished cell yet: run its command again first")
    return sorted(made, key=lambda c: (c.submission.task.name, c.submission.model.name, c.submission.file_name))


def run_calls(path: Path) -> list[dict[str, Any]]:
    """The record of every call on a run directory."""
    calls = read_json(path / "run.json").get("calls")
    if not isinstance(calls, list) or not calls:
        raise StoreError(f"{path}/run.json records no call; run again into another --out")
    return calls


def _collected(calls: list[dict[str, Any]], samples: Sequence[str], cells: list[CellResult]) -> Collected:
    identity = cells[0].identity
    by_row: dict[tuple[str, int, int], list[CellResult]] = {}
    for cell in cells:
        version = cell.identity["explainer"]["version"]
        by_row.setdefault((cell.explainer, version, cell.identity["budget"]), []).append(cell)
    rows = [by_row[key] for key in sorted(by_row)]
    uses = _metric_uses(calls)
    labels = sorted({label for cell in cells for label in cell.metrics})
    metrics = {label: _metric(label, uses) for label in labels}
    submission = Submission(
        suite=calls[-1]["suite"]["name"],
        task=TaskInfo(**identity["task"]),
        model=_model(identity["model"]),
        protocol=identity["protocol"],
        removal=identity["removal"],
        max_tokens=identity["max_tokens"],
        samples=list(samples),
        metrics=metrics,
        entries=[_entry(row, samples, metrics) for row in rows],
        origin=_origin(calls),
    )
    return Collected(submission, rows)


def _model(identity: Mapping[str, Any]) -> ModelInfo:
    """The model without the folder that it was read from."""
    kind, colon, argument = identity["name"].partition(":")
    if colon and argument.startswith(("/", ".", "~", "\\")):
        argument = argument.replace("\\", "/").rstrip("/").rpartition("/")[2]
    return ModelInfo(name=kind + colon + argument, identity=identity["identity"], dtype=identity["dtype"])


def _metric_uses(calls: list[dict[str, Any]]) -> dict[str, Ref]:
    """Label suffix to reference of every metric that was asked for with parameters."""
    refs = [Ref.parse(text) for call in calls for text in call["suite"]["metrics"]]
    return {short_hash(dict(ref.params), 8): ref for ref in refs if ref.params}


def _metric(label: str, uses: Mapping[str, Ref]) -> MetricInfo:
    name, _, rest = label.partition("@")
    version, _, suffix = rest.partition("-")
    entry = registry.metrics.get(name)
    keys = ("direction", "unit", "headline")
    return MetricInfo(
        name=name,
        version=int(version),
        params=dict(uses[suffix].params) if suffix in uses else {},
        level=entry.level,
        summary=entry.summary,
        **{key: getattr(entry, key) for key in keys},
    )


def _entry(cells: list[CellResult], samples: Sequence[str], metrics: Mapping[str, MetricInfo]) -> Entry:
    """One row from its seeds."""
    explainer = cells[0].identity["explainer"]
    try:
        family = registry.explainers.get(explainer["name"]).family
    except UnknownName:
        family = OUTSIDE
    errors = [
        (sample, str(row["error"]["type"]))
        for cell in cells
        for rows in (cell.explanations, *(metric.rows for metric in cell.metrics.values()))
        for sample, row in rows.items()
        if row.get("error")
    ]
    failures = Counter(kind for _, kind in errors if kind != NOT_EXPLAINED)
    present = [label for label in metrics if any(label in cell.metrics for cell in cells)]
    return Entry(
        explainer=ExplainerInfo(**explainer, family=family),
        budget=cells[0].identity["budget"],
        seeds=sorted(cell.identity["seed"] for cell in cells),
        failed=len({sample for sample, _ in errors} & set(samples)),
        failures=dict(sorted(failures.items())),
        results={
            label: _result([c for c in cells if label in c.metrics], label, metrics[label].headline, samples)
            for label in present
        },
        cost=_cost(cells),
        scores_sha256=scores_hash(cells),
    )


def _result(cells: list[CellResult], label: str, headline: str, samples: Sequence[str]) -> Result:
    runs = [cell.values(label, headline) for cell in cells]
    averaged = average_seeds(runs)
    values = [rounded(averaged.values.get(sample)) for sample in samples]
    summary = summarise(values)
    missing = [sample for sample, value in zip(samples, values, strict=True) if value is None]
    reasons = Counter(_reason(cells, label, headline, sample) for sample in missing)
    names = sorted({name for cell in cells for row in cell.metrics[label].rows.values() for name in row["values"]})
    parts = {}
    for name in names:
        found = average_seeds([cell.values(label, name) for cell in cells]).values
        known = [value for sample in samples if (value := found.get(sample)) is not None]
        if name != headline and known:
            parts[name] = float(f"{fmean(known):.6g}")
    return Result(
        **vars(summary),
        spread=rounded(averaged.spread),
        reasons=dict(sorted(reasons.items())),
        values=values,
        parts=parts,
    )


def _reason(cells: list[CellResult], label: str, headline: str, sample: str) -> str:
    """Why a sample has no value, in the first seed that says so."""
    for cell in cells:
        row = cell.metrics[label].rows.get(sample)
        if row is None:
            continue
        if row.get("error"):
            return f"failed: {row['error']['type']}"
        explanation = cell.explanations.get(sample, {}).get("explanation") or {}
        key = explanation.get("primary", headline) if headline == PRIMARY else headline
        if key in row["undefined"]:
            return STEERING.sub(" ", str(row["undefined"][key]))[:200]
    return NOT_COMPUTED


def _cost(cells: list[CellResult]) -> CostInfo | None:
    rows = [row for cell in cells for key, row in cell.costs.items() if key.startswith("explain:")]
    if not rows:
        return None
    saved = [row.get("saved_seconds", 0.0) for row in rows]
    pairs = list(zip(rows, saved, strict=True))
    alone = {name: [row[name] + extra for row, extra in pairs] for name in ("model_seconds", "seconds")}
    figures = {name: fmean(row[name] for row in rows) for name in COUNTS}
    figures |= {name: fmean(values) for name, values in alone.items()}
    figures |= {"median_seconds": median(alone["seconds"]), "saved_seconds": fmean(saved)}
    return CostInfo(**{name: float(f"{value:.6g}") for name, value in figures.items()})


def scores_hash(cells: Sequence[CellResult]) -> str:
    """sha256 of every value of every metric on every sample and seed, in full precision."""
    said = {
        str(cell.identity["seed"]): {
            label: {sample: [row["values"], row["undefined"]] for sample, row in result.rows.items()}
            for label, result in cell.metrics.items()
        }
        for cell in cells
    }
    return hashlib.sha256(canonical(said).encode()).hexdigest()


def _origin(calls: list[dict[str, Any]]) -> Origin:
    """Code and machine of the calls that computed something; where the machines differ, none is named."""
    working = [call for call in calls if call.get("explained", 1)] or calls
    last = working[-1]
    machines = {canonical(call["machine"]): call["machine"] for call in working}
    (machine,) = machines.values() if len(machines) == 1 else (None,)
    return Origin(
        slalom_bench=last["slalom_bench"],
        revision=last["git"]["revision"],
        dirty=last["git"]["dirty"],
        python=last["python"],
        platform=last["platform"],
        packages=last["packages"],
        started=last["started"],
        machine=None if machine is None else Machine(**machine),
    )


def submit(run: Path, results: Path) -> list[Path]:
    """Write the submissions of a run; the same scores again are the same file."""
    written = []
    for collected in collect(run):
        written.append(results / collected.submission.file_name)
        write_text(written[-1], to_text(collected.submission))
    return written
