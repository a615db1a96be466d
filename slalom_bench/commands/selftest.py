"""`slalom-bench selftest`: a device against the CPU, for the first person who has one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def selftest_command(
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N, mps or auto.")] = "auto",
    explainer: Annotated[
        list[str] | None, typer.Option(help="Only this explainer. May be given several times; all unless given.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The file to send in.")] = Path("selftest.json"),
) -> None:
    """Compare a device with the CPU: answers, gradients, attention, every explainer, and a line of throughput.

    Small random models, no data, no download; a minute or two. Exit code 1 if anything differs by more than rounding.
    This project has seen no GPU: please send the file in, whatever it says.

    Examples:

      slalom-bench selftest --device cuda

      slalom-bench selftest --device cuda:1 --explainer lime --out lime.json
    """
    from slalom_bench.backends.torch_backend import pick_device
    from slalom_bench.contract.selftest import Line, report, selftest
    from slalom_bench.running.provenance import provenance

    name = str(pick_device(device))
    lines: list[Line] = []
    for line in selftest(name, explainer):
        lines.append(line)
        typer.echo(f"  {'pass' if line.passed else 'FAIL'}  {line.what}: {line.fact}")
    found = report(name, lines, provenance(name))
    out.write_text(json.dumps(found, indent=1), encoding="utf-8")
    failed = sum(not line.passed for line in lines)
    typer.echo(f"{name}: {len(lines) - failed} of {len(lines)} as on the CPU; {out} is the file to send in")
    if failed:
        raise typer.Exit(1)
