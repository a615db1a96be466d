"""What the documentation site is made of still fits the package; the site itself is built by `tox -e docs`."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

import pytest

from slalom_bench import registry

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "_pages"


@pytest.fixture
def made(monkeypatch):
    """A module of the site's generator."""
    if not PAGES.is_dir():
        pytest.skip("not in a checkout")
    monkeypatch.syspath_prepend(str(PAGES))
    return importlib.import_module


def test_every_registered_thing_has_its_card_on_the_page_of_its_kind(made):
    pages = made("cards").pages()
    for kind, registered in registry.KINDS.items():
        for name in registered.names():
            assert f"## {name} {{ #" in pages[f"{kind}s"]


def test_a_docstring_cannot_be_markup(made):
    assert made("cards").prose("a*b_c [x](y) <b>| `w|v`") == r"a\*b\_c \[x\](y) &lt;b&gt;\| <code>w|v</code>"


def test_the_table_of_methods_comes_from_the_published_results(made):
    page = made("choosing").page()
    tables = [json.loads(path.read_text()) for path in (ROOT / "leaderboards" / "results").glob("*.json")]
    for table in tables:
        assert table["model"]["name"] in page
    assert "### Which tokens drive the prediction?" in page


def test_tables_in_the_words_are_those_of_the_published_results(made):
    tables = made("tables")
    for name in tables.PAGES:
        text = (ROOT / "docs" / name).read_text()
        assert "<!-- table " in text
        assert tables.rewritten(text) == text, f"{name} is stale: run `python docs/_pages/tables.py`"


@pytest.mark.parametrize("at", range(4))
def test_the_gallery_shows_what_the_explainers_say(made, at):
    gallery = made("gallery")
    text, model, methods, title, _ = gallery.TEXTS[at]
    committed = gallery.Explained.from_dict(json.loads(gallery.kept(title).read_text()))
    again = gallery.explain(text, model=model, explainer=list(methods), budget=gallery.BUDGET)
    assert (committed.sample.text, committed.model) == (text, again.model)
    assert committed.log_odds == pytest.approx(again.log_odds, abs=1e-4)
    for method in methods:
        for name, scores in again[method].scores.items():
            assert committed[method].scores[name] == pytest.approx(scores, abs=0.02, rel=0.02)
    assert "<iframe" in gallery.pages()["gallery.md"]


def test_the_schema_and_the_commands_are_complete(made):
    from slalom_bench.cli import COMMANDS
    from slalom_bench.results.submission import Submission

    pages = made("reference").pages()
    assert all(f"| `{field}` |" in pages["schema.md"] for field in Submission.model_fields)
    assert len(re.findall(r"^## ", pages["commands.md"], re.MULTILINE)) == len(COMMANDS)


def test_an_example_of_a_command_is_one_line_that_a_shell_takes(made):
    lines = re.findall(r"^```sh\n(.*?)^```", made("reference").pages()["commands.md"], re.MULTILINE | re.DOTALL)
    examples = [line for block in lines for line in block.splitlines()]
    assert len(examples) > 40
    assert [line for line in examples if "slalom-bench " not in line] == []


def test_the_answers_on_the_site_are_upright_and_those_of_the_readme_are_not(made):
    site = made("choosing").headline().splitlines()
    readme = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    across = next(line for line in readme if line.startswith("| task"))
    assert site[0].startswith("| task")
    purposes = [cell.strip() for cell in across.strip("|").split("|")]
    assert [line.strip("|").split("|")[0].strip() for line in site[2 : len(purposes) + 1]] == purposes[1:]


def test_notebooks_are_committed_without_output():
    for path in (ROOT / "docs" / "notebooks").glob("*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        assert not any(cell.get("outputs") for cell in cells), path.name


@pytest.mark.parametrize("name", ["explain", "add_a_method"])
def test_the_cells_of_a_notebook_run(name, tmp_path, monkeypatch):
    """`tox -e docs` runs them in Jupyter; this needs none, and runs wherever the tests do."""
    path = ROOT / "docs" / "notebooks" / f"{name}.ipynb"
    if not path.is_file():
        pytest.skip("not in a checkout")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    names: dict[str, object] = {"__name__": "notebook"}
    with registry.explainers.scratch():
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "code":
                source = "".join(line for line in cell["source"] if not line.startswith("%"))
                exec(compile(source, path.name, "exec"), names)
