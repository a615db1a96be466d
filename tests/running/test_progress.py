"""Progress where it is shown: whole numbers on a narrow terminal, one bar in a notebook, lines elsewhere."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from slalom_bench.running.progress import Reporter

TITLE = "synthetic-linear · bag-of-words · linear-deletion:law=[mixed] · b=200 · seed 0"


@pytest.mark.parametrize("width", [80, 160])
def test_the_numbers_of_the_bars_stand_in_full(width):
    said = io.StringIO()
    reporter = Reporter()
    reporter.console = Console(file=said, force_terminal=True, width=width, color_system=None)
    with reporter.running(5, 1234):
        reporter.cell(TITLE, 10, 10)
        for _ in range(3):
            reporter.sample(1, 10)
        reporter.cell_done()
        said.truncate(0)
        reporter._bars.refresh()
        text = said.getvalue()
    assert "3/1234" in text
    assert "1/5" in text
    assert "…" not in text
    assert "law=[mixed]" in text.replace("\n", "")


def test_a_notebook_has_one_bar_that_is_written_over():
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    code = (
        "import slalom_bench, tempfile\n"
        "from slalom_bench.running import notebook_bar\n"
        "notebook_bar.EVERY, pages = 0.0, []\n"
        "page = notebook_bar.NotebookBar.page\n"
        "notebook_bar.NotebookBar.page = lambda self: pages.append(page(self)['text/html']) or page(self)\n"
        "run = slalom_bench.run(task='synthetic-linear', model='bag-of-words', explainer=['zero', 'leave-one-out'],\n"
        "                       metric='deletion', samples=2, budget=40, out=tempfile.mkdtemp())\n"
        "import json; print(json.dumps(pages))\n"
        "run\n"
    )
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    nbclient.NotebookClient(book, timeout=120, kernel_name="python3").execute()
    outputs = book.cells[0].outputs
    (printed,) = [output.text for output in outputs if output.output_type == "stream" and output.name == "stdout"]
    pages = json.loads(printed)
    assert all("<progress" in page for page in pages)
    assert "0 of 4 samples" in pages[0]
    assert "4 of 4 samples" in pages[-1]
    texts = [output.data["text/plain"] for output in outputs if output.output_type == "display_data"]
    assert not any("samples to do" in text for text in texts), "no line a cell beside the bar"
    assert "" in texts, "the bar is taken away at the end"
