"""Validation and round trips of what moves through a run."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slalom_bench import registry
from slalom_bench.core.references import Ref
from slalom_bench.core.tokens import WordTokens, encode, marks_by_offset
from slalom_bench.core.types import Cost, Example, Explanation, Sample, Score
from slalom_bench.errors import InvalidInput, UnknownName
from slalom_bench.running.records import explanation_from_dict, surrogate_from_dict
from slalom_bench.surrogates.linear import LinearSurrogate
from slalom_bench.surrogates.slalom import SlalomSurrogate

KEEP = np.array([[1, 1, 1], [1, 0, 0], [0, 1, 1]], bool)


def test_linear_surrogate_by_hand():
    surrogate = LinearSurrogate.from_full([1.0, -2.0, 0.5], full=3.0)
    np.testing.assert_allclose(surrogate.predict(KEEP), [3.0, 3.0 - (-1.5), 3.0 - 1.0])


def test_slalom_surrogate_by_hand():
    surrogate = SlalomSurrogate([1.0, -1.0, 3.0], np.log([1.0, 2.0, 1.0]))
    np.testing.assert_allclose(surrogate.predict(KEEP), [(1 - 2 + 3) / 4, 1.0, (-2 + 3) / 3])
    anchored = SlalomSurrogate([1.0, -1.0, 3.0], np.log([1.0, 2.0, 1.0]), anchor=(5.0, np.log(4.0)))
    np.testing.assert_allclose(anchored.predict(KEEP), [(2 + 20) / 8, (1 + 20) / 5, (1 + 20) / 7])
    np.testing.assert_allclose(anchored.predict(np.zeros((1, 3), bool)), [5.0])
    with pytest.raises(InvalidInput, match="0/0"):
        surrogate.predict(np.zeros((1, 3), bool))


def test_importances_a_thousand_apart_do_not_overflow():
    predicted = SlalomSurrogate([1.0, 2.0], [0.0, 1000.0]).predict(np.array([[1, 1], [1, 0]], bool))
    np.testing.assert_allclose(predicted, [2.0, 1.0])


numbers = st.floats(-1e6, 1e6, allow_nan=False)
pair = st.tuples(numbers, numbers)


@settings(max_examples=40, deadline=None)
@given(pairs=st.lists(pair, min_size=1, max_size=8), anchor=st.one_of(st.none(), pair))
def test_explanations_come_back_from_json_to_the_bit(pairs, anchor):
    value, importance = (np.array(column) for column in zip(*pairs, strict=True))
    explanation = Explanation(
        {"value": value, "importance": importance},
        "value",
        unsigned=frozenset({"importance"}),
        surrogate=SlalomSurrogate(value, importance, anchor),
        diagnostics={"converged": True},
    )
    again = explanation_from_dict(json.loads(json.dumps(explanation.to_dict())))
    assert (again.scores["value"] == value).all()
    assert (again.scores["importance"] == importance).all()
    assert again.to_dict() == explanation.to_dict()


def test_explanations_are_validated_and_frozen():
    with pytest.raises(InvalidInput, match="at least one named score"):
        Explanation({}, "x")
    with pytest.raises(InvalidInput, match=r"score 'x' has 1 non-finite"):
        Explanation({"x": np.array([1.0, np.nan])}, "x")
    with pytest.raises(InvalidInput, match="one length"):
        Explanation({"x": np.zeros(2), "y": np.zeros(3)}, "x")
    with pytest.raises(InvalidInput, match="primary score 'z'"):
        Explanation({"x": np.zeros(2)}, "z")
    with pytest.raises(InvalidInput, match="over 3 positions for 2 scores"):
        Explanation({"x": np.zeros(2)}, "x", surrogate=LinearSurrogate(np.zeros(3), 0.0))
    with pytest.raises(InvalidInput, match="not an explanation: KeyError"):
        explanation_from_dict({"primary": "x"})
    with pytest.raises(UnknownName, match="unknown surrogate 'cubic'"):
        surrogate_from_dict({"kind": "cubic"})
    with pytest.raises(ValueError, match="read-only"):
        Explanation({"x": np.zeros(2)}, "x").scores["x"][0] = 1.0


def test_scores_are_finite_or_say_why():
    assert Score({"a": 1}, {"b": "too short"}).to_dict() == {"values": {"a": 1.0}, "undefined": {"b": "too short"}}
    with pytest.raises(InvalidInput, match="must be finite"):
        Score({"a": float("nan")})
    with pytest.raises(InvalidInput, match="both a value and undefined"):
        Score({"a": 1.0}, {"a": "no"})


def test_samples_and_examples_are_validated():
    with pytest.raises(InvalidInput, match="at least one content token"):
        Sample("x", np.array([], np.int64))
    with pytest.raises(InvalidInput, match="marks of shape"):
        Sample("x", np.array([1, 2]), marks=np.array([True]))
    with pytest.raises(InvalidInput, match="the text is empty"):
        Example("x", "  ")
    with pytest.raises(InvalidInput, match="1 marks for 2 whitespace words"):
        Example("x", "a b", word_marks=(True,))


def test_costs_add_up():
    assert (Cost(queries=2, seconds=0.5) + Cost(queries=3, seconds=1.0)) == Cost(queries=5, seconds=1.5)


def test_marks_follow_their_words_by_offset():
    text = "un-believable  food, no"
    offsets = np.array([[0, 2], [2, 3], [3, 13], [15, 19], [19, 20], [21, 23]])
    marks = marks_by_offset(text, (True, False, True), offsets)
    assert marks.tolist() == [True, True, True, False, False, True]
    # byte-level tokenizers count the space before a word as part of it
    assert marks_by_offset("a bc", (False, True), np.array([[0, 1], [1, 4]])).tolist() == [False, True]


def test_word_tokens_and_truncation():
    tokens = WordTokens(["good", "film"])
    sample = encode(tokens, Example("x", "good odd film", word_marks=(True, False, False)), max_tokens=2)
    assert tokens.words(sample.ids) == ["good", "[UNK]"]
    assert sample.truncated == 1
    assert sample.marks is not None
    assert sample.marks.tolist() == [True, False]
    assert sample.offsets is not None
    assert sample.offsets.tolist() == [[0, 4], [5, 8]]
    with pytest.raises(InvalidInput, match="used twice"):
        WordTokens(["a", "a"])


@pytest.mark.parametrize(
    ("text", "name", "argument", "params"),
    [
        ("lime", "lime", None, {}),
        ("lime:tie=token,alpha=0.5,x=true", "lime", None, {"tie": "token", "alpha": 0.5, "x": True}),
        ("text:a/b.csv,text_column=body", "text", "a/b.csv", {"text_column": "body"}),
        ("hf:owner/model", "hf", "owner/model", {}),
    ],
)
def test_references_are_read_and_spelled(text, name, argument, params):
    ref = Ref.parse(text)
    assert (ref.name, ref.argument, dict(ref.params)) == (name, argument, params)
    assert Ref.parse(str(ref)) == ref


def test_bad_references_are_named():
    with pytest.raises(InvalidInput, match=r"'lime:a=1,tie': expected NAME.*, found 'tie'"):
        Ref.parse("lime:a=1,tie")
    with pytest.raises(InvalidInput, match=r"explainer lime takes no argument 'tie' after the colon, but .*tie=\.\.\."):
        registry.explainers.build("lime:tie")
    with pytest.raises(InvalidInput, match="expected NAME"):
        Ref.parse(":a=1")
