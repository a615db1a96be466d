"""`explain`: from Python and from the command line, as text, JSON, figure and page."""

from __future__ import annotations

import importlib.util
import json
import shutil
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from slalom_bench import registry
from slalom_bench.backends.closed_forms import bag_of_words, slalom_transformer
from slalom_bench.backends.hf_files import save_backend
from slalom_bench.backends.random_models import random_backend
from slalom_bench.commands.explain import explain_command
from slalom_bench.core.seeds import generator
from slalom_bench.data.splits import text_hash
from slalom_bench.errors import InvalidInput, SlalomBenchError, Unsupported
from slalom_bench.handle.classifier import Classifier
from slalom_bench.running.records import explanation_from_dict
from slalom_bench.showing.explain_page import page, scatter, signed, ticks
from slalom_bench.showing.explaining import explain
from slalom_bench.showing.plots import save_plot

NASTY = (
    "w1 <script>alert('x')</script> w2\n\nw3 \"quoted\" {{ 7*7 }} w4 &amp; 👩‍👩‍👧 שלום مرحبا $x^2$ "
    "[bold]w5[/bold] </p> 電影"
)
runner = CliRunner()
app = typer.Typer(pretty_exceptions_enable=False)
app.command()(explain_command)


@pytest.fixture(scope="module")
def bert():
    return Classifier(random_backend("bert"))


@pytest.fixture(scope="module")
def nasty(bert):
    return explain(NASTY, bert, ["slalom-fidel", "leave-one-out", "attention-avg", "zero"], budget=200)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    directory = tmp_path_factory.mktemp("checkpoint") / "tiny"
    directory.mkdir()
    save_backend(random_backend("bert"), directory)
    return f"hf:{directory}"


def call(*arguments: str, **options):
    result = runner.invoke(app, list(arguments), **options)
    if isinstance(result.exception, SlalomBenchError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


# ---- from Python ----


def test_the_scores_are_the_explainers_own_as_in_a_run(bert):
    text = "w1 w2 w3 w4 w5"
    found = explain(text, bert, "linear-deletion", budget=100, seed=3)
    sample = found.sample
    assert sample.id == text_hash(text)[:16]
    with bert.work(100):
        expected = (
            registry.explainers.get("linear-deletion")
            .build()
            .explain(bert, sample, 100, generator(3, "explain", sample.id))
        )
    explanation = found.results[0].explanation
    np.testing.assert_array_equal(explanation.scores["attribution"], expected.scores["attribution"])
    assert found.results[0].cost.queries == 100
    odds = bert.log_odds([sample.ids])[0]
    assert found.log_odds == odds
    assert found.probability == pytest.approx(1 / (1 + np.exp(-odds)))


def test_an_additive_model_is_explained_by_its_weights():
    found = explain("good film bad", bag_of_words({"good": 2.0, "film": 0.5, "bad": -1.0}), "leave-one-out", budget=10)
    np.testing.assert_allclose(found.results[0].explanation.scores["attribution"], [2.0, 0.5, -1.0], atol=1e-6)
    assert found.target_name == "positive"


def test_what_the_model_does_not_suit_is_said_and_the_rest_goes_on():
    words = bag_of_words({"good": 2.0, "bad": -1.0}, specials=True)
    found = explain("good bad", words, ["attention-avg", "leave-one-out"], budget=10)
    assert "attentions" in found.results[0].reason
    assert found.results[0].explanation is None
    assert found.results[1].explanation is not None
    with pytest.raises(Unsupported, match=r"attention-avg.*attentions"):
        explain("good bad", words, "attention-avg")
    with pytest.raises(Unsupported, match=r"leave-one-out.*2"):
        explain("good bad", words, "leave-one-out", budget=2)


def test_targets_by_name_and_number(bert):
    first = explain("w1 w2 w3", bert, "leave-one-out", target="class0").results[0].explanation
    second = explain("w1 w2 w3", bert, "leave-one-out", target="1").results[0].explanation
    assert (first.target, second.target) == (0, 1)
    np.testing.assert_allclose(first.scores["attribution"], -second.scores["attribution"], atol=1e-6)
    with pytest.raises(InvalidInput, match="class0"):
        explain("w1", bert, "zero", target="nobody")
    with pytest.raises(InvalidInput, match="2"):
        explain("w1", bert, "zero", target="2")


def test_three_classes_explain_the_predicted_one():
    classifier = Classifier(random_backend("bert", classes=3))
    found = explain("w1 w2 w3 w4", classifier, "zero")
    assert found.target == int(classifier.probabilities([found.sample.ids])[0].argmax())


def test_bad_input_has_an_answer(bert):
    with pytest.raises(InvalidInput, match="empty"):
        explain(" \n", bert, "zero")
    with pytest.raises(InvalidInput, match="budget"):
        explain("w1", bert, "zero", budget=0)
    with pytest.raises(SlalomBenchError, match="zero"):
        explain("w1", bert, "zeroo")
    with pytest.raises(InvalidInput, match="explain"):
        explain("w1", bert, 3)
    assert explain("w1 \udcff", bert, "zero").sample.text == "w1 \N{REPLACEMENT CHARACTER}"


def test_long_texts_are_cut_and_say_so(bert):
    found = explain("w1 " * 600, bert, "zero", max_tokens=20)
    assert (len(found.sample), found.sample.truncated) == (20, 580)
    assert "580 more tokens not read" in page(found)


# ---- the page ----


class Reader(HTMLParser):
    """Collects the text of each .text paragraph, every tag, and every attribute that could load something."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.tags: list[str] = []
        self.loads: list[str] = []
        self._inside = False

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.loads += [f"{tag} {key}={value}" for key, value in attrs if key in ("src", "href", "srcset", "data")]
        if tag == "p" and dict(attrs).get("class") == "text":
            self.texts.append("")
            self._inside = True

    def handle_endtag(self, tag):
        if tag == "p":
            self._inside = False

    def handle_data(self, data):
        if self._inside:
            self.texts[-1] += data


@pytest.fixture(scope="module")
def read_page(nasty):
    reader = Reader()
    reader.feed(page(nasty))
    return reader


def test_the_page_shows_the_text_itself_under_every_explainer(read_page):
    # slalom-fidel has two layers, the others one
    assert read_page.texts == [NASTY] * 6


def test_the_page_is_self_contained_and_nothing_of_the_text_is_markup(nasty, read_page):
    assert read_page.loads == []
    assert read_page.tags.count("script") == 2
    html = page(nasty)
    assert "alert('x')" not in html
    assert "http://" not in html
    assert "https://" not in html
    assert "49" not in read_page.texts[0]


def test_the_tooltips_hold_every_score(nasty):
    html = page(nasty)
    units = json.loads(html.split('id="units">')[1].split("</script>")[0])
    reading = nasty.reading()
    assert [unit["label"] for unit in units] == [unit.label for unit in reading.units]
    fidel = nasty.results[0].explanation
    wanted = [["slalom-fidel", name, signed(fidel.scores[name][0])] for name in ("removal", "value", "importance")]
    assert units[0]["scores"][:3] == wanted
    assert len(units[0]["scores"]) == 6


def test_the_scatter_plot_is_to_scale():
    value, importance = {"a": -2.0, "b": 4.0, "c": 1.0}, {"a": 1.0, "b": 3.0, "c": 2.0}
    found = explain("a b c", slalom_transformer(value, importance), "slalom-exact", budget=50)
    drawn = scatter(found.results[0].explanation, found.reading())
    a, b, c = drawn["points"]
    assert (c["x"] - a["x"]) / (b["x"] - a["x"]) == pytest.approx(0.5, abs=1e-3)
    assert (c["y"] - a["y"]) / (b["y"] - a["y"]) == pytest.approx(0.5, abs=1e-3)
    assert b["y"] < a["y"]
    assert a["x"] < drawn["zero"] < c["x"]
    assert {label["text"] for label in drawn["labels"]} == {"a", "b", "c"}


def test_ticks_are_round_numbers():
    assert list(ticks(-4.3, 4.3)) == [-4, -2, 0, 2, 4]
    np.testing.assert_allclose(ticks(0.011, 0.052), [0.02, 0.03, 0.04, 0.05])


@pytest.mark.skipif(
    importlib.util.find_spec("playwright") is None or shutil.which("chromium") is None, reason="no headless Chromium"
)
def test_the_page_in_a_browser(nasty, tmp_path):
    from playwright.sync_api import sync_playwright

    path = tmp_path / "page.html"
    path.write_text(page(nasty), encoding="utf-8")
    flags = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]
    problems, requests = [], []
    with sync_playwright() as browsers:
        browser = browsers.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        tab = browser.new_context(viewport={"width": 390, "height": 800}, has_touch=True).new_page()
        tab.on("console", lambda message: problems.append(message.text))
        tab.on("pageerror", lambda error: problems.append(str(error)))
        tab.on("request", lambda request: requests.append(request.url))
        tab.goto(path.as_uri())
        tab.evaluate("document.querySelector('details').open = true")
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        tab.locator(".text .t").nth(1).tap()
        assert "<script>" in tab.locator("#tip strong").inner_text()
        box = tab.locator("#tip").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
        tab.locator(".text").first.focus()
        tab.keyboard.press("ArrowRight")
        assert tab.locator("#tip strong").inner_text() == "w2"
        tab.keyboard.press("Escape")
        assert not tab.locator("#tip").is_visible()
        browser.close()
    assert problems == []
    assert requests == [path.as_uri()]


# ---- figures ----


def test_an_svg_keeps_the_tokens_as_text_and_never_as_formulas(nasty, tmp_path):
    save_plot(nasty, tmp_path / "figure.svg")
    texts = {e.text for e in ElementTree.parse(tmp_path / "figure.svg").iter() if e.tag.endswith("text")}
    assert {"slalom-fidel", "leave-one-out", "$x^2$", "👩‍👩‍👧"} <= texts


def test_a_png_is_a_png_and_the_same_twice(bert, tmp_path):
    found = explain("w1 w2 w3", bert, "leave-one-out")
    for name in ("one.png", "two.png"):
        save_plot(found, tmp_path / name)
    first, second = ((tmp_path / name).read_bytes() for name in ("one.png", "two.png"))
    assert first.startswith(b"\x89PNG")
    assert first == second


def test_the_bars_are_the_primary_scores():
    from slalom_bench.showing.plots import figure

    found = explain("good film bad", bag_of_words({"good": 2.0, "film": 0.5, "bad": -1.0}), "leave-one-out", budget=10)
    (axes,) = figure(found).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["good", "bad", "film"]
    np.testing.assert_allclose([bar.get_width() for bar in axes.patches], [2.0, -1.0, 0.5], atol=1e-6)


# ---- the command line ----


def test_the_command_prints_scores_and_writes_files(checkpoint, tmp_path):
    html, plot = tmp_path / "a.html", tmp_path / "a.svg"
    result = call(
        "w1 w2 [red]w3[/red]",
        "--model",
        checkpoint,
        "--explainer",
        "slalom-eff",
        "--explainer",
        "lime:tie=token",
        "--budget",
        "60",
        "--html",
        str(html),
        "--plot",
        str(plot),
        "--device",
        "cpu",
    )
    assert "w1 w2 [red]w3[/red]" in result.stdout
    assert "importance" in result.stdout
    assert "lime:tie=token  60 queries" in result.stdout
    assert "lime:tie=token" in html.read_text(encoding="utf-8")
    assert plot.read_text(encoding="utf-8").startswith("<?xml")


def test_json_has_everything(checkpoint, tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("w1 שלום 👩‍👩‍👧", encoding="utf-8")
    data = json.loads(call("--text-file", str(file), "--model", checkpoint, "--explainer", "zero", "--json").stdout)
    assert data["text"] == "w1 שלום 👩‍👩‍👧"
    assert [data["text"][a:b] for a, b in data["offsets"]] == data["text"].split()
    assert data["tokens"] == ["w1", "[UNK]", "[UNK]"]
    explanation = explanation_from_dict(data["results"][0]["explanation"])
    assert len(explanation) == 3
    assert data["results"][0]["cost"]["queries"] == 1


def test_standard_input(checkpoint):
    data = json.loads(call("-", "--model", checkpoint, "--explainer", "zero", "--json", input="w1 w2\n").stdout)
    assert data["text"] == "w1 w2\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give a text"),
        (["w1", "--text-file", "x.txt"], "give a text"),
        (["--text-file", "no-such-file.txt"], "no-such-file.txt"),
        (["w1", "--plot", "figure.gif"], r"\.svg"),
        (["w1", "--plot", "no-such-folder/figure.svg"], "no-such-folder"),
        (["w1", "--explainer", "slalom-fiedl"], "slalom-fidel"),
        (["w1", "--explainer", "lime:tiee=token"], "tie"),
        (["w1", "--model", "mini-brt"], "mini-bert"),
    ],
)
def test_user_errors_name_the_value_and_the_remedy(checkpoint, arguments, message):
    model = [] if "--model" in arguments else ["--model", checkpoint]
    with pytest.raises(SlalomBenchError, match=message):
        call(*arguments, *model)


def test_a_file_that_is_not_utf8_is_refused(checkpoint, tmp_path):
    file = tmp_path / "latin.txt"
    file.write_bytes("naïve".encode("latin-1"))
    with pytest.raises(InvalidInput, match="UTF-8: byte 2 is 0xef"):
        call("--text-file", str(file), "--model", checkpoint)


def test_a_stand_in_is_named_everywhere(bert):
    from dataclasses import replace

    found = replace(explain("w1 w2", bert, "zero"), note="bert <could> not be had")
    assert "bert &lt;could&gt; not be had" in page(found)
    assert found.to_dict()["note"] == "bert <could> not be had"


@pytest.mark.parametrize("name", ["mini-bert", "mini-distilbert", "mini-gpt2"])
def test_the_shipped_models_need_no_data(name, monkeypatch):

    if not (registry.models.build(name).directory / "model.safetensors").is_file():
        pytest.skip(f"{name} is not shipped yet")
    monkeypatch.setattr("slalom_bench.data.loading.load_task", lambda *_: pytest.fail("data were read"))
    text = "A dull, awful script; but what a wonderful cast 😀!"
    data = json.loads(call(text, "--model", name, "--explainer", "leave-one-out", "--json", "--device", "cpu").stdout)
    assert data["class_names"] == ["negative", "positive"]
    scores = data["results"][0]["explanation"]["scores"]["attribution"]
    words = [text[a:b].strip().lower() for a, b in data["offsets"]]
    assert scores[words.index("wonderful")] > scores[words.index("awful")]
