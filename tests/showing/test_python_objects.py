"""What `explain` and `run` give back in Python and notebooks, and what they take for a model."""

import json

import numpy as np
import pandas as pd
import pytest

import slalom_bench
from slalom_bench.errors import InvalidInput, UnknownName
from slalom_bench.showing.shades import contribution

TEXT = "a good film , so good"


def count_good(texts):
    """Two log-odds a `good`, minus one."""
    return [2.0 * text.split().count("good") - 1.0 for text in texts]


@pytest.fixture(scope="module")
def explained():
    return slalom_bench.explain(TEXT, model=count_good, explainer=["leave-one-out", "slalom-fidel"], budget=60)


def test_an_explained_text_is_short_to_print_and_subscripted_by_explainer(explained):
    assert repr(explained) == (
        "<'a good film , so good' by count-good: log-odds of positive +3.000; leave-one-out, slalom-fidel>"
    )
    assert explained["leave-one-out"].scores["attribution"].tolist() == [0, 2, 0, 0, 0, 2]
    assert explained[1] is explained["slalom-fidel"]
    assert [len(each) for each in explained] == [6, 6]
    with pytest.raises(UnknownName, match="leave-one-out"):
        explained["leave-one-in"]
    assert len(repr(explained.results[0])) < 100
    assert repr(explained["leave-one-out"]) == (
        "<explanation of class 1 over 6 tokens: attribution (primary); LinearSurrogate>"
    )


def test_frames_hold_every_score_and_the_top_is_sorted(explained):
    frame = explained.to_frame()
    assert frame.index.get_level_values("token").tolist() == TEXT.split()
    assert frame["leave-one-out"]["attribution"].tolist() == [0, 2, 0, 0, 0, 2]
    assert set(frame["slalom-fidel"]) == set(explained["slalom-fidel"].scores)
    top = explained.top(2)
    assert top.index.tolist() == [(1, "good"), (5, "good")]
    strengths = explained.top(6, "slalom-fidel")["removal"].abs().to_numpy()
    assert (np.diff(strengths) <= 0).all()
    assert list(explained.top(1, "slalom-fidel")) == ["removal", "value", "importance"]


def test_a_notebook_gets_the_page_in_a_frame_of_its_own(explained, tmp_path):
    html = explained._repr_html_()
    assert html.startswith("<iframe")
    assert "<script" not in html
    assert explained.to_html(tmp_path / "page.html") == (tmp_path / "page.html").read_text(encoding="utf-8")
    with pytest.raises(InvalidInput, match="No such file"):
        explained.to_html(tmp_path / "nowhere" / "page.html")
    assert explained.plot(tmp_path / "plot.svg").axes
    assert "good" in (tmp_path / "plot.svg").read_text(encoding="utf-8")


def test_what_was_written_is_read_again_as_the_same_page(explained):
    again = type(explained).from_dict(json.loads(json.dumps(explained.to_dict())))
    assert again.to_html() == explained.to_html()
    assert again.to_dict() == explained.to_dict()


def test_other_packages_forms_hold_the_same_numbers(explained):
    shap = pytest.importorskip("shap")
    made = explained.to_shap("slalom-fidel")
    assert isinstance(made, shap.Explanation)
    contributions = explained["slalom-fidel"].scores["removal"]
    np.testing.assert_array_equal(made.values, contributions)
    assert made.base_values + made.values.sum() == pytest.approx(explained.log_odds)
    assert made.data.tolist() == TEXT.split()
    record = explained.to_captum()[1]
    np.testing.assert_allclose(record.word_attributions, contributions / abs(contributions).max())
    assert (record.pred_class, record.true_class, record.raw_input_ids) == ("positive", "unknown", TEXT.split())


def test_other_seeds_say_where_scores_fall():
    one = slalom_bench.explain(TEXT, model=count_good, explainer=["random", "leave-one-out"], seeds=40)
    ends = one.results[0].intervals[contribution(one["random"])]
    assert one.results[1].intervals == {}
    # standard normal scores: a prediction interval of 95 % over 40 seeds is about +-2
    np.testing.assert_allclose(ends.mean(axis=0), [-2.0, 2.0], atol=0.35)
    scores = one["random"].scores[contribution(one["random"])]
    again = slalom_bench.explain(TEXT, model=count_good, explainer="random")
    np.testing.assert_array_equal(scores, again["random"].scores[again["random"].primary])


def test_frames_pages_and_figures_show_the_intervals_over_seeds():
    one = slalom_bench.explain(TEXT, model=count_good, explainer=["random", "leave-one-out"], seeds=5)
    top = one.top(2, "random")
    assert list(top) == [one["random"].primary, "low", "high"]
    ends = one.results[0].intervals[one["random"].primary]
    positions = top.index.get_level_values("position").to_numpy()
    np.testing.assert_array_equal(top[["low", "high"]].to_numpy(), ends[positions])
    assert list(one.top(2, "leave-one-out")) == ["attribution"]
    assert one.to_html().count(" to ") >= len(TEXT.split())
    assert "95 % of other seeds" in one.to_html()
    drawn = [line.get_gid() for axes in one.plot().axes for line in axes.collections]
    assert drawn.count("seeds") == 1
    single = slalom_bench.explain(TEXT, model=count_good, explainer="random")
    assert "other seeds" not in single.to_html()


def test_a_function_that_returns_a_row_a_class_is_told_how_to_say_so():
    with pytest.raises(Exception, match=r'slalom_bench.wrap\(fn, output="probabilities" or "logits"\)'):
        slalom_bench.explain(TEXT, model=lambda texts: [[0.3, 0.7]] * len(texts), explainer="zero")


@pytest.fixture(scope="module")
def small_bert():
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    words = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]", *sorted(set(TEXT.split()))]
    raw = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    raw.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    names = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=raw, mask_token="[MASK]", **names)
    config = transformers.BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    return transformers.BertForSequenceClassification(config).eval(), tokenizer


def test_transformers_objects_are_models(small_bert):
    from transformers import TextClassificationPipeline

    model, tokenizer = small_bert
    pair = slalom_bench.explain(TEXT, model=(model, tokenizer), explainer="grad-x-input")
    logits = model(**tokenizer(TEXT, return_tensors="pt")).logits[0].detach().numpy()
    assert pair.log_odds == pytest.approx(float(logits[1] - logits[0]), abs=1e-5)
    pipe = TextClassificationPipeline(model=model, tokenizer=tokenizer)
    piped = slalom_bench.explain(TEXT, model=pipe, explainer="grad-x-input")
    np.testing.assert_allclose(piped[0].scores[piped[0].primary], pair[0].scores[pair[0].primary], atol=1e-7)
    with pytest.raises(InvalidInput, match="needs its tokenizer"):
        slalom_bench.explain(TEXT, model=model, explainer="zero")
    with pytest.raises(InvalidInput, match="training mode"):
        slalom_bench.explain(TEXT, model=(model.train(), tokenizer), explainer="zero")
    model.eval()


def test_a_scikit_learn_pipeline_is_a_model():
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    words = CountVectorizer(token_pattern=r"\S+")
    fitted = make_pipeline(words, LogisticRegression()).fit(["good", "bad", "good film", "bad film"], [1, 0, 1, 0])
    said = slalom_bench.explain("a good film", model=fitted, explainer="leave-one-out")
    weights = dict(zip(words.get_feature_names_out(), fitted[-1].coef_[0], strict=True))
    np.testing.assert_allclose(said[0].scores["attribution"], [0, weights["good"], weights["film"]], atol=1e-9)


def test_what_is_no_model_is_said(tmp_path):
    with pytest.raises(InvalidInput, match="int is no model: give a reference"):
        slalom_bench.explain(TEXT, model=3, explainer="zero")


def test_a_run_takes_objects_and_gives_frames(tmp_path, capsys):
    texts = tmp_path / "texts.csv"
    texts.write_text("text,label\na good film,1\nso so film,0\n", encoding="utf-8")
    ran = slalom_bench.run(
        task=f"text:{texts}",
        model=slalom_bench.wrap(count_good, identity="v1"),
        explainer=["leave-one-out", "zero"],
        metric="srg",
        budget=10,
        out=tmp_path / "run",
    )
    assert repr(ran).startswith("<run of custom-text in ")
    assert "leave-one-out" in capsys.readouterr().err
    board = ran.board()
    assert board.index.names == ["task", "model", "budget", "explainer"]
    assert board.index.get_level_values("explainer").tolist() == ["leave-one-out", "zero"]
    scores = ran.scores()
    assert set(scores["explainer"]) == {"leave-one-out", "zero"}
    srg = scores[
        scores["metric"].str.startswith("srg")
        & (scores["explainer"] == "leave-one-out")
        & (scores["name"] == "attribution")
    ]
    assert board["srg"].iloc[0] == pytest.approx(srg["value"].mean())
    assert pd.isna(board["srg"].iloc[1])
    assert "<table" in ran._repr_html_()
    again = slalom_bench.run(
        task=[f"text:{texts}"],
        model=[slalom_bench.wrap(count_good, identity="v1")],
        explainer=["leave-one-out", "zero"],
        metric=["srg"],
        budget=[10],
        out=tmp_path / "run",
    )
    assert (again.explained, again.reused) == (0, 4)
