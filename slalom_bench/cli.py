"""The command line: commands live in `slalom_bench/commands/`, heavy imports inside them."""

from __future__ import annotations

import inspect
import os
import sys
from textwrap import wrap
from typing import Annotated

import typer

from slalom_bench.commands.agreement import agreement_command
from slalom_bench.commands.carry_over import carry_over_command
from slalom_bench.commands.check import check_command
from slalom_bench.commands.compare import compare_command
from slalom_bench.commands.data import data_command
from slalom_bench.commands.explain import explain_command
from slalom_bench.commands.export import export_command
from slalom_bench.commands.global_ import global_command
from slalom_bench.commands.leaderboard import leaderboard_command
from slalom_bench.commands.list import list_command
from slalom_bench.commands.merge import merge_command
from slalom_bench.commands.new import new_command
from slalom_bench.commands.power import power_command
from slalom_bench.commands.profile import profile_command
from slalom_bench.commands.removals import removals_command
from slalom_bench.commands.report import report_command
from slalom_bench.commands.reproduce import reproduce_command
from slalom_bench.commands.run import run_command
from slalom_bench.commands.score import score_command
from slalom_bench.commands.selftest import selftest_command
from slalom_bench.commands.simulate import simulate_command
from slalom_bench.commands.submit import submit_command
from slalom_bench.commands.train import train_command
from slalom_bench.commands.verify import verify_command
from slalom_bench.core.safe_text import line
from slalom_bench.core.version import VERSION
from slalom_bench.errors import SlalomBenchError

app = typer.Typer(
    name="slalom-bench",
    help="Which token attribution explains a transformer best, and at what cost.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # boxes leave option texts 20 of 80 columns, and read brackets as markup
    epilog="Start with: slalom-bench run --suite smoke",
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS = (
    run_command,
    list_command,
    explain_command,
    check_command,
    selftest_command,
    new_command,
    data_command,
    train_command,
    score_command,
    profile_command,
    agreement_command,
    merge_command,
    report_command,
    submit_command,
    verify_command,
    leaderboard_command,
    compare_command,
    removals_command,
    carry_over_command,
    export_command,
    power_command,
    simulate_command,
    reproduce_command,
    global_command,
)


def help_text(docstring: str, width: int = 74) -> str:
    """A command's docstring for its help: examples stay lines that a shell takes, long ones broken as it wants them.

    >>> print(help_text("Do it.\\n\\nExamples:\\n\\n  slalom-bench go there\\n  --and-back", 25).replace(chr(8), "^H"))
    Do it.
    <BLANKLINE>
    Examples:
    <BLANKLINE>
    ^H
      slalom-bench go there \\
        --and-back
    """
    parts = []
    for part in docstring.split("\n\n"):
        if part.startswith("  "):
            lines = wrap(" ".join(part.split()), width, break_on_hyphens=False, break_long_words=False)
            part = "\b\n  " + " \\\n    ".join(lines)  # click fills every paragraph that \b does not begin
        parts.append(part)
    return "\n\n".join(parts)


for function in COMMANDS:
    name = function.__name__.removesuffix("_command").replace("_", "-")
    said = inspect.getdoc(function) or ""
    app.command(name, help=help_text(said), short_help=" ".join(said.split("\n\n")[0].split()))(function)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"slalom-bench {VERSION}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    """Which token attribution explains a transformer best, and at what cost."""


def main() -> None:
    """Entry point: user errors, files and memory among them, are one line and exit code 2, Ctrl-C is 130."""
    try:
        app()
    except SlalomBenchError as error:
        typer.secho(f"error: {line(str(error))}", fg="red", err=True)
        sys.exit(2)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (OSError, MemoryError) as error:
        said = line(str(error)) or "there is not enough memory; take shorter texts, a smaller budget or fewer samples"
        typer.secho(f"error: {type(error).__name__}: {said}", fg="red", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        typer.secho("stopped", fg="yellow", err=True)
        sys.exit(130)


if __name__ == "__main__":
    main()
