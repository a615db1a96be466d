"""Running a suite: explain every sample of every cell, score it, keep every row. Resumable at any point."""

from __future__ import annotations

import gc
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from slalom_bench import registry
from slalom_bench.core.context import Context
from slalom_bench.core.references import Ref
from slalom_bench.core.seeds import generator
from slalom_bench.core.types import Cost, Example, Explanation, Sample, Score
from slalom_bench.errors import InvalidInput, RunStopped, SlalomBenchError, StoreError, Unsupported
from slalom_bench.run.plan import Cell, MetricUse, Plan, Skip, Subject, make_plan
from slalom_bench.run.progress import Reporter
from slalom_bench.run.provenance import now, provenance
from slalom_bench.run.records import explanation_from_dict
from slalom_bench.run.store import CellStore, RunStore
from slalom_bench.run.suite import Suite

if TYPE_CHECKING:
    from slalom_bench.core.options import ModelOptions

Mode = Literal["resume", "restart", "score-only"]


@dataclass
class RunResult:
    """What a call of `run` did, and where its results are."""

    path: Path
    suite: Suite
    plan: Plan
    explained: int = 0
    scored: int = 0
    reused: int = 0
    failed: int = 0
    """Samples whose explanation or score is an error row, in all the cells of the plan."""
    interrupted: bool = False
    repairs: list[str] = field(default_factory=list)


@contextmanager
def no_collections() -> Iterator[None]:
    """No search for garbage: a task's texts are many lasting objects, and each search looks at all there are so far."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def load_subjects(
    suite: Suite, options: ModelOptions, reporter: Reporter, token_budget: int | None = None
) -> tuple[list[Subject], list[Skip]]:
    """Load every task and model once; a model that does not fit a task is a skip, not an error."""
    from slalom_bench.data.loading import load_task
    from slalom_bench.handle.classifier import Classifier
    from slalom_bench.models.loading import load_model, resolve_model

    subjects: list[Subject] = []
    skips: list[Skip] = []
    for text in suite.tasks:
        task = Ref.parse(text)
        with no_collections():
            data = load_task(task.spec, task.params, options.data_dir)
        examples = tuple(data.evaluation[: suite.samples])
        note = f" ({data.source.note})" if data.source.note else ""
        reporter.say(
            f"task {task}: {len(examples)} of {len(data.evaluation)} texts from {data.source.kind} {data.source.name}, "
            f"content {data.source.content_hash[:12]}{note}"
        )
        if len(examples) < suite.samples:
            reporter.say(f"  fewer than the {suite.samples} samples asked for", style="yellow")
        for requested in suite.models:
            try:
                actual, reason = resolve_model(requested, data, options)
                classifier = Classifier(
                    load_model(actual, data, options),
                    token_budget=token_budget,
                    removal=registry.removals.build(suite.removal),
                )
            except Unsupported as error:
                skips.append(Skip(f"{task} · {requested}", str(error)))
                continue
            note = f"{requested} could not be had ({reason})" if actual != requested else reason
            reporter.say(
                f"model {actual}: {classifier.backend.dtype} on {classifier.backend.device}, "
                f"weights {classifier.identity()[:12]}" + (f"; {note}" if note else "")
            )
            subjects.append(Subject(task, data, actual, classifier, examples, note))
    if not subjects:
        reasons = "; ".join(f"{skip.what}: {skip.reason}" for skip in skips)
        raise InvalidInput(f"nothing to run: {reasons}")
    return _distinct(subjects), skips


def _distinct(subjects: list[Subject]) -> list[Subject]:
    """Two requested models may resolve to one."""
    return list({(str(s.task), s.classifier.identity()): s for s in reversed(subjects)}.values())[::-1]


def run_suite(
    suite: Suite,
    out: Path,
    options: ModelOptions,
    *,
    mode: Mode = "resume",
    token_budget: int | None = None,
    reporter: Reporter | None = None,
    command: list[str] | None = None,
) -> RunResult:
    """Load, plan, then run every cell into the run directory `out`."""
    reporter = reporter or Reporter(show=False)
    suite.check_names()
    with RunStore(out).locked() as store:
        subjects, skips = load_subjects(suite, options, reporter, token_budget)
        plan = make_plan(suite, subjects, skips)
        for skip in plan.skips:
            reporter.say(f"skipped {skip.what}: {skip.reason}", style="yellow")
        say_costs(plan, reporter)
        return Runner(suite, plan, store, mode, reporter).run(command)


def say_costs(plan: Plan, reporter: Reporter) -> None:
    """Where queries cost money, what the plan may cost at most, before the first one is sent."""
    for subject in plan.subjects():
        estimate = getattr(subject.classifier.backend, "estimate", None)
        if estimate is not None:
            queries = sum(cell.budget * len(subject.examples) for cell in plan.cells if cell.subject is subject)
            sequences = [subject.classifier.encode(example).ids for example in subject.examples]
            amounts = estimate(queries, sequences).items()
            parts = ", ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in amounts)
            reporter.say(f"model {subject.model}: at most {parts} to explain; metrics come on top")


class Runner:
    """One call on one run directory."""

    def __init__(self, suite: Suite, plan: Plan, store: RunStore, mode: Mode, reporter: Reporter) -> None:
        self.store = store
        self.mode = mode
        self.reporter = reporter
        self.result = RunResult(store.path, suite, plan)
        self._memos: dict[int, dict[tuple[Any, ...], Any]] = {}

    def run(self, command: list[str] | None = None) -> RunResult:
        result = self.result
        device = result.plan.cells[0].subject.classifier.backend.device if result.plan.cells else "cpu"
        call = {"suite": result.suite.model_dump(mode="json"), "mode": self.mode, **provenance(device, command)}
        call["skips"] = [{"what": skip.what, "reason": skip.reason} for skip in result.plan.skips]
        call["sources"] = self._sources()
        self.store.open(call)
        self._keep_samples()
        samples = sum(len(cell.subject.examples) for cell in result.plan.cells)
        try:
            with self.reporter.running(len(result.plan.cells), samples):
                for cell in result.plan.cells:
                    self.run_cell(cell)
        except KeyboardInterrupt:
            result.interrupted = True
        reporting = [s for s in result.plan.subjects() if hasattr(s.classifier.backend, "report")]
        self.store.finish(
            {
                "backends": {s.model: s.classifier.backend.report() for s in reporting},  # type: ignore[attr-defined]
                "ended": now(),
                "explained": result.explained,
                "scored": result.scored,
                "reused": result.reused,
                "failed": result.failed,
                "interrupted": result.interrupted,
            }
        )
        return result

    def _sources(self) -> list[dict[str, Any]]:
        """Data and model of every subject, for the run's provenance."""
        return [
            {
                "task": str(s.task),
                "source": vars(s.data.source),
                "model": s.model,
                "weights": s.classifier.identity(),
                "class_names": list(s.classifier.class_names),
                "dtype": s.classifier.backend.dtype,
                "device": s.classifier.backend.device,
                "note": s.note,
                "token_budget": s.classifier.token_budget,
            }
            for s in self.result.plan.subjects()
        ]

    def _keep_samples(self) -> None:
        """The texts in the model's tokens, so that a report can show them; a text that cannot be encoded has no row."""
        cells = {(id(cell.subject), cell.identity["max_tokens"]): cell for cell in self.result.plan.cells}
        for cell in cells.values():
            rows = self.store.samples(cell.identity)
            for example in cell.subject.examples:
                if example.id in rows.rows:
                    continue
                try:
                    sample = cell.subject.sample(example, cell.identity["max_tokens"])
                except InvalidInput:
                    continue
                rows.append(
                    {
                        "id": sample.id,
                        "text": sample.text,
                        "label": sample.label,
                        "truncated": sample.truncated,
                        "tokens": cell.subject.classifier.tokens.words(sample.ids),
                        "offsets": None if sample.offsets is None else sample.offsets.tolist(),
                        "marks": None if sample.marks is None else sample.marks.tolist(),
                    }
                )
            rows.sync()

    def run_cell(self, cell: Cell) -> None:
        """Finish one cell: the missing explanations, then the missing scores, sample by sample."""
        store = self.store.cell(cell.identity, restart=self.mode == "restart")
        ids = [example.id for example in cell.subject.examples]
        labels = [use.label for use in cell.metrics]
        missing = [e for e in cell.subject.examples if not self._is_done(store, e.id, labels)]
        tables = (store.explanations, store.costs, *(store.scores(label) for label in labels))
        self.result.repairs += [table.repaired for table in tables if table.repaired]
        self.reporter.cell(cell.title, len(missing), len(ids))
        self.result.reused += len(ids) - len(missing)
        if missing:
            store.uncommit()
            work = CellWork(cell, store, self._memos.setdefault(id(cell.subject.data), {}))
            try:
                for done, example in enumerate(missing, start=1):
                    explained, scored = work.sample(example, explain=self.mode != "score-only")
                    self.result.explained += explained
                    self.result.scored += scored
                    self.reporter.sample(done, len(missing))
            finally:
                store.sync()
        if store.explanations.rows.keys() >= set(ids):
            store.commit(ids, labels)
        self.result.failed += count_failed(store, ids, labels)
        self.reporter.cell_done()

    def _is_done(self, store: CellStore, sample: str, labels: list[str]) -> bool:
        if sample not in store.explanations.rows:
            return self.mode == "score-only"
        return all(sample in store.scores(label).rows for label in labels)


def count_failed(store: CellStore, ids: list[str], labels: list[str]) -> int:
    """Samples of a cell with an error row anywhere."""
    tables = [store.explanations, *(store.scores(label) for label in labels)]
    return sum(1 for i in ids if any(table.rows.get(i, {}).get("error") for table in tables))


class CellWork:
    """The explainer and metrics of one cell, built once, applied to sample after sample."""

    def __init__(self, cell: Cell, store: CellStore, memo: dict[tuple[Any, ...], Any]) -> None:
        self.cell = cell
        self.store = store
        self.explainer = cell.make_explainer()
        self.metrics: list[tuple[MetricUse, Any]] = [(use, use.entry.build(use.ref.params)) for use in cell.metrics]
        self.context = Context(cell.subject.data, cell.identity["protocol"], cell.seed, memo)

    def sample(self, example: Example, *, explain: bool) -> tuple[int, int]:
        """Explain (unless stored) and score (where not stored) one example; errors become rows."""
        explained = scored = 0
        row = self.store.explanations.rows.get(example.id)
        if row is None and explain:
            row = self._explain(example)
            explained = 1
        if row is None:
            return 0, 0
        # a score without its explanation (a power cut may lose it) is of another one than was now computed
        missing = [
            part for part in self.metrics if explained or example.id not in self.store.scores(part[0].label).rows
        ]
        stored = read_explanation(row) if missing else {}
        for use, metric in missing:
            self.store.scores(use.label).append({"id": example.id, **self._score(use, metric, example, stored)})
            scored += 1
        return explained, scored

    def _explain(self, example: Example) -> dict[str, Any]:
        classifier = self.cell.subject.classifier
        rng = generator(self.cell.seed, "explain", example.id)
        row: dict[str, Any] = {"id": example.id}
        cost = Cost()
        try:
            sample = self._encode(example)
            view = classifier.targeting(classifier.default_target(sample))
            row |= {"n": len(sample), "truncated": sample.truncated}
            with view.work(self.cell.budget) as cost:
                explanation = self.explainer.explain(view, sample, self.cell.budget, rng)
            if len(explanation) != len(sample):
                raise InvalidInput(f"{len(explanation)} scores for {len(sample)} tokens")
            row["explanation"] = explanation.to_dict()
        except Exception as error:
            row["error"] = describe(error)
        self.store.costs.append({"id": f"explain:{example.id}", **cost.to_dict()})
        self.store.explanations.append(row)
        return row

    def _score(
        self, use: MetricUse, metric: Any, example: Example, stored: Explanation | dict[str, str]
    ) -> dict[str, Any]:
        if isinstance(stored, dict):
            return {**Score().to_dict(), "error": stored}
        classifier = self.cell.subject.classifier
        cost = Cost()
        try:
            view = classifier.targeting(stored.target)
            with view.work() as cost:
                score: Score = metric.score(view, self._encode(example), stored, self.context)
            out = score.to_dict()
        except Exception as error:
            out = {**Score().to_dict(), "error": describe(error)}
        self.store.costs.append({"id": f"{use.label}:{example.id}", **cost.to_dict()})
        return out

    def _encode(self, example: Example) -> Sample:
        return self.cell.subject.sample(example, self.cell.identity["max_tokens"])


def read_explanation(row: dict[str, Any]) -> Explanation | dict[str, str]:
    """The explanation of a row, or why there is none to score."""
    if "error" in row:
        return {"type": "NotExplained", "message": row["error"]["message"]}
    try:
        return explanation_from_dict(row["explanation"])
    except Exception as error:
        return describe(error)


def describe(error: Exception) -> dict[str, str]:
    """An error as a row keeps it, an unexpected one with its traceback; what must stop a run is raised again."""
    if isinstance(error, StoreError | RunStopped):
        raise error
    found = {"type": type(error).__name__, "message": str(error)}
    if not isinstance(error, SlalomBenchError):
        found["traceback"] = "".join(traceback.format_exception(error))[-2000:]
    return found
