"""Boards that compare like with like, Markdown that stays text, pages that are the same bytes every time."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer

from slalom_bench.commands.leaderboard import leaderboard_command
from slalom_bench.core import safe_text
from slalom_bench.errors import InvalidInput
from slalom_bench.results.boards import boards
from slalom_bench.results.collect import submit
from slalom_bench.results.reading import read_run
from slalom_bench.results.submission import Machine, Submission, read_submission, to_text
from slalom_bench.running.identity import MetricLabel
from slalom_bench.showing import comparing, markdown, wording
from slalom_bench.showing.figures import Axis, Series, lines, scatter
from slalom_bench.showing.front import stem
from slalom_bench.showing.leaderboard import BEGIN, END, LARGEST, MARK, README, generate, read_results, stale, write
from slalom_bench.showing.page import TABLE_ROWS
from slalom_bench.showing.views import board_view, cost_plots
from slalom_bench.showing.wording import number

NASTY = '<img src=x onerror="alert(1)">'
DELETION = MetricLabel.of("deletion", 1)


@pytest.fixture
def submissions(finished, tmp_path):
    return [read_submission(path) for path in submit(read_run(finished), tmp_path / "results")]


def altered(submission: Submission, **update) -> Submission:
    """A copy with some fields changed, checked like a file."""
    data = json.loads(to_text(submission))
    for key, value in update.items():
        target = data
        *path, last = key.split("__")
        for part in path:
            target = target[int(part) if part.isdigit() else part]
        target[last] = value
    return Submission.model_validate(data)


def test_only_what_may_be_compared_shares_a_table(submissions):
    full = next(s for s in submissions if s.model.tier == "exact")
    assert {(b.identity.model.name, b.identity.budget) for b in boards(submissions)} == {
        ("slalom-transformer", 30),
        ("slalom-transformer", 60),
        ("mini-bert", 30),
        ("mini-bert", 60),
    }
    others = {
        "task__content": "d" * 64,
        "protocol": "paper",
        "removal__name": "mask",
        "removal__version": 2,
        "removal__params": {"token": "x"},
        "max_tokens": 7,
        "model__identity": "e" * 64,
        "samples": [f"other{i}" for i in range(9)],
        "model__dtype": "bfloat16",
    }
    for key, value in others.items():
        assert len(boards([full, altered(full, **{key: value})])) == 4, key
    described = altered(full, task__source="another copy of the same texts", model__tier="embedded")
    assert len(boards([full, described])) == 2


def test_a_row_submitted_twice_is_shown_once_and_names_the_other_file(submissions):
    full = next(s for s in submissions if s.model.tier == "exact")
    again = altered(full, suite="mine", rows__0__failures={"Odd": 1}, origin__started="2099-01-01T00:00:00+00:00")
    board = boards([again, full])[0]
    assert len(board.rows) == 5
    assert not board.conflicts
    # the older file has the row, the later one confirms it
    files = {(row.submission.file_name, *(claim.submission.file_name for claim in row.also)) for row in board.rows}
    assert files == {(full.file_name, again.file_name)}
    said = "reproduced, largest difference 0 of a value (1 other file)"
    assert {wording.standing(row) for row in board.rows} == {said}


@pytest.mark.parametrize("started", ["1999-01-01T00:00:00+00:00", "2099-01-01T00:00:00+00:00"])
def test_no_file_replaces_a_row_of_another_and_both_values_are_shown(submissions, started):
    full = next(s for s in submissions if s.model.tier == "exact")
    at = next(i for i, row in enumerate(full.rows) if row.title == "random, budget 30")
    mean = full.rows[at].results[DELETION].mean
    values = [None if v is None else v + 0.5 for v in full.rows[at].results[DELETION].values]
    fake = {f"rows__{at}__results__deletion@1__values": values, f"rows__{at}__results__deletion@1__mean": mean + 0.5}
    stranger = altered(full, origin__started=started, **fake)
    assert generate([full, stranger]) == generate([stranger, full])
    board = next(b for b in boards([full, stranger]) if b.identity.budget == 30)
    rows = {row.submission.file_name: row for row in board.rows if row.submitted.explainer.name == "random"}
    assert {file: row.cells[DELETION].result.mean for file, row in rows.items()} == {
        full.file_name: mean,
        stranger.file_name: mean + 0.5,
    }
    assert all("in conflict, file" in row.name for row in rows.values())
    assert len(board.rows) == 6
    (note,) = [note for note in markdown.section(board).splitlines() if note.startswith("Conflict: random")]
    for file, value in ((full.file_name, mean), (stranger.file_name, mean + 0.5)):
        assert safe_text.markdown(f"{number(value)} in {file}") in note
        assert f"{number(value)} in {file}" in generate([full, stranger])["synthetic-slalom/tables.html"]


@pytest.mark.parametrize("started", ["1999-01-01T00:00:00+00:00", "2099-01-01T00:00:00+00:00"])
def test_no_file_makes_a_row_of_another_cheaper(submissions, started):
    full = next(s for s in submissions if s.model.tier == "exact")
    at = max(range(len(full.rows)), key=lambda i: full.rows[i].cost.queries * (full.rows[i].budget == 30))
    name, asked = full.rows[at].explainer.name, full.rows[at].cost.queries
    values = [None if v is None else v * (1 + 1e-6) for v in full.rows[at].results[DELETION].values]
    fake = {f"rows__{at}__cost__queries": 1.0, f"rows__{at}__results__deletion@1__values": values}
    board = next(b for b in boards([full, altered(full, origin__started=started, **fake)]) if b.identity.budget == 30)
    assert {row.cost.queries for row in board.rows if row.submitted.explainer.name == name} == {asked, 1.0}
    (note,) = [note for note in markdown.section(board).splitlines() if note.startswith("Conflict")]
    assert f"{safe_text.markdown(full.rows[at].explainer.title)} has queries" in note
    assert f"{number(asked)} in" in note


@pytest.mark.parametrize("text", ["now", "2026-01-31", "2026-01-31T12:00:00", "9999"])
def test_a_start_is_a_time_with_its_zone(submissions, text):
    with pytest.raises(ValueError, match="started"):
        altered(submissions[0], origin__started=text)


def test_a_flipped_direction_is_the_fault_of_the_file_that_says_it(finished, tmp_path, capsys):
    (first, second) = submit(read_run(finished), tmp_path / "results")
    honest = read_submission(first)
    flipped = altered(honest, **{"metrics__deletion@1__direction": "lower"})
    bad = first.with_name(flipped.file_name)
    bad.write_text(to_text(flipped))
    with pytest.raises(typer.Exit):
        leaderboard_command(out=tmp_path)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"left out: {bad}: metric deletion@1: its direction is lower, not higher")
    assert (tmp_path / "index.html").read_text() == generate([honest, read_submission(second)])["index.html"]


def test_of_a_metric_that_nobody_knows_neither_of_two_opinions_is_taken(submissions):
    full = next(s for s in submissions if s.model.tier == "exact")
    text = to_text(full).replace('"deletion@1"', '"odd@1"').replace('"name": "deletion"', '"name": "odd"')
    honest = Submission.model_validate_json(text)
    headline = honest.metrics[MetricLabel.of("odd", 1)].headline
    flipped = altered(honest, **{"metrics__odd@1__direction": "lower"})
    board = boards([honest, flipped])[0]
    assert [label.name for label in board.metrics] == ["strict-fidelity"]
    page = markdown.section(board)
    assert safe_text.markdown(f"higher, {headline} in {honest.file_name}") in page
    assert safe_text.markdown(f"lower, {headline} in {flipped.file_name}") in page


def test_a_new_version_of_an_explainer_is_another_row(submissions):
    full = next(s for s in submissions if s.model.tier == "exact")
    newer = altered(full, rows__0__explainer__version=2)
    name = newer.rows[0].explainer.title
    board = next(b for b in boards([full, newer]) if b.identity.budget == newer.rows[0].budget)
    assert {row.name for row in board.rows if row.name.startswith(name)} == {
        f"{name} (v1, seeds 0)",
        f"{name} (v2, seeds 0)",
    }


def test_a_missing_cell_is_missing_and_not_zero(submissions):
    full = next(s for s in submissions if s.model.tier == "exact")
    data = json.loads(to_text(full))
    del data["rows"][0]["results"]["deletion@1"]
    less = Submission.model_validate(data)
    board = next(b for b in boards([less]) if b.identity.budget == less.rows[0].budget)
    row = next(row for row in board.rows if row.name == less.rows[0].explainer.title)
    assert DELETION not in row.cells
    assert re.search(rf"\| {row.name} .*\| missing +\|", markdown.quality(board))
    (cell,) = [c for r in board_view(board)["rows"] if r["name"] == row.name for c in r["cells"] if c["sort"] == ""]
    assert cell["state"] == "missing"


def test_times_of_two_machines_stand_in_two_tables(submissions):
    full = next(s for s in submissions if s.model.tier == "exact")
    other = altered(full, origin__machine__model="another processor")
    names = [e.explainer.name for e in other.rows]
    other = altered(other, **{f"rows__{i}__explainer__name": f"{name}-b" for i, name in enumerate(names)})
    board = boards([full, other])[0]
    assert len(board.rows) == 10
    assert [len(rows) for _, rows in board.machines()] == [5, 5]
    assert markdown.cost(board).count("Per sample, on ") == 2
    unknown = altered(full, origin__machine=None)
    text = markdown.cost(boards([unknown])[0])
    assert "several machines: seconds are not shown" in text
    assert all(row.seconds is None for row in boards([unknown])[0].rows)


def test_answers_that_were_known_are_counted_as_if_computed(lab, tmp_path):
    run = lab.run(tmp_path / "run", budgets=(60,), explainers=("linear-deletion", "slalom-fidel"))
    (board,) = boards([read_submission(path) for path in submit(read_run(run), tmp_path / "results")])
    (row,) = [row for row in board.rows if row.name == "slalom-fidel"]
    assert 0 < row.cost.forwards == row.cost.shared
    assert 0 < row.cost.saved_seconds <= row.cost.model_seconds <= row.cost.seconds
    (first,) = [row for row in board.rows if row.name == "linear-deletion"]
    assert (first.cost.saved_seconds, first.cost.shared) == (0, 0)
    counts = {"queries", "forwards", "tokens", "batches", "padding", "hits"}
    assert row.cost.model_dump(include=counts) == first.cost.model_dump(include=counts)
    assert row.cost.model_seconds == pytest.approx(first.cost.model_seconds, rel=0.2)
    (line,) = [line for line in markdown.cost(board).splitlines() if "slalom-fidel" in line]
    assert line.split("|")[3].strip() == f"{row.cost.forwards:,.0f}" != "0"
    assert line.count("†") == 3


def test_fingerprints_differ_with_the_machine():
    one = Machine(device="cpu", model="x", count=2, threads=1)
    assert one.fingerprint == one.model_copy().fingerprint
    assert one.fingerprint != one.model_copy(update={"threads": 2}).fingerprint


def details(files: dict[str, str]) -> str:
    """Every table's own Markdown file, one after the other."""
    return "".join(
        files[name] for name in sorted(files) if name.startswith("synthetic-slalom/") and name.endswith("md")
    )


def test_tiers_are_side_by_side_in_front_and_apart_behind(submissions):
    files = generate(submissions)
    text, page = files["synthetic-slalom.md"], files["synthetic-slalom/tables.html"]
    assert "deletion ↑, exact" in text
    assert "deletion ↑, small" in text
    embedded, exact = page.index("<h2>Embedded default"), page.index("own law</h2>")
    assert embedded < exact
    assert ("mini-bert" in page[embedded:exact], "mini-bert" in page[exact:]) == (True, False)
    # the tier decides, not the name
    mini = next(s for s in submissions if s.model.tier == "embedded")
    assert "Embedded default" not in generate([altered(mini, model__tier="full")])["synthetic-slalom/tables.html"]
    others = [
        altered(mini, model__tier=tier, model__name=tier[0], model__identity="y")
        for tier in ("small-pretrained", "full")
    ]
    page = generate([*submissions, *others])["synthetic-slalom/tables.html"]
    places = [page.index(title) for title in ("Full models", "Small pretrained models", "Embedded default")]
    assert places == sorted(places)


def test_every_row_has_arrows_ranks_intervals_costs_and_a_command(submissions):
    text = details(generate(submissions))
    assert "strict-fidelity ↓" in text
    assert "deletion ↑" in text
    for name in ("leave-one-out", "linear-deletion", "random"):
        assert re.search(rf"\| {name} +\|.*\*?\*?-?[\d.e-]+\*?\*? \[-?[\d.e-]+, -?[\d.e-]+\] \(\d", text), name
        assert re.search(rf"- `slalom-bench run .*--explainer NAME .*` with NAME one of [^(]*{name}", text), name
    assert "average" not in text.replace("there is no average over metrics", "")


def test_tables_are_aligned_as_plain_text(submissions):
    files = generate(submissions)
    text = files["README.md"] + files["synthetic-slalom.md"] + details(files)
    tables = re.findall(r"(?:^\|.*\n)+", text, re.M)
    assert len(tables) >= 8
    for table in tables:
        assert len({len(line) for line in table.splitlines()}) == 1


def test_a_metric_of_the_model_is_told_and_not_ranked(submissions):
    full = next(s for s in submissions if s.model.tier == "exact")
    told = altered(full, **{"metrics__deletion@1__level": "model"})
    board = boards([told])[0]
    assert [info.name for info in board.metrics.values()] == ["strict-fidelity"]
    mean = next(e.results[DELETION] for e in full.rows if e.budget == board.identity.budget).mean
    assert f"{mean:.3g}" in dict(wording.about_model(board))["deletion ↑"]
    assert "The model itself, deletion ↑:" in markdown.section(board)
    assert "The model itself, <b>deletion ↑</b>" in generate([told])["synthetic-slalom/tables.html"]


def test_too_few_samples_to_separate_anything_are_called_so(lab, tmp_path):
    run = lab.run(tmp_path / "run", samples=4, budgets=(20,))
    (board,) = boards([read_submission(path) for path in submit(read_run(run), tmp_path / "results")])
    assert board.too_few
    assert "So few samples" in markdown.section(board)
    assert not any(cell.marked for row in board.rows for cell in row.cells.values())
    assert {cell.place for row in board.rows if (cell := row.cells[DELETION]).ranked.rank} == {"1-4"}
    enough = lab.run(tmp_path / "enough", budgets=(20,))
    (board,) = boards([read_submission(path) for path in submit(read_run(enough), tmp_path / "results2")])
    assert not board.too_few


def test_a_metric_that_cannot_tell_the_methods_apart_says_so_and_marks_nothing(submissions):
    full = next(s for s in submissions if s.model.tier == "exact")
    board = boards([altered(full, **{"metrics__deletion@1__relevant": 1e6})])[0]
    assert not any(cell.marked for row in board.rows for cell in row.cells.values() if cell is row.cells[DELETION])
    assert "nothing is marked: deletion." in markdown.section(board)
    assert (
        "nothing is marked: deletion."
        in generate([altered(full, **{"metrics__deletion@1__relevant": 1e6})])["synthetic-slalom/tables.html"]
    )
    column = next(c for c in markdown.effects(board).splitlines() if c.startswith("| random "))
    assert column.rstrip(" |").endswith("≈")


def test_effects_and_the_quality_of_metrics_are_on_every_board(submissions):
    text = details(generate(submissions))
    assert text.count("<summary>Difference from the best<") == text.count("<summary>How good each metric is here<") == 4
    assert (
        "strict-fidelity: compared on the log scale, where the geometric mean leads and the arithmetic one follows."
        in text
    )
    board = boards(submissions)[0]
    for label, quality in board.quality.items():
        name = board.metrics[label].name
        (line,) = re.findall(rf"^\| {name} [↑↓] .*$", markdown.metric_quality(board), re.M)
        assert f"{quality.told_apart:.0%}" in line
        assert f"{quality.reliability:.2f}" in line
    best = next(row for row in board.rows if row.cells[DELETION].ranked.rank == 1)
    worse = next(row for row in board.rows if (row.cells[DELETION].ranked.rank or 0) > 1)
    gap = worse.cells[DELETION].ranked.to_best
    assert best.cells[DELETION].ranked.to_best is None
    assert f"{number(gap.value)} [{number(gap.low)}, {number(gap.high)}]" in markdown.effects(board)
    page = generate(submissions)["synthetic-slalom/tables.html"]
    assert page.count("How good each metric is here") == 4


@pytest.mark.parametrize("bit", [-1e-16, 0.0, 1e-16])
def test_the_last_bit_does_not_choose_between_metrics_that_agree_alike(bit):
    labels = [MetricLabel.of(name, 1) for name in ("one", "b", "a", "c")]
    one, *others = labels
    values = dict(zip(others, (0.7 + bit, 0.7, 0.1), strict=True))
    board = SimpleNamespace(
        metrics={label: label for label in labels}, agreement={(one, other): value for other, value in values.items()}
    )
    assert comparing._agreement(board, one) == "a +0.70, c +0.10"


def test_a_file_from_before_metrics_declared_a_scale_reads_the_same_and_keeps_its_name(submissions):
    full = next(s for s in submissions if s.model.tier == "exact")
    data = json.loads(to_text(full))
    for info in data["metrics"].values():
        assert info.pop("scale") in ("linear", "log")
        assert info.pop("relevant") > 0
    old = Submission.model_validate(data)
    assert json.loads(to_text(old)) == data
    assert old.file_name != full.file_name
    # what it does not say is asked of the registered metric
    assert [b.quality.keys() for b in boards([old])] == [b.quality.keys() for b in boards([full])]
    for mine, theirs in zip(boards([old]), boards([full]), strict=True):
        assert {r.name: r.cells for r in mine.rows} == {r.name: r.cells for r in theirs.rows}
    # and of a metric that nobody knows, nothing is assumed
    unknown = altered(old, **{"metrics__deletion@1__name": "never-heard-of"})
    assert boards([unknown])[0].metrics[DELETION].scale is None


def test_a_forge_renders_tables_and_no_markup_of_a_submission(submissions):
    from markdown_it import MarkdownIt

    forge = MarkdownIt("commonmark", {"html": True}).enable("table")
    nasty = f"{NASTY} | [x](http://x) `c` **b** <script>"
    hostile = altered(
        submissions[0],
        rows__0__explainer__name=nasty,
        rows__1__explainer__params={"a": nasty},
        task__source=nasty,
        origin__machine__model=nasty,
        model__name=nasty,
    )
    files = generate([*submissions, hostile])
    text = files["README.md"] + files["synthetic-slalom.md"] + details(files)
    html = forge.render(text)
    assert html.count("<table>") == len(re.findall(r"(?:^\|.*\n)+", text, re.M)) >= 18
    assert not re.search(r"<(?:img|script)[ >]", html)
    assert set(re.findall(r'href="([^"]*)"', html)) <= {*files, *(f"../{name}" for name in files)} | {
        name.rpartition("/")[2] for name in files
    }
    for table in re.findall(r"<table>.*?</table>", html, re.S):
        assert len({row.count("<td") for row in re.findall(r"<tr>.*?</tr>", table, re.S) if "<td" in row}) == 1


def many_rows(submission: Submission, count: int) -> Submission:
    """A file with so many rows of one budget, all of them alike but in name."""
    data = json.loads(to_text(submission))
    row = next(row for row in data["rows"] if row["explainer"]["name"] == "random")
    data["rows"] = [{**row, "explainer": {**row["explainer"], "name": f"method-{i:04}"}} for i in range(count)]
    return Submission.model_validate(data)


def test_a_long_table_is_on_several_pages_and_every_row_on_one_of_them(submissions):
    count = 3 * TABLE_ROWS + 50
    files = generate([many_rows(submissions[0], count), *submissions[1:]])
    pages = {name.rpartition("/")[2]: text for name, text in files.items() if "/tables" in name}
    assert sorted(pages) == [*(f"tables-{i}.html" for i in range(2, len(pages) + 1)), "tables.html"]
    assert len(pages) > 2
    shown = [name for text in pages.values() for name in re.findall(r'<span class="who">(method-\d+)</span> ', text)]
    assert sorted(shown) == [f"method-{i:04}" for i in range(count)]
    for name, text in pages.items():
        assert len(text) < 3_000_000
        assert all(f'href="{other}"' in text for other in pages if other != name)
        ids = re.findall(r' id="([^"]+)"', text)
        assert len(ids) == len(set(ids))
    assert f"rows {TABLE_ROWS + 1} to {2 * TABLE_ROWS} of {count}" in "".join(pages.values())
    first = details(files)
    assert f"These are the first {TABLE_ROWS} of {count} rows" in first
    assert f"| method-{TABLE_ROWS - 1:04} " in first
    assert f"| method-{TABLE_ROWS:04} " not in first


def test_pages_that_are_no_longer_needed_are_removed_and_nobody_elses(submissions, tmp_path):
    files = generate([many_rows(submissions[0], 3 * TABLE_ROWS + 50)])
    write(files, tmp_path)
    folder = tmp_path / "synthetic-slalom"
    (folder / "tables-mine.html").write_text("mine")
    assert (folder / "tables-2.html").is_file()
    write(generate(submissions), tmp_path)
    assert sorted(path.name for path in folder.glob("*.html")) == ["tables-mine.html", "tables.html"]


def test_reruns_on_another_machine_confirm_rows_and_every_machine_keeps_its_times(submissions):
    full = next(s for s in submissions if s.model.tier == "exact")
    later = {"origin__machine__model": "another processor", "origin__started": "2099-01-01T00:00:00+00:00"}
    seconds = {f"rows__{i}__cost__median_seconds": 77.0 + i for i, row in enumerate(full.rows)}
    other = altered(full, **later, **seconds, rows__0__failures={"Odd": 1})
    for board, alone in zip(boards([other, full]), boards([full]), strict=True):
        assert [(row.name, row.seconds, row.submission) for row in board.rows] == [
            (row.name, row.seconds, full) for row in alone.rows
        ]
        first, second = board.machines()
        assert {len(first[1]), len(second[1])} == {5}
        times = {machine.model: {row.seconds for row in rows} for machine, rows in (first, second)}
        assert min(times["another processor"]) >= 77.0
        said = "reproduced elsewhere, largest difference 0 of a value (1 other file)"
        assert {wording.standing(row) for row in board.rows} == {said}
        notes = [plot["note"] for plot in cost_plots(board) if "against time" in plot["title"]]
        assert {"another processor" in note for note in notes} == {True, False}


def test_names_stay_text_in_markdown():
    assert safe_text.markdown(NASTY) == '&lt;img src=x onerror="alert(1)"&gt;'
    assert safe_text.markdown("a|b\n# c *d* [e](f) `g`") == r"a&#124;b \# c \*d\* \[e\](f) \`g\`"
    assert safe_text.markdown_code("a`b") == r"a\`b"


def test_the_same_results_give_the_same_bytes_in_any_order(submissions):
    assert generate(submissions) == generate(submissions[::-1])


def test_no_results_yet_is_a_page_too(tmp_path):
    files = generate([])
    assert sorted(files) == ["README.md", "index.html"]
    assert "No results yet" in files["README.md"]
    assert "No results yet" in files["index.html"]


def test_task_names_become_confined_file_names():
    assert stem("imdb") == "imdb"
    assert re.fullmatch(r"etc-passwd-[0-9a-f]{8}", stem("../etc/passwd"))
    assert stem("a/b") != stem("a-b")
    for taken in ("README", "readme", "index", "results"):
        assert stem(taken).lower() != taken.lower()


def test_check_finds_what_is_stale(finished, tmp_path, capsys):
    (first, _second) = submit(read_run(finished), tmp_path / "results")
    gone = read_submission(first).model.name
    leaderboard_command(out=tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    leaderboard_command(out=tmp_path, check=True)
    assert "8 pages are up to date" in capsys.readouterr().out
    (tmp_path / "notes.md").write_text("mine")
    (tmp_path / "synthetic-slalom.md").write_text("changed by hand")
    with pytest.raises(typer.Exit) as caught:
        leaderboard_command(out=tmp_path, check=True)
    assert caught.value.exit_code == 1
    assert "stale: synthetic-slalom.md;" in capsys.readouterr().err
    leaderboard_command(out=tmp_path)
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    first.unlink()
    assert stale(generate(read_results(tmp_path / "results")), tmp_path) == [
        "README.md",
        "index.html",
        "synthetic-slalom.md",
        *sorted(f"synthetic-slalom/{name}-{budget}.md" for name in (gone,) for budget in (30, 60)),
        "synthetic-slalom/tables.html",
    ]


def test_the_readme_beside_the_folder_gets_the_answers_between_its_marks_and_nothing_else(submissions):
    text = f"# Mine\n\n{BEGIN}\nof last year\n{END}\n\nrest\n"
    made = generate(submissions, readme=text)[README]
    assert made.startswith(f"# Mine\n\n{BEGIN}\n\n| task ")
    assert made.endswith(f"{END}\n\nrest\n")
    assert "](leaderboards/synthetic-slalom.md)" in made
    assert "of last year" not in made
    assert generate(submissions, readme=made)[README] == made
    assert README not in generate(submissions, readme="# no marks")


def test_no_file_that_a_person_reads_is_longer_than_said(submissions, monkeypatch):
    assert all(len(text) < LARGEST for name, text in generate(submissions).items() if name.endswith(".md"))
    monkeypatch.setattr("slalom_bench.showing.leaderboard.LARGEST", 3000)
    files = generate(submissions)
    apart = [name for name in files if name.endswith("-differences.md")]
    assert len(apart) == 4
    for name in apart:
        whole = files[name.replace("-differences", "")]
        assert f"]({name.rpartition('/')[2]})" in whole
        assert "Difference from the best" in files[name]
        assert "<summary>Difference from the best" not in whole


def test_a_page_of_a_task_that_is_gone_is_removed_and_a_persons_file_is_not(finished, tmp_path):
    submit(read_run(finished), tmp_path / "results")
    leaderboard_command(out=tmp_path)
    (tmp_path / "notes.md").write_text("mine")
    write(generate([]), tmp_path)
    assert sorted(path.name for path in tmp_path.glob("*.md")) == ["README.md", "notes.md"]


def test_a_link_in_place_of_a_folder_is_not_followed(submissions, tmp_path):
    elsewhere, out = tmp_path / "elsewhere", tmp_path / "boards"
    elsewhere.mkdir()
    out.mkdir()
    (elsewhere / "old.md").write_text(f"{MARK}\n")
    (out / stem(submissions[0].task.name)).symlink_to(elsewhere)
    with pytest.raises(InvalidInput, match="is a link"):
        write(generate(submissions), out)
    assert [path.name for path in elsewhere.iterdir()] == ["old.md"]


def test_a_submission_that_contradicts_itself_is_refused_by_name(finished, tmp_path):
    (path, *_rest) = submit(read_run(finished), tmp_path / "results")
    path.rename(path.with_name("renamed.json"))
    with pytest.raises(InvalidInput, match=r"renamed.json: the file must be named"):
        leaderboard_command(out=tmp_path, strict=True)


@pytest.mark.parametrize("kind", ["fifo", "zero", "digits", "large", "deep", "renamed"])
def test_a_file_that_cannot_be_used_is_named_and_the_rest_is_built(finished, tmp_path, capsys, kind):
    (first, second) = submit(read_run(finished), tmp_path / "results")
    text, bad = first.read_text(), first.with_name("bad.json")
    if kind == "fifo":
        os.mkfifo(bad)
    elif kind == "zero":
        bad.symlink_to("/dev/zero")
    elif kind == "renamed":
        bad.write_text(text)
    else:
        nested = "[" * 900 + "]" * 900
        mean = {"digits": "1" + "0" * 309, "large": "1e308", "deep": nested}[kind]
        bad.write_text(re.sub(r'"mean": [^,]*,', f'"mean": {mean},', text, count=1))
    with pytest.raises(typer.Exit) as caught:
        leaderboard_command(out=tmp_path)
    assert caught.value.exit_code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("left out: ")
    assert "bad.json" in line
    assert (tmp_path / "index.html").is_file()
    assert second.is_file()


def test_the_pages_of_this_repository_are_up_to_date():
    folder = Path(__file__).parents[2] / "leaderboards"
    if not (folder / "index.html").is_file():
        pytest.skip("not a checkout")
    leaderboard_command(out=folder, check=True)


def test_commands_load_nothing_heavy():
    script = (
        "import sys\n"
        "for name in 'report submit verify leaderboard compare export'.split():\n"
        "    __import__(f'slalom_bench.commands.{name}')\n"
        "print(sorted({'torch', 'transformers', 'pandas', 'scipy', 'jinja2', 'tabulate'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_no_folder_is_answered(tmp_path):
    with pytest.raises(InvalidInput, match="no folder"):
        leaderboard_command(out=tmp_path / "nowhere")


# ---- figures ----


@pytest.mark.parametrize(
    ("low", "high", "log"), [(0.011, 0.052, False), (-4.3, 4.3, False), (3e-9, 20.0, True), (2, 2, True)]
)
def test_ticks_lie_inside_the_axis_and_in_order(low, high, log):
    axis = Axis.over([low, high], 0, 100, log=log)
    places = [axis.at(tick) for tick in axis.ticks()]
    assert 2 <= len(places) <= 9
    assert places == sorted(places)
    assert min(places) >= -1e-9
    assert max(places) <= 100 + 1e-9


def test_an_exact_zero_stands_at_the_foot_of_a_logarithmic_axis():
    drawn = lines([Series("a", "slalom", [(1, 0.0), (2, 0.1)]), Series("b", "lrp", [(1, 10.0), (2, 1.0)])], "k", "mse")
    heights = [float(y) for y in re.findall(r"<circle cx=\"[\d.]+\" cy=\"([\d.]+)\"", drawn)]
    assert heights[0] == max(heights)
    assert heights[1] < heights[0]


def test_figures_escape_names():
    drawn = lines([Series(NASTY, NASTY, [(1, 1.0)], NASTY)], NASTY, NASTY)
    assert "<img" not in drawn
    assert "&lt;img" in drawn
    assert scatter([], set(), "x", "y") == ""


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (1234567.0, "1.23e+06"), (12345.0, "12,345"), (0.000123, "0.000123"), (1e-7, "1e-07")]
)
def test_numbers_are_short(value, text):
    assert number(value) == text


def test_a_task_with_other_parameters_is_another_task(submissions):
    """Reviews of 50 and of 100 words stay apart: pages, answers and titles of their own."""
    (one,) = [s for s in submissions if s.model.tier == "exact"]
    other = altered(one, task__params={"seed": 1})
    files = generate([one, other])
    names = ["synthetic-slalom.md", f"{stem('synthetic-slalom:seed=1')}.md"]
    assert set(names) <= set(files)
    assert len({files[name] for name in names}) == 2
    assert "# synthetic-slalom:seed=1" in files[names[1]]
    assert all(f"]({name})" in files["README.md"] for name in names)
