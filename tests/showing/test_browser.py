"""The pages in a real browser: no errors, no requests, sorting, filtering, escaping, phone, keyboard, print."""

from __future__ import annotations

import json

import pytest

from slalom_bench.results.collect import collect
from slalom_bench.results.reading import read_run
from slalom_bench.results.submission import Submission, to_text
from slalom_bench.showing.leaderboard import generate
from slalom_bench.showing.report import write_report

NASTY = '<img src=x onerror="document.title=1">"\'</script><script>document.title=2</script>'


@pytest.fixture(scope="module")
def page_file(finished, tmp_path_factory):
    """A leaderboard with a hostile submission among the honest ones."""
    submissions = [collected.submission for collected in collect(read_run(finished))]
    data = json.loads(to_text(submissions[-1]))
    data["task"]["source"] = NASTY
    data["model"]["name"] = f"model {NASTY}"
    data["protocol"] = "paper"
    data["origin"]["machine"]["model"] = NASTY
    for info in data["metrics"].values():
        info |= {"summary": NASTY, "unit": NASTY, "name": NASTY}
    for row in data["rows"]:
        params = {NASTY: NASTY, "at": row["explainer"]["name"]}
        row["explainer"] |= {"name": NASTY, "family": NASTY, "params": params}
        for result in row["results"].values():
            result["reasons"] = {NASTY: result["undefined"]}
    files = generate([*submissions, Submission.model_validate(data)])
    path = tmp_path_factory.mktemp("page") / "tables.html"
    path.write_text(files["synthetic-slalom/tables.html"], encoding="utf-8")
    data["task"]["name"] = f"task {NASTY}"
    files = generate([*submissions, Submission.model_validate(data)])
    (path.parent / "index.html").write_text(files["index.html"], encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def front_file(page_file):
    """The page that leads, of an honest and a hostile task."""
    return page_file.parent / "index.html"


@pytest.fixture
def load(browser):
    """Open a file; at the end there must have been no message, no error, no request but for the file."""
    problems, requests, opened, contexts = [], [], [], []

    def go(path, width=1280, height=900, **options):
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.on("dialog", lambda dialog: (problems.append(dialog.message), dialog.dismiss()))
        opened.append(path.as_uri())
        page.goto(path.as_uri())
        return page

    yield go
    for context in contexts:
        context.close()
    assert problems == []
    assert requests == opened


def rows(page, board=0):
    script = (
        "n => [...document.querySelectorAll('.board')[n].querySelectorAll('table.quality tbody tr')]"
        ".filter(r => r.checkVisibility()).map(r => r.querySelector('.who').textContent)"
    )
    return page.evaluate(script, board)


def shown_boards(page):
    return page.evaluate("[...document.querySelectorAll('.board')].filter(b => b.checkVisibility()).map(b => b.id)")


def test_sorting_changes_the_rows_and_missing_ones_stay_last(load, page_file):
    page = load(page_file)
    header = page.locator(".board").first.locator("table.quality thead button")
    names = header.all_inner_texts()
    place = next(i for i, name in enumerate(names) if name.startswith("deletion"))
    start = rows(page)
    column = page.locator(".board").first.locator(f"table.quality tbody tr > :nth-child({place + 1})")

    def values():
        return column.evaluate_all("cells => cells.map(c => c.dataset.sort)")

    header.nth(place).click()
    best_first = [float(v) for v in values() if v]
    assert best_first == sorted(best_first, reverse=True)
    assert values()[-1] == ""
    assert page.locator("th[aria-sort=descending]").count() == 1
    header.nth(place).click()
    worst_first = [float(v) for v in values() if v]
    assert worst_first == sorted(worst_first)
    assert values()[-1] == ""
    header.nth(0).click()
    assert rows(page) == sorted(start)


def test_filters_change_the_rows_the_points_and_the_count(load, page_file):
    page = load(page_file)
    every = len(shown_boards(page))
    assert every == 6
    assert page.locator("#count").inner_text() == "30 rows"
    page.select_option("[data-filter=model]", "mini-bert")
    assert len(shown_boards(page)) == 2
    assert not page.get_by_role("heading", name="Full models").is_visible()
    page.select_option("[data-filter=family]", "baseline")
    visible = page.evaluate(
        "[...document.querySelectorAll('.board table.quality tbody tr')].filter(r => r.checkVisibility())"
        ".map(r => r.dataset.family)"
    )
    assert visible == ["baseline"] * 4
    assert page.locator("#count").inner_text() == "4 of 30 rows"
    assert page.evaluate(
        "[...document.querySelectorAll('.board:not([hidden]) svg .mark')]"
        ".filter(m => getComputedStyle(m).display !== 'none')"
        ".every(m => m.classList.contains('f-baseline'))"
    )
    page.fill("#q", "nothing like this")
    assert page.locator("#nothing").is_visible()
    page.get_by_role("button", name="Reset").click()
    page.wait_for_function("document.getElementById('count').textContent === '30 rows'")
    page.fill("#q", "ZERO")
    assert page.locator("#count").inner_text() == "6 of 30 rows"
    page.fill("#q", "")
    page.select_option("[data-filter=protocol]", "paper")
    assert len(shown_boards(page)) == 2
    page.select_option("[data-filter=protocol]", "")
    assert len(shown_boards(page)) == 6


def test_the_page_that_leads_has_answers_tables_that_sort_and_nothing_hostile(load, front_file):
    page = load(front_file)
    page.wait_for_timeout(100)
    assert page.title() == "slalom-bench leaderboard"
    assert page.locator("img").count() == 0
    assert page.locator("h2", has_text=NASTY).count() == 1
    assert page.locator(".answers b").count() > 0
    table = page.locator("#synthetic-slalom table.front").first
    assert table.locator("td.best").count() == 0, "so few texts tell no two apart"
    last = table.locator("thead button").count() - 1
    table.locator("thead button").nth(last).click()
    cells = table.locator(f"tbody tr > :nth-child({last + 1})").evaluate_all("cells => cells.map(c => c.dataset.sort)")
    values = [float(value) for value in cells if value]
    assert values == sorted(values, reverse=True)
    assert page.locator("a[href='synthetic-slalom/tables.html']").count() == 1


def test_hostile_names_are_text(load, page_file):
    page = load(page_file)
    page.wait_for_timeout(100)
    assert page.title() == "synthetic-slalom: every table"
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 1
    assert page.locator(".who", has_text=NASTY).count() > 0
    button = page.locator("thead button.sort", has_text=NASTY).first
    button.hover()
    assert NASTY in page.locator("#tip").inner_text()


def test_even_unescaped_markup_could_not_run(browser, page_file, tmp_path):
    broken = tmp_path / "broken.html"
    broken.write_text(page_file.read_text().replace("<main", "<p onclick='document.title=3' id=bad>x</p><main"))
    page = browser.new_page()
    said = []
    page.on("console", lambda message: said.append(message.text))
    page.goto(broken.as_uri())
    page.click("#bad")
    assert page.title() == "synthetic-slalom: every table"
    assert any("Content Security Policy" in text for text in said)
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_has_no_sideways_scroll_and_nothing_cut_off(load, page_file, front_file, finished, scheme):
    for path in (front_file, page_file, write_report(read_run(finished))[1]):
        page = load(path, 390, 844, color_scheme=scheme)
        page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        wide = page.evaluate(
            "[...document.querySelectorAll('.board *, .panel *')].filter(e => e.checkVisibility() &&"
            " e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))"
        )
        assert wide == []
    list_ = page.locator("[data-sorter]").first
    assert list_.is_visible()
    list_.select_option("0")
    assert rows(page) == sorted(rows(page))


def test_light_and_dark_follow_the_system_and_the_button(load, page_file):
    dark = load(page_file, color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    assert dark.evaluate(background) == "rgb(16, 19, 23)"
    dark.get_by_role("button", name="Theme: auto").click()
    assert dark.evaluate(background) == "rgb(247, 247, 245)"
    light = load(page_file, color_scheme="light")
    assert light.evaluate(background) == "rgb(247, 247, 245)"


def test_text_can_be_read_on_its_background(load, page_file):
    script = """() => {
      const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
      const rgb = (colour) => { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3); };
      const light = (c) => c.map((v) => v / 255).map((v) => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
        .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
      const paper = light(rgb(getComputedStyle(document.querySelector('.board')).backgroundColor));
      const marked = light(rgb(getComputedStyle(document.querySelector('td.best')).backgroundColor));
      const texts = [...document.querySelectorAll('.chip, .rank, .range, .who, .facts span, .sort')];
      return Math.min(...texts.flatMap((e) => [paper, marked].map((ground) => {
        const ink = light(rgb(getComputedStyle(e).color));
        return (Math.max(ink, ground) + .05) / (Math.min(ink, ground) + .05);
      })));
    }"""
    for scheme in ("light", "dark"):
        assert load(page_file, color_scheme=scheme).evaluate(script) >= 4.5, scheme


def test_everything_can_be_done_with_the_keyboard(load, page_file):
    page = load(page_file)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    button = page.locator(".board").first.locator("table.quality thead button").nth(1)
    button.focus()
    assert page.locator("#tip").is_visible()
    assert "is better" in page.locator("#tip").inner_text()
    assert (
        page.evaluate(
            "b => document.getElementById(b.getAttribute('aria-describedby')).textContent", button.element_handle()
        )
        == page.locator("#tip").text_content()
    )
    page.keyboard.press("Escape")
    assert not page.locator("#tip").is_visible()
    page.keyboard.press("Enter")
    assert page.locator(".board").first.locator("table.quality th").nth(1).get_attribute("aria-sort") == "ascending"
    page.keyboard.press("Tab")
    assert page.locator("#tip").is_visible()


def test_tables_are_tables_to_a_screen_reader_on_a_phone_too(load, page_file):
    page = load(page_file, 390, 844)
    table = page.get_by_role("table").first
    assert table.get_by_role("row").count() > 3
    assert table.get_by_role("rowheader").count() == 5


def test_on_paper_the_controls_are_gone_and_the_commands_are_there(load, page_file):
    page = load(page_file, 700, 1000)
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth") <= 700
    assert page.locator("thead").first.is_visible()
    assert not page.locator("#filters").is_visible()
    assert page.locator(".commands code").first.is_visible()


def test_without_script_the_tables_are_there(browser, page_file):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(page_file.as_uri())
    assert page.locator("table.quality").first.is_visible()
    assert not page.locator("#filters").is_visible()
    context.close()
