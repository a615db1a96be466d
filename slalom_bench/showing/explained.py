"""An explained text as data: what pages, plots and terminals show, and frames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from slalom_bench.core.types import Cost, Explanation, Floats, Sample
from slalom_bench.errors import UnknownName
from slalom_bench.running.records import explanation_from_dict
from slalom_bench.showing.labels import shorten
from slalom_bench.showing.shades import columns, contribution
from slalom_bench.showing.units import Reading, read

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Result:
    """What one explainer said, or why it could not."""

    explainer: str
    explanation: Explanation | None = None
    cost: Cost | None = None
    reason: str = ""
    intervals: Mapping[str, Floats] = field(default_factory=dict)
    """Where several seeds were asked for: by score, between which two numbers another seed's falls in 95 % of cases
    (n x 2, Student's prediction interval)."""

    def __repr__(self) -> str:
        said = self.reason if self.explanation is None else f"{', '.join(self.explanation.scores)}; {self.spent}"
        return f"<{self.explainer}: {said}>"

    @property
    def spent(self) -> str:
        """Queries and seconds in words."""
        if self.cost is None:
            return ""
        return f"{self.cost.queries} {'query' if self.cost.queries == 1 else 'queries'}, {self.cost.seconds:.2f} s"

    @property
    def is_slalom(self) -> bool:
        """Whether it has the two scores of SLALOM."""
        return self.explanation is not None and {"value", "importance"} <= self.explanation.scores.keys()


@dataclass(frozen=True)
class ExplainedText:
    """A text with the explanations of the log-odds of one class of one model."""

    model: str
    class_names: tuple[str, ...]
    target: int
    log_odds: float
    probability: float
    sample: Sample
    words: tuple[str, ...]
    results: tuple[Result, ...]
    seed: int
    budget: int
    note: str = ""
    """Why another model than the one asked for was used."""

    @property
    def target_name(self) -> str:
        """The name of the explained class."""
        return self.class_names[self.target]

    @property
    def done(self) -> list[tuple[Result, Explanation]]:
        """The results that are explanations."""
        return [(result, result.explanation) for result in self.results if result.explanation is not None]

    def __repr__(self) -> str:
        said = ", ".join(result.explainer for result in self.results)
        text = shorten(" ".join((self.sample.text or " ".join(self.words)).split()), 40)
        return f"<{text!r} by {self.model}: log-odds of {self.target_name} {self.log_odds:+.3f}; {said}>"

    def __getitem__(self, explainer: str | int) -> Explanation:
        """The explanation of one explainer, by its name as it was given or its place."""
        done = self.done
        if isinstance(explainer, int):
            return done[explainer][1]
        found = {result.explainer: explanation for result, explanation in done}
        if explainer not in found:
            raise UnknownName("explainer", explainer, list(found))
        return found[explainer]

    def __iter__(self) -> Iterator[Explanation]:
        return iter([explanation for _, explanation in self.done])

    def __len__(self) -> int:
        return len(self.done)

    def to_frame(self) -> pd.DataFrame:
        """Every score of every explainer: a row a token (position, token), a column a score (explainer, score)."""
        import pandas as pd

        names = {(r.explainer, name): values for r, e in self.done for name, values in e.scores.items()}
        rows = pd.MultiIndex.from_arrays([range(len(self.words)), self.words], names=["position", "token"])
        frame = pd.DataFrame(names, index=rows)
        frame.columns = pd.MultiIndex.from_tuples(list(names), names=["explainer", "score"])
        return frame

    def top(self, count: int = 5, explainer: str | int = 0) -> Any:
        """A frame of the tokens that contribute most by one explainer, strongest first, with the scores of tables.

        Where several seeds were asked for, `low` and `high` say where what a token contributes falls under another.
        """
        explanation = self[explainer]
        result = next(result for result, said in self.done if said is explanation)
        main = contribution(explanation)
        order = np.argsort(-np.abs(explanation.scores[main]), kind="stable")[:count]
        frame = self.to_frame().xs(result.explainer, axis=1, level="explainer")[columns(explanation)]
        if main in result.intervals:
            for at, (name, ends) in enumerate(zip(("low", "high"), result.intervals[main].T, strict=True), start=1):
                frame.insert(at, name, ends)
        return frame.iloc[order]

    def reading(self) -> Reading:
        """The text as a reader sees its tokens."""
        return read(self.sample, self.words)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; offsets are into `text`."""
        offsets = None if self.sample.offsets is None else self.sample.offsets.tolist()
        return {
            "model": self.model,
            "note": self.note or None,
            "class_names": list(self.class_names),
            "target": self.target,
            "log_odds": self.log_odds,
            "probability": self.probability,
            "budget": self.budget,
            "seed": self.seed,
            "text": self.sample.text,
            "truncated": self.sample.truncated,
            "ids": self.sample.ids.tolist(),
            "tokens": list(self.words),
            "offsets": offsets,
            "results": [
                {
                    "explainer": result.explainer,
                    "reason": result.reason or None,
                    "explanation": None if result.explanation is None else result.explanation.to_dict(),
                    "cost": None if result.cost is None else result.cost.to_dict(),
                    "intervals": {name: ends.tolist() for name, ends in result.intervals.items()},
                }
                for result in self.results
            ],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """What `to_dict` wrote, or `slalom-bench explain --json`: to look at it again without the model."""
        sample = Sample("text", data["ids"], data["text"], data["offsets"], truncated=data["truncated"])
        results = tuple(
            Result(
                said["explainer"],
                None if said["explanation"] is None else explanation_from_dict(said["explanation"]),
                None if said["cost"] is None else Cost(**said["cost"]),
                said["reason"] or "",
                {name: np.array(ends) for name, ends in said["intervals"].items()},
            )
            for said in data["results"]
        )
        same = {name: data[name] for name in ("model", "target", "log_odds", "probability", "seed", "budget")}
        words, names = tuple(data["tokens"]), tuple(data["class_names"])
        return cls(sample=sample, words=words, class_names=names, results=results, note=data["note"] or "", **same)
