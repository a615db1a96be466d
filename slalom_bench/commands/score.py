"""`slalom-bench score`: rank a method whose explanations were computed elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def score_command(
    file: Annotated[Path, typer.Argument(help="JSON lines: id, scores, optional surrogate.")],
    name: Annotated[str, typer.Option(help="What the method is called in tables.")] = "outside",
    task: Annotated[str, typer.Option(help="NAME[:key=value,...] or text:FILE.")] = "imdb",
    model: Annotated[str, typer.Option(help="The model that was explained.")] = "mini-bert",
    metric: Annotated[list[str] | None, typer.Option(help="May be given several times; else all of the task.")] = None,
    samples: Annotated[int, typer.Option(min=1, help="How many texts of the task.")] = 10,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="Cut texts to so many content tokens; else whole.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="The class to explain, by name or number; else class 1 of two, the predicted one of more."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the metrics' masks.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N, mps or auto.")] = "auto",
    data_dir: Annotated[Path | None, typer.Option(help="Folder with the data; else SLALOM_BENCH_DATA.")] = None,
    out: Annotated[Path | None, typer.Option(help="Run directory; runs/score-NAME-HASH unless given.")] = None,
    write_samples: Annotated[
        bool, typer.Option("--write-samples", help="Write the samples to be explained to FILE instead.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON on stdout.")] = False,
) -> None:
    """Score explanations from a file, so that a closed method can be ranked.

    Each line is {"id": ..., "scores": [one number per content token], "target": the class, 1 unless given, "surrogate":
    optional}. `--write-samples` writes the ids, texts, tokens and classes to explain.

    Examples:

      slalom-bench score samples.jsonl --write-samples --samples 20

      slalom-bench score mine.jsonl --name my-method --samples 20
    """
    from slalom_bench.api import build_suite
    from slalom_bench.commands.run import finish
    from slalom_bench.core.options import ModelOptions
    from slalom_bench.errors import InvalidInput
    from slalom_bench.running.files import write_text
    from slalom_bench.running.outside import sample_rows, score_file
    from slalom_bench.running.progress import Reporter

    suite = build_suite(
        task=[task],
        model=[model],
        explainer=["zero"],
        metric=metric or (),
        samples=samples,
        seed=[seed],
        max_tokens=max_tokens,
        target=target,
    )
    options, reporter = ModelOptions(device=device, data_dir=data_dir), Reporter()
    if write_samples:
        if file.exists():
            raise InvalidInput(f"{file} is there already and would be lost; give another name to write the samples to")
        rows = sample_rows(suite, options, reporter)
        write_text(file, "".join(json.dumps(row) + "\n" for row in rows))
        reporter.say(f"{len(rows)} samples written to {file}")
        return
    result = score_file(
        file, name, suite, out or suite.model_copy(update={"name": f"score-{name}"}).directory, options, reporter
    )
    finish(result, reporter, as_json)
