"""The work of one cell: explain and score sample by sample, errors as rows. It writes nothing itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from slalom_bench import registry
from slalom_bench.core.context import Context
from slalom_bench.core.types import Cost, Example, Explanation, Sample, Score
from slalom_bench.errors import InvalidInput
from slalom_bench.handle.classifier import Classifier
from slalom_bench.interfaces import Explainer, Metric
from slalom_bench.running.explaining import explain_sample
from slalom_bench.running.external import read_explanations
from slalom_bench.running.identity import MetricLabel
from slalom_bench.running.loading import Subject
from slalom_bench.running.plan import Cell, build_explainer
from slalom_bench.running.records import NOT_EXPLAINED, error_row, explanation_from_dict, pack_asked, unpack_asked
from slalom_bench.running.shapes import ScoreRow, Shape, explanation_row, why

Row = dict[str, Any]


class StoredExplanations:
    """An explainer that looks its explanations up: they were computed elsewhere and read from a file."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._explanations = read_explanations(Path(file))

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: Any) -> Explanation:
        """The explanation of this sample in the file."""
        return self._explanations[sample.id]


class CellWork:
    """The explainer and metrics of one cell, built once, applied to sample after sample."""

    def __init__(self, cell: Cell, subject: Subject) -> None:
        self.cell = cell
        self.subject = subject
        self.explainer: Explainer = (
            build_explainer(cell.explainer, cell.protocol)
            if cell.explanations is None
            else StoredExplanations(cell.explanations)
        )
        self.target = subject.target(cell)
        self.metrics: dict[MetricLabel, Metric] = {
            label: registry.metrics.build(text) for text, label in cell.labels.items()
        }
        again = None if cell.explanations is not None else self._explain_again
        self.context = Context(subject.task.data, cell.protocol, cell.seed, subject.task.memo, again, cell.max_tokens)

    def explain(self, example: Example) -> tuple[Row, Row]:
        """The row of one example's explanation or error, and the row of its cost."""
        row: Row = {"id": example.id}
        cost = Cost()
        try:
            sample = self._encode(example)
            row |= {"n": len(sample), "truncated": sample.truncated}
            outcome = explain_sample(
                self.explainer,
                self.subject.classifier,
                sample,
                budget=self.cell.budget,
                seed=self.cell.seed,
                target=self.target,
            )
            cost = outcome.cost
            explanation = outcome.unwrap()
            row["explanation"] = explanation.to_dict()
            if self.cell.explanations is None:
                row["asked"] = pack_asked(explanation.asked)
            _check(row, explanation_row)
        except Exception as error:
            row = {key: row[key] for key in ("id", "n", "truncated") if key in row}
            row["error"] = error_row(error)
        return row, {"id": f"explain:{example.id}", **cost.to_dict()}

    def score(self, example: Example, explained: Mapping[str, Any], label: MetricLabel) -> tuple[Row, Row | None]:
        """The row of one metric on one explained example, and of its cost where there was something to score."""
        stored = _explanation(explained)
        if isinstance(stored, dict):
            return {"id": example.id, **Score().to_dict(), "error": stored}, None
        cost = Cost()
        try:
            view = self.subject.classifier.targeting(stored.target)
            with view.work() as cost:
                out = self.metrics[label].score(view, self._encode(example), stored, self.context).to_dict()
                _check({"id": example.id, **out}, ScoreRow.model_validate)
        except (Exception, SystemExit) as error:
            out = {**Score().to_dict(), "error": error_row(error)}
        return {"id": example.id, **out}, {"id": f"{label}:{example.id}", **cost.to_dict()}

    def sample_row(self, example: Example) -> Row:
        """The text in the model's tokens, so that a report can show it."""
        sample = self._encode(example)
        return {
            "id": sample.id,
            "text": sample.text,
            "label": sample.label,
            "truncated": sample.truncated,
            "tokens": self.subject.classifier.tokens.words(sample.ids),
            "offsets": None if sample.offsets is None else sample.offsets.tolist(),
            "marks": None if sample.marks is None else sample.marks.tolist(),
            "marks_cut": sample.marks_cut,
        }

    def _explain_again(self, classifier: Classifier, sample: Sample) -> Explanation:
        """The explanation of another handle's target, for metrics (`Context.explain`)."""
        budget, seed = self.cell.budget, self.cell.seed
        return explain_sample(
            self.explainer, classifier, sample, budget=budget, seed=seed, target=classifier.target
        ).unwrap()

    def _encode(self, example: Example) -> Sample:
        return self.subject.sample(example, self.cell.max_tokens)


def _check(row: Row, shape: Shape) -> None:
    """Refuse a row that could not be read again (NaN, arrays, lone surrogates): an error row and no crash."""
    try:
        json.dumps(row, allow_nan=False, ensure_ascii=False).encode()
        shape(row)
    except (TypeError, ValueError) as error:
        said = why(error) if isinstance(error, ValueError) else str(error)
        raise InvalidInput(f"the result cannot be stored: {said}") from error


def _explanation(row: Mapping[str, Any]) -> Explanation | dict[str, str]:
    """The explanation of a row, or why there is none to score."""
    if "error" in row:
        return {"type": NOT_EXPLAINED, "message": row["error"]["message"]}
    try:
        return replace(explanation_from_dict(row["explanation"]), asked=unpack_asked(row.get("asked")))
    except Exception as error:
        return error_row(error)
