"""From a run to submissions: the one aggregation that terminal, report, comparison, export and profile are made of."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from statistics import fmean, median
from typing import Any

from pydantic import ValidationError

from slalom_bench import registry
from slalom_bench.core.halves import half_names, is_half
from slalom_bench.core.hashing import canonical
from slalom_bench.core.references import Ref
from slalom_bench.core.safe_text import plain, without_folders
from slalom_bench.errors import StoreError
from slalom_bench.results.diagnostics import average, fitting_law
from slalom_bench.results.reading import CellResult, Run
from slalom_bench.results.statistics import average_seeds, summarise
from slalom_bench.results.submission import (
    CostInfo,
    Machine,
    MetricInfo,
    MetricSummary,
    Origin,
    Submission,
    SubmittedRow,
    rounded,
    to_text,
)
from slalom_bench.running.files import write_text
from slalom_bench.running.identity import CellIdentity, ExplainerIdentity, MetricLabel, ModelIdentity
from slalom_bench.running.shapes import why

NOT_COMPUTED = "not computed"
COSTS = ("queries", "forwards", "backwards", "hits", "batches", "tokens", "padding", "model_seconds", "seconds")


@dataclass(frozen=True)
class Collected:
    """A submission with the cells that each of its rows was made of, one a seed."""

    submission: Submission
    cells: Sequence[Sequence[CellResult]]

    def rows(self) -> Iterator[tuple[SubmittedRow, Sequence[CellResult]]]:
        """Each row with its cells."""
        return zip(self.submission.rows, self.cells, strict=True)


def collect(run: Run, *, unfinished: bool = False) -> list[Collected]:
    """Aggregate a run: one submission for each task, model, protocol, removal rule, cut and set of samples.

    Args:
        run: what was read from the run directory.
        unfinished: take in cells that are not done, with gaps beside the finished ones; else they are an error.

    Returns:
        The submissions, each with its cells. Scores of metrics that are not registered here are left out:
        see `missing_metrics`.
    """
    made = []
    for samples, cells in _alike(run, unfinished):
        try:
            made.append(_collected(run.calls, samples, cells))
        except ValidationError as error:
            raise StoreError(f"{run.path} cannot be summarised: {why(error)}") from error
    return sorted(made, key=lambda c: (c.submission.task.name, c.submission.model.name, c.submission.file_name))


def require_results(run: Run, *, unfinished: bool = False) -> list[Collected]:
    """`collect`, with an error where there is nothing yet."""
    made = collect(run, unfinished=unfinished)
    if not made:
        raise StoreError(f"{run.path} holds no finished cell yet: run its command again first")
    return made


def missing_metrics(run: Run) -> list[str]:
    """What to say of metrics that have scores in the run and are not registered here: a plug-in is not installed."""
    labels = sorted({label for cell in run.cells for label in cell.scores if not registry.metrics.find(label.name)})
    return [
        f"metric {label} has scores here but is not registered: install the package that brings {label.name}"
        for label in labels
    ]


def submit(run: Run, results: Path) -> list[Path]:
    """Write the submissions of a finished run into a folder; the same scores again are the same file."""
    if missing := missing_metrics(run):
        raise StoreError(f"{run.path} cannot be submitted whole: {missing[0]}")
    written = []
    for collected in require_results(run):
        written.append(results / collected.submission.file_name)
        write_text(written[-1], to_text(collected.submission))
    return written


def _alike(run: Run, unfinished: bool) -> list[tuple[tuple[str, ...], list[CellResult]]]:
    """The cells of each submission, with their samples."""
    found: dict[str, dict[tuple[str, ...], list[CellResult]]] = {}
    waiting: list[CellResult] = []
    for cell in run.cells:
        if cell.samples is not None:
            found.setdefault(cell.identity.subject_key, {}).setdefault(cell.samples, []).append(cell)
        elif unfinished:
            waiting.append(cell)
        else:
            raise StoreError(
                f"cell {cell.identity.folder} of {run.path} is not finished: run the same command again first"
            )
    for cell in waiting:
        # an unfinished cell stands beside the finished ones of the most samples, with gaps
        known = found.setdefault(cell.identity.subject_key, {})
        samples = max(known, key=len, default=tuple(cell.explanations))
        if samples:
            known.setdefault(samples, []).append(cell)
    return [(samples, cells) for known in found.values() for samples, cells in known.items()]


def _collected(calls: Sequence[Mapping[str, Any]], samples: Sequence[str], cells: list[CellResult]) -> Collected:
    identity = cells[0].identity
    by_row: dict[tuple[str, int, int], list[CellResult]] = {}
    for cell in sorted(cells, key=lambda cell: cell.identity.seed):
        explainer = cell.identity.explainer
        by_row.setdefault((explainer.title, explainer.version, cell.identity.budget), []).append(cell)
    rows = [by_row[key] for key in sorted(by_row)]
    chosen = set(samples)
    metrics = _metrics(calls, {label for cell in cells for label in cell.scores})
    submission = Submission(
        suite=calls[-1]["suite"]["name"],
        task=identity.task.model_copy(
            update={
                "params": _public_params(identity.task.params),
                "source": without_folders(identity.task.source),
            }
        ),
        model=_public(identity.model),
        protocol=identity.protocol,
        removal=identity.removal,
        max_tokens=identity.max_tokens,
        target=identity.target,
        cut=len({sample for cell in cells for sample in cell.cut if sample in chosen}),
        samples=list(samples),
        metrics=metrics,
        rows=[_row(row, samples, metrics) for row in rows],
        origin=_origin(calls, _plugins(identity, cells)),
    )
    return Collected(submission, rows)


def _plugins(identity: CellIdentity, cells: Sequence[CellResult]) -> dict[str, str]:
    """Which other package brought what these cells are made of, by `kind name`."""
    used = {("task", identity.task.name), ("removal", identity.removal.name)}
    used |= {("model", Ref.parse(identity.model.name).name)}
    used |= {("explainer", cell.identity.explainer.name) for cell in cells}
    used |= {("metric", label.name) for cell in cells for label in cell.scores}
    installed = entry_points()  # once: every call reads the metadata of all packages
    return {
        f"{kind} {point.name}": f"{point.dist.name} {point.dist.version}"
        for kind in sorted({kind for kind, _ in used})
        for point in installed.select(group=f"slalom_bench.{kind}s")
        if (kind, point.name) in used and point.dist is not None
    }


def _public(model: ModelIdentity) -> ModelIdentity:
    """The model without the folder that it was read from."""
    ref = Ref.parse(model.name)
    name = str(Ref(ref.name, _without_folder(ref.argument), _public_params(ref.params)))
    return model.model_copy(update={"name": name, "training": without_folders(model.training)})


def _public_explainer(explainer: ExplainerIdentity) -> ExplainerIdentity:
    return explainer.model_copy(update={"params": _public_params(explainer.params)})


def _public_params(params: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _without_folder(value) for key, value in params.items()}


def _without_folder(value: Any) -> Any:
    """A parameter without the folders of this machine: of a path that begins at a root, at home or here, its end."""
    if isinstance(value, list | tuple):
        return [_without_folder(item) for item in value]
    if not isinstance(value, str):
        return value
    if re.match(r"[A-Za-z]:[\\/]|[/~\\]|\.{1,2}[\\/]", value):
        return value.replace("\\", "/").rstrip("/").rpartition("/")[2]
    return without_folders(value)


def _metrics(calls: Sequence[Mapping[str, Any]], labels: set[MetricLabel]) -> dict[MetricLabel, MetricInfo]:
    """What each label's metric declares, with the parameters that a call asked for."""
    params: dict[tuple[str, str], dict[str, Any]] = {}
    for ref in (Ref.parse(text) for call in calls for text in call["suite"]["metrics"]):
        if (asked := registry.metrics.find(ref.name)) is not None:
            given = asked.given(ref)
            params[ref.name, MetricLabel.of(ref.name, 0, given).params] = given
    found = {}
    for label in sorted(labels):
        entry = registry.metrics.find(label.name)
        if entry is not None:
            found[label] = MetricInfo(
                name=label.name,
                version=label.version,
                params=params.get((label.name, label.params), {}),
                direction=entry.direction,
                unit=entry.unit,
                headline=entry.headline,
                level=entry.level,
                summary=entry.summary,
                order=entry.order,
                curve=entry.curve,
                scale=entry.scale,
                relevant=entry.relevant,
            )
    return found


def _row(
    cells: Sequence[CellResult], samples: Sequence[str], metrics: Mapping[MetricLabel, MetricInfo]
) -> SubmittedRow:
    """One row from its seeds."""
    present = [label for label in metrics if any(label in cell.scores for cell in cells)]
    results = {
        label: _summary([c for c in cells if label in c.scores], label, metrics[label].headline, samples)
        for label in present
    }
    failures = Counter(failure.type for cell in cells for failure in cell.failures())
    reports = [report for cell in cells for report in cell.diagnostics()]
    return SubmittedRow(
        explainer=_public_explainer(cells[0].identity.explainer),
        budget=cells[0].identity.budget,
        seeds=[cell.identity.seed for cell in cells],
        failed=sum(cell.failed for cell in cells),
        failures=dict(sorted(failures.items())),
        results=results,
        cost=_cost(cells),
        scores_sha256=scores_hash(cells),
        diagnostics=average(reports),
        law=plain(fitting_law(reports)),
    )


def _summary(cells: Sequence[CellResult], label: MetricLabel, headline: str, samples: Sequence[str]) -> MetricSummary:
    averaged = average_seeds([cell.values(label, headline) for cell in cells])
    values = [rounded(averaged.values.get(sample)) for sample in samples]
    missing = [sample for sample, value in zip(samples, values, strict=True) if value is None]
    reasons = Counter(_reason(cells, label, headline, sample) for sample in missing)
    names = sorted({name for cell in cells for row in cell.scores[label].values() for name in row["values"]})
    parts = {}
    for name in names:
        found = average_seeds([cell.values(label, name) for cell in cells]).values
        known = [value for sample in samples if (value := found.get(sample)) is not None]
        if name != headline and known and not is_half(name):
            parts[name] = float(f"{fmean(known):.6g}")
    return MetricSummary(
        **vars(summarise(values)),
        spread=rounded(averaged.spread),
        reasons=dict(sorted(reasons.items())),
        values=values,
        parts=parts,
        halves=_halves(cells, label, headline, samples),
    )


def _halves(
    cells: Sequence[CellResult], label: MetricLabel, headline: str, samples: Sequence[str]
) -> list[list[float | None]]:
    """The headline value of every sample on either half of the masks; nothing where no sample has it."""
    found = [average_seeds([cell.values(label, name) for cell in cells]).values for name in half_names(headline)]
    halves = [[rounded(half.get(sample)) for sample in samples] for half in found]
    return halves if any(value is not None for half in halves for value in half) else []


def _reason(cells: Sequence[CellResult], label: MetricLabel, headline: str, sample: str) -> str:
    """Why a sample has no value, in the first seed that says so."""
    found = next((reason for cell in cells if (reason := cell.reason(label, headline, sample))), NOT_COMPUTED)
    return plain(without_folders(found))


def _cost(cells: Sequence[CellResult]) -> CostInfo | None:
    rows = [row for cell in cells for row in cell.explaining_costs()]
    if not rows:
        return None
    figures = {name: fmean(row[name] for row in rows) for name in (*COSTS, "shared", "saved_seconds")}
    figures["median_seconds"] = median(row["seconds"] for row in rows)
    return CostInfo(**{name: float(f"{value:.6g}") for name, value in figures.items()})


def scores_hash(cells: Sequence[CellResult]) -> str:
    """sha256 of every value of every metric on every sample and seed, in full precision."""
    said = {
        str(cell.identity.seed): {
            str(label): {sample: [row["values"], row["undefined"]] for sample, row in rows.items()}
            for label, rows in cell.scores.items()
        }
        for cell in cells
    }
    return hashlib.sha256(canonical(said).encode()).hexdigest()


def _origin(calls: Sequence[Mapping[str, Any]], plugins: dict[str, str]) -> Origin:
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
        plugins=plugins,
    )
