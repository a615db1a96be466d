"""`slalom-bench verify`: whether a submission holds together, and whether its numbers come out again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from slalom_bench.core.options import ModelOptions
    from slalom_bench.results.reading import Run
    from slalom_bench.results.recomputing import Recomputation
    from slalom_bench.results.submission import Submission

ALL = "all"
LONGEST = 200
DIGITS = 10


def verify_command(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files that `slalom-bench submit` wrote.")],
    recompute: Annotated[str, typer.Option(help="Compute so many samples again, chosen at random, or `all`.")] = "0",
    seed: Annotated[
        int | None, typer.Option(min=0, help="Which samples, to repeat an earlier choice; else nobody can know it.")
    ] = None,
    attest: Annotated[
        bool, typer.Option("--attest", help="Write the record of what came out again, for the leaderboard.")
    ] = False,
    by: Annotated[str, typer.Option(help="Who you are, for that record; the machine is in it anyway.")] = "",
    run: Annotated[Path | None, typer.Option(help="Check that this run directory holds the submitted scores.")] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(min=0.0, help="Largest difference, as a share of a value; else half the digits of the dtype."),
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="The task as it is called here, e.g. text:reviews.csv; else as in the file.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="The model as it is called here, e.g. hf:./checkpoint; else as in the file.")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N, mps or auto.")] = "auto",
    data_dir: Annotated[Path | None, typer.Option(help="Folder with the data; else SLALOM_BENCH_DATA.")] = None,
) -> None:
    """Check submissions: schema, names, ranges, and that means and intervals follow from the scores in the file.

    With --recompute N so many samples, chosen by a seed that no submitter can know, are explained and scored again on
    the same texts and the same weights, and every value is compared. --attest writes that down, in the folder
    `attested` beside the file. Exit code 1 if anything does not hold.

    Examples:

      slalom-bench verify leaderboards/results/*.json

      slalom-bench verify leaderboards/results/imdb_mini-bert-0123456789abcdef.json --recompute 5

      slalom-bench verify FILE --recompute all --attest --by "A. Reviewer"

      slalom-bench verify FILE --run runs/imdb
    """
    from slalom_bench.core.options import ModelOptions
    from slalom_bench.core.safe_text import line, strange
    from slalom_bench.errors import InvalidInput
    from slalom_bench.results.reading import read_run
    from slalom_bench.results.submission import read_submission

    if recompute != ALL and not (recompute.isdecimal() and len(recompute) < DIGITS):
        raise InvalidInput(f"--recompute {recompute[:20]!r}: give a number of samples, or {ALL}")
    if len(by) > LONGEST or strange(by):
        raise InvalidInput(f"--by {by[:20]!r}: {LONGEST} letters at most, and none that shows nothing or steers")
    if attest and recompute == "0":
        raise InvalidInput("--attest writes what was computed again: give --recompute N, or --recompute all")
    options = ModelOptions(device=device, data_dir=data_dir, allow_training=False)
    held = None if run is None else read_run(run)
    bad = False
    for path in files:
        try:
            submission = read_submission(path)
            sound = check(path, submission, held)
            if sound and recompute != "0":
                count = None if recompute == ALL else int(recompute)
                found, drawn = again(submission, count, seed, options, task, model, tolerance)
                sound = show(path, submission, found, drawn)
                if sound and attest:
                    typer.echo(record(path, submission, found, drawn, options.device, by))
        except InvalidInput as error:
            sound = False
            typer.secho(f"error: {line(str(error))}", fg="red", err=True)
        bad |= not sound
    if bad:
        raise typer.Exit(1)


def check(path: Path, submission: Submission, run: Run | None) -> bool:
    """Say what is wrong with a submission and what a reviewer should know; whether it is sound."""
    from slalom_bench.core.safe_text import line
    from slalom_bench.results.verification import check_run, notes, problems

    wrong = problems(submission, path.name) + ([] if run is None else check_run(submission, run))
    for problem in wrong:
        typer.secho(line(f"{path}: {problem}"), fg="red", err=True)
    for note in notes(submission):
        typer.secho(line(f"{path}: note: {note}"), fg="yellow", err=True)
    if not wrong:
        typer.echo(line(f"{path}: sound; {len(submission.rows)} rows on {len(submission.samples)} samples"))
    return not wrong


def again(
    submission: Submission,
    count: int | None,
    seed: int | None,
    options: ModelOptions,
    task: str | None,
    model: str | None,
    tolerance: float | None,
) -> tuple[Recomputation, int | None]:
    """Compute samples again, all or so many; also the seed by which they were chosen."""
    import secrets

    from slalom_bench.results.recomputing import choose, recompute
    from slalom_bench.running.loading import Loader

    if count is None or count >= len(submission.samples):
        chosen, seed = list(submission.samples), None
    else:
        seed = secrets.randbits(48) if seed is None else seed
        chosen = choose(submission.samples, count, seed)
    return recompute(submission, chosen, Loader(options), task=task, model=model, tolerance=tolerance), seed


def show(path: Path, submission: Submission, found: Recomputation, seed: int | None) -> bool:
    """Say how the recomputed values compare; whether all agree."""
    from slalom_bench.core.safe_text import line
    from slalom_bench.results.recomputing import chance_missed

    for d in found.off[:10]:
        wrong = f"{d.row}, {d.metric}, sample {d.sample}: submitted {d.submitted}, computed {d.computed}"
        typer.secho(line(f"{path}: {wrong}"), fg="red", err=True)
    if len(found.off) > 10:
        typer.secho(line(f"{path}: and {len(found.off) - 10} more"), fg="red", err=True)
    for title, (said, counted) in found.asked.items():
        wrong = f"{title}: {said:g} queries a text submitted, {counted:g} counted"
        typer.secho(line(f"{path}: {wrong}"), fg="red", err=True)
    for title, reason in found.left.items():
        typer.secho(line(f"{path}: {title}: not computed again: {reason}"), fg="yellow", err=True)
    largest = max((d.size for d in found.values), default=0.0)
    verdict = f"{len(found.off)} differ" if found.off else "all agree" if found.values else "nothing was compared"
    samples, of = len(found.samples), len(submission.samples)
    how = ""
    if seed is not None:
        tenth = -(-of // 10)
        how = f", chosen with --seed {seed}: a forgery of {tenth} would be missed with a chance of "
        how += f"{chance_missed(of, samples, tenth):.2g}"
    outcome = f"{samples} of {of} samples computed again{how}; {len(found.values)} values compared, {verdict}"
    typer.echo(line(f"{path}: {outcome} (largest difference {largest:.3g})"))
    return bool(found.values) and not found.off and not found.asked


def record(path: Path, submission: Submission, found: Recomputation, seed: int | None, device: str, by: str) -> Path:
    """Write the attestation of what came out again."""
    from slalom_bench.results.attestation import attest, write_attestation
    from slalom_bench.results.recomputing import threads_of
    from slalom_bench.running.provenance import provenance

    made = provenance(device, [], threads_of(submission.origin.machine))
    return write_attestation(attest(submission, found, seed, made, by), path.parent)
