"""The attestation: a record that someone computed rows of a submission again and found the same, and on what machine.

It is worth what its writer is: the folder `leaderboards/results/attested/` belongs to the code owners.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from slalom_bench.errors import InvalidInput
from slalom_bench.results.near import WIDEST, distances
from slalom_bench.results.recomputing import Recomputation
from slalom_bench.results.strict_json import read_record
from slalom_bench.results.submission import Label, Machine, Submission, Time, spell
from slalom_bench.running.files import write_text
from slalom_bench.running.identity import Count, Name, Record, Text

FOLDER = "attested"
"""Beside the submissions."""


class AttestedRow(Record):
    """A row that came out again."""

    row: Name
    """`SubmittedRow.key`."""
    title: Text
    metrics: Annotated[list[Label], Field(min_length=1)]
    values: Count
    """How many were compared."""
    largest: Annotated[float, Field(ge=0)]
    """The largest difference, as a share of a value's size."""


class Attestation(Record):
    """What was computed again of one submission, by whom, on what, and how far it was from what was submitted."""

    kind: Literal["slalom-bench attestation"] = "slalom-bench attestation"
    schema_version: Literal[1] = 1
    submission: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    """Its fingerprint: a submission that says anything else is not attested."""
    by: Text
    """As they call themselves; empty where they did not say."""
    machine: Machine
    slalom_bench: Name
    revision: Text | None
    dirty: bool | None
    started: Time
    samples: Annotated[Count, Field(ge=1)]
    """How many were computed again; chosen at random with this seed, of as many as were submitted."""
    of: Count
    seed: Count | None
    """None: all were."""
    rows: Annotated[list[AttestedRow], Field(min_length=1)]

    @property
    def file_name(self) -> str:
        """One for each submission and machine."""
        return f"{self.submission}-{self.machine.fingerprint}.json"

    def row(self, key: str) -> AttestedRow | None:
        """What it says of a row; None where it says nothing."""
        return next((row for row in self.rows if row.row == key), None)


class Again(NamedTuple):
    """A row that was computed again, and the record that says so."""

    record: Attestation
    row: AttestedRow


def attest(
    submission: Submission, found: Recomputation, seed: int | None, call: Mapping[str, Any], by: str = ""
) -> Attestation:
    """The record of a recomputation in which nothing was off, by more than rounding explains.

    Args:
        submission: what was computed again.
        found: how that compares.
        seed: by which the samples were chosen; None where all were taken.
        call: code, machine and time: see `slalom_bench.running.provenance`.
        by: who.
    """
    rows = []
    for row in submission.rows:
        own = [value for value in found.values if value.row == row.title]
        metrics = [label for label in row.results if any(value.metric == label for value in own)]
        if metrics:
            parts = [[value for value in own if value.metric == label] for label in metrics]
            far = [distances([v.computed for v in part], [v.submitted for v in part]) for part in parts]
            rows.append(
                AttestedRow(
                    row=row.key,
                    title=row.title,
                    metrics=metrics,
                    values=len(own),
                    largest=float(f"{max(max(part) for part in far):.3g}"),
                )
            )
    if off := [row for row in rows if row.largest > WIDEST]:
        raise InvalidInput(
            f"not attested: {off[0].title} differs by {off[0].largest:g} of a value, which is no rounding"
        )
    return Attestation(
        submission=submission.fingerprint,
        by=by,
        machine=Machine(**call["machine"]),
        slalom_bench=call["slalom_bench"],
        revision=call["git"]["revision"],
        dirty=call["git"]["dirty"],
        started=call["started"],
        samples=len(found.samples),
        of=len(submission.samples),
        seed=seed,
        rows=rows,
    )


def write_attestation(made: Attestation, results: Path) -> Path:
    """Write it beside the submissions of a folder; a machine's later one takes the place of its earlier."""
    path = results / FOLDER / made.file_name
    write_text(path, spell(made.model_dump(mode="json")) + "\n")
    return path


def read_attestations(
    results: Path, submissions: Sequence[Submission], left_out: list[str] | None = None
) -> dict[str, list[Attestation]]:
    """The attestations of a folder of submissions, by fingerprint; `left_out` as in `read_results`."""
    known = {submission.fingerprint: submission for submission in submissions}
    found: dict[str, list[Attestation]] = {}
    for path in sorted((results / FOLDER).glob("*.json")):
        try:
            made = read_record(path, Attestation, "verify --attest")
            if wrong := _problem(made, known.get(made.submission), path.name):
                raise InvalidInput(f"{path}: {wrong}")
        except InvalidInput as error:
            if left_out is None:
                raise
            left_out.append(str(error))
        else:
            found.setdefault(made.submission, []).append(made)
    return found


def _problem(made: Attestation, submission: Submission | None, file_name: str) -> str:
    """The first thing in it that does not fit its name or its submission."""
    if file_name != made.file_name:
        return f"the file must be named {made.file_name}, as its content says"
    if submission is None:
        return f"there is no submission {made.submission} beside it; delete it"
    if (made.of, made.seed is None) != (len(submission.samples), made.samples == made.of):
        return f"{made.samples} of {made.of} samples with seed {made.seed} do not fit {len(submission.samples)}"
    rows = {row.key: row for row in submission.rows}
    if len({row.row for row in made.rows}) != len(made.rows):
        return "a row is given twice"
    for row in made.rows:
        if row.row not in rows or not set(row.metrics) <= set(rows[row.row].results):
            return f"the submission has no row {row.title} with these metrics"
        if row.largest > WIDEST:
            return f"{row.title}: a difference of {row.largest:g} of a value is no rounding"
        if row.values != made.samples * len(set(row.metrics)):
            return f"{row.title}: {row.values} values of {made.samples} samples and {len(row.metrics)} metrics"
    return ""
