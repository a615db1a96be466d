"""`slalom-bench explain`: look at the explanation of one text."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer


def explain_command(
    text: Annotated[str | None, typer.Argument(help="The text; - reads it from standard input.")] = None,
    text_file: Annotated[Path | None, typer.Option(help="A UTF-8 file with the text, instead.")] = None,
    model: Annotated[str, typer.Option(help="NAME[:key=value,...], hf:DIR_OR_ID or openai:MODEL.")] = "mini-bert",
    explainer: Annotated[
        list[str] | None, typer.Option(help="NAME[:key=value,...], slalom-anchor unless given; several may be.")
    ] = None,
    task: Annotated[str, typer.Option(help="The task whose classes (and, for some models, data) are meant.")] = "imdb",
    budget: Annotated[int, typer.Option(min=1, help="Model queries that an explainer may make.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="As in a run.")] = 0,
    seeds: Annotated[
        int, typer.Option(min=1, help="Ask stochastic explainers so often, and show how far other seeds differ.")
    ] = 1,
    target: Annotated[
        str | None,
        typer.Option(help="The class to explain, by name or number; else class 1 of two, the predicted one of more."),
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="Read only so many content tokens; else all that the model reads.")
    ] = None,
    removal: Annotated[str, typer.Option(help="delete, gap, mask or pad.")] = "delete",
    top: Annotated[int, typer.Option(min=0, help="How many tokens the table shows.")] = 10,
    plot: Annotated[Path | None, typer.Option(help="Write a figure: .svg, .png or .pdf.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page that compares the explainers.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON instead.")] = False,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N, mps or auto.")] = "auto",
    data_dir: Annotated[Path | None, typer.Option(help="Folder with data and models; else SLALOM_BENCH_DATA.")] = None,
    train: Annotated[bool, typer.Option("--train", help="Train the model if it is not there yet.")] = False,
    base_url: Annotated[str | None, typer.Option(help="Endpoint of openai:MODEL, by default none.")] = None,
    max_requests: Annotated[
        int | None, typer.Option(min=1, help="Hard cap on requests to an endpoint; no cap unless given.")
    ] = None,
) -> None:
    """Explain one text: coloured tokens, a table of the strongest, and on request a figure or a page.

    Blue speaks for the class, orange against it; SLALOM shows both of its scores, value and importance.

    Examples:

      slalom-bench explain "A dull script, but the cast is wonderful."

      slalom-bench explain --text-file review.txt --model mini-gpt2 --explainer slalom-fidel --explainer lime
      --explainer integrated-gradients --html review.html

      slalom-bench explain "Great fun." --plot scores.svg --budget 2000

      cat review.txt | slalom-bench explain - --json
    """
    from slalom_bench.core.options import ModelOptions
    from slalom_bench.data.loading import data_directory
    from slalom_bench.showing.explaining import DEFAULT_EXPLAINER, explain

    if plot is not None:
        from slalom_bench.showing.plots import check_path

        check_path(plot)
    words = given_text(text, text_file)
    data_directory(data_dir)  # one that is not there is said before anything is loaded
    options = ModelOptions(
        device=device, data_dir=data_dir, allow_training=train, base_url=base_url, max_requests=max_requests
    )
    explained = explain(
        words,
        model,
        explainer or [DEFAULT_EXPLAINER],
        task=task,
        budget=budget,
        seed=seed,
        seeds=seeds,
        target=target,
        max_tokens=max_tokens,
        removal=removal,
        options=options,
    )
    if html is not None:
        explained.to_html(html)
    if plot is not None:
        from slalom_bench.showing.plots import save_plot

        save_plot(explained, plot)
    if as_json:
        typer.echo(json.dumps(explained.to_dict()))
        return
    from rich.console import Console

    from slalom_bench.showing.display import show

    show(explained, Console(highlight=False), top)
    for path in (html, plot):
        if path is not None:
            typer.echo(f"wrote {path}", err=True)


def given_text(text: str | None, text_file: Path | None) -> str:
    """The text from exactly one of: the argument, standard input, a file."""
    from slalom_bench.errors import InvalidInput

    if (text is None) == (text_file is None):
        raise InvalidInput("give a text (or - for standard input), or --text-file")
    where = "standard input" if text_file is None else str(text_file)
    try:
        if text_file is not None:
            return text_file.read_text(encoding="utf-8")
        return sys.stdin.buffer.read().decode("utf-8") if text == "-" else str(text)
    except OSError as error:
        raise InvalidInput(f"{where}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{where} is not UTF-8: byte {error.start} is {error.object[error.start]:#04x}") from error
