"""`slalom-bench check`: the contract of an explainer, one line a rule."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from slalom_bench.contract.findings import ContractReport

STYLES = {"pass": "green", "fail": "bold red", "skip": "yellow"}


def check_command(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Registered explainers, or files that register one.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every registered explainer.")] = False,
    rule: Annotated[list[str] | None, typer.Option(help="Only this rule. May be given several times.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the reports as JSON.")] = False,
) -> None:
    """Check that an explainer keeps the contract: one line for each rule, with what was measured.

    Runs on small random and hand-made models in seconds, without data or download. Exit code 1 if a rule fails.

    Examples:

      slalom-bench check lime

      slalom-bench check ./my_explainer.py

      slalom-bench check slalom-fidel --rule budget --rule same-seed

      slalom-bench check --all --json
    """
    from slalom_bench import registry
    from slalom_bench.contract.checking import check
    from slalom_bench.errors import InvalidInput

    if bool(names) == every:
        raise InvalidInput("give the name of an explainer, or --all")
    subjects = [subject for name in names or registry.explainers.names() for subject in resolve(name)]
    reports = []
    for subject in subjects:
        reports.append(check(subject, rule or None))
        if not as_json:
            show(reports[-1])
    if as_json:
        typer.echo(json.dumps([report.to_dict() for report in reports], indent=1))
    elif len(reports) > 1:
        failed = [report.explainer for report in reports if not report.passed]
        which = f"; failed: {', '.join(failed)}" if failed else ""
        typer.echo(f"{len(reports) - len(failed)} of {len(reports)} passed{which}")
    if not all(report.passed for report in reports):
        raise typer.Exit(1)


def resolve(name: str) -> list[Any]:
    """A registered name as it is; a Python file as the explainer classes that it registers."""
    if not name.endswith(".py"):
        return [name]
    import importlib.util
    import traceback

    from slalom_bench import registry
    from slalom_bench.errors import InvalidInput

    path = Path(name)
    if not path.is_file():
        raise InvalidInput(f"no file {name}")
    registry.explainers.names()
    module_name = f"slalom_bench_checked_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise InvalidInput(f"{name} is no Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        line = error.lineno if isinstance(error, SyntaxError) else frames[-1].lineno if frames else None
        where = name if line is None else f"{name}, line {line}"
        raise InvalidInput(f"{where}: {type(error).__name__}: {error}") from error
    found = [e.factory for e in registry.explainers.entries() if e.origin.startswith(f"{module_name}:")]
    if not found:
        raise InvalidInput(f"{name} registers no explainer: decorate its class with @explainer(...)")
    return found


def show(report: ContractReport) -> None:
    """One line a rule; long facts wrap under themselves."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from slalom_bench.core.safe_text import line, visible

    console = Console(highlight=False)
    verdict = "passed" if report.passed else "FAILED"
    title = Text.assemble((report.explainer, "bold"), " ", (verdict, STYLES["pass" if report.passed else "fail"]))
    console.print(title.append(f" ({report.seconds:.1f} s)", "dim"))
    if not console.is_terminal:
        for finding in report.findings:
            typer.echo(f"  {finding.verdict}  {finding.rule}: {line(finding.fact)}")
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    for finding in report.findings:
        table.add_row(Text(f"  {finding.verdict}", STYLES[finding.verdict]), finding.rule, Text(visible(finding.fact)))
    console.print(table)
