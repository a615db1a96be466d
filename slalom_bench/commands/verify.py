"""`slalom-bench verify`: whether a submission holds together, and whether its numbers come out again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from slalom_bench.results.reading import Run
    from slalom_bench.results.recomputing import Recomputed
    from slalom_bench.results.submission import Submission


def verify_command(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files that `slalom-bench submit` wrote.")],
    recompute: Annotated[int, typer.Option(min=0, help="Run so many samples again and compare.")] = 0,
    run: Annotated[Path | None, typer.Option(help="Check that this run directory holds the submitted scores.")] = None,
    tolerance: Annotated[float, typer.Option(min=0.0, help="Largest difference, as a share of a value.")] = 0.01,
    task: Annotated[
        str | None, typer.Option(help="The task as it is called here, e.g. text:reviews.csv; else as in the file.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="The model as it is called here, e.g. hf:./checkpoint; else as in the file.")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N, mps or auto.")] = "auto",
    data_dir: Annotated[Path | None, typer.Option(help="Folder with the data; else SLALOM_BENCH_DATA.")] = None,
) -> None:
    """Check submissions: schema, names, and that every mean and interval follows from the scores in the file.

    With --recompute N the first N samples are explained and scored again, on the same texts and the same weights, and
    every value is compared. Exit code 1 if anything does not hold.

    Examples:

      slalom-bench verify leaderboards/results/*.json

      slalom-bench verify leaderboards/results/imdb_mini-bert-0123456789abcdef.json --recompute 2

      slalom-bench verify FILE --run runs/imdb
    """
    from slalom_bench.core.safe_text import line
    from slalom_bench.errors import InvalidInput
    from slalom_bench.results.reading import read_run
    from slalom_bench.results.submission import read_submission

    held = None if run is None else read_run(run)
    bad = False
    for path in files:
        try:
            submission = read_submission(path)
        except InvalidInput as error:
            bad = True
            typer.secho(f"error: {line(str(error))}", fg="red", err=True)
            continue
        sound = check(path, submission, held)
        bad |= not sound
        if recompute and sound:
            from slalom_bench.core.options import ModelOptions
            from slalom_bench.results.recomputing import recompute as compute
            from slalom_bench.running.loading import Loader

            loader = Loader(ModelOptions(device=device, data_dir=data_dir, allow_training=False))
            found = compute(submission, recompute, loader, task=task, model=model, tolerance=tolerance)
            bad |= show(path, found, min(recompute, len(submission.samples)), tolerance)
    if bad:
        raise typer.Exit(1)


def check(path: Path, submission: Submission, run: Run | None) -> bool:
    """Say what is wrong with a submission and what a reviewer should know; whether it is sound."""
    from slalom_bench.results.verification import check_run, notes, problems

    wrong = problems(submission, path.name) + ([] if run is None else check_run(submission, run))
    for problem in wrong:
        typer.secho(f"{path}: {problem}", fg="red", err=True)
    for note in notes(submission):
        typer.secho(f"{path}: note: {note}", fg="yellow", err=True)
    if not wrong:
        typer.echo(f"{path}: sound; {len(submission.rows)} rows on {len(submission.samples)} samples")
    return not wrong


def show(path: Path, found: list[Recomputed], samples: int, tolerance: float) -> bool:
    """Say how the recomputed values compare; whether any is too far off."""
    off = [difference for difference in found if not difference.within]
    for d in off[:10]:
        said = f"{d.row}, {d.metric}, sample {d.sample}: submitted {d.submitted}, computed {d.computed}"
        typer.secho(f"{path}: {said}", fg="red", err=True)
    if len(off) > 10:
        typer.secho(f"{path}: and {len(off) - 10} more", fg="red", err=True)
    largest = max((d.size for d in found), default=0.0)
    verdict = f"{len(off)} differ" if off else "all agree"
    typer.echo(
        f"{path}: {samples} samples computed again, {len(found)} values compared, {verdict} "
        f"(tolerance {tolerance:g}, largest difference {largest:.3g})"
    )
    return bool(off)
