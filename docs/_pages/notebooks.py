"""The notebooks, executed when the site is built: what fails in one fails the build."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
SKIP = "SLALOM_BENCH_DOCS_QUICK"
"""Set while pages are written: the notebooks are shown without what they print."""


def pages() -> dict[str, str]:
    """Name to Markdown of every notebook."""
    return {path.stem: page(path) for path in sorted(FOLDER.glob("*.ipynb"))}


def page(path: Path) -> str:
    """A notebook's cells with their output."""
    notebook = nbformat.read(path, as_version=4)
    if not os.environ.get(SKIP):
        execute(notebook)
    title, *cells = notebook.cells
    where = f"*This page is the notebook `docs/notebooks/{path.name}`, run when the site was built.*"
    parts = [title.source, where]
    for cell in cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
        else:
            parts += [f"```python\n{cell.source}\n```", *shown(cell.outputs)]
    return "\n\n".join(parts) + "\n"


def shown(outputs: list[nbformat.NotebookNode]) -> list[str]:
    """Outputs as Markdown; printed text that follows printed text is one block."""
    parts: list[str] = []
    printed = ""
    for output in outputs:
        said = text(output)
        if said is not None:
            printed += said if said.endswith("\n") else f"{said}\n"
            continue
        parts += [block(printed), rich(output)]
        printed = ""
    return [part for part in [*parts, block(printed)] if part]


def execute(notebook: nbformat.NotebookNode) -> None:
    """Run every cell, in an empty directory."""
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()


def text(output: nbformat.NotebookNode) -> str | None:
    """What was printed; None for a picture, a frame or a page."""
    if output.output_type == "stream":
        return output.text if output.name == "stdout" else ""
    if output.output_type == "error":
        raise RuntimeError(output.evalue)
    html = output.data.get("text/html", "")
    is_rich = bool(html) and not html.startswith('<pre style="white-space:pre')  # what a terminal would show
    return None if is_rich or "image/png" in output.data else output.data.get("text/plain", "")


def rich(output: nbformat.NotebookNode) -> str:
    """A page in a frame, a table, or a picture."""
    if html := output.data.get("text/html"):
        return f'<div class="output">{html}</div>'.replace("\n\n", "\n")
    picture = output.data["image/png"].strip()
    return f'<img alt="figure" class="figure" src="data:image/png;base64,{picture}">'


def block(said: str) -> str:
    """Printed text."""
    return f"```text\n{said.rstrip()}\n```" if said.strip() else ""
