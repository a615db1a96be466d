"""Reading explanations computed elsewhere: every documented form, and an answer to every bad line."""

import json

import numpy as np
import pytest

from slalom_bench.backends.closed_forms import bag_of_words
from slalom_bench.core.context import Context
from slalom_bench.core.types import DataSource, Example, Sample, TaskData
from slalom_bench.errors import InvalidInput
from slalom_bench.handle.classifier import Classifier
from slalom_bench.metrics.strict_fidelity import StrictFidelity
from slalom_bench.running.external import describe, match, read_explanations


@pytest.fixture
def write(tmp_path):
    def write(*rows):
        path = tmp_path / "mine.jsonl"
        path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows), "utf-8")
        return path

    return write


def test_the_shortest_row(write):
    found = read_explanations(write({"id": "a", "scores": [1, -2.5]}))["a"]
    assert found.scores["score"].tolist() == [1.0, -2.5]
    assert (found.primary, found.target, found.unsigned, found.surrogate) == ("score", 1, frozenset(), None)


def test_the_full_row(write):
    row = {
        "id": "a",
        "scores": {"value": [0.2, -0.1], "importance": [0.5, 1.0]},
        "primary": "value",
        "target": 0,
        "unsigned": ["importance"],
        "surrogate": {"kind": "slalom", "value": [0.2, -0.1], "importance": [0.5, 1.0]},
    }
    found = read_explanations(write("", row, ""))["a"]
    assert (found.primary, found.target, found.unsigned) == ("value", 0, {"importance"})
    assert found.surrogate.predict(np.array([[True, False]])).tolist() == pytest.approx([0.2])
    assert read_explanations(write(found_row(found)))["a"].to_dict() == found.to_dict()


def found_row(found):
    return {"id": "a", **found.to_dict()}


def test_unsigned_and_linear_defaults(write):
    found = read_explanations(
        write(
            {"id": "a", "scores": [1, 2], "unsigned": True},
            {"id": "b", "scores": [1, 2], "surrogate": {"kind": "linear"}},
            {"id": "c", "scores": [1, 2], "surrogate": {"kind": "linear", "weights": [3, 4], "intercept": 5}},
        )
    )
    assert found["a"].unsigned == {"score"}
    assert found["b"].surrogate.predict(np.array([[True, True]])).tolist() == [3.0]
    assert found["c"].surrogate.predict(np.array([[True, True]])).tolist() == [12.0]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{not json", "line 2: not JSON"),
        ("[1, 2]", "line 2: a JSON list, not an object"),
        ({"id": "x", "score": [1]}, "line 2: unknown field 'score': did you mean scores"),
        ({"scores": [1]}, "line 2: `id` must be"),
        ({"id": 3, "scores": [1]}, "line 2: `id` must be a sample's id in quotes, not 3"),
        ({"id": "x"}, "line 2: `scores` must be"),
        ({"id": "x", "scores": {}}, "line 2: `scores` must be"),
        ({"id": "x", "scores": []}, "line 2: `scores` must be"),
        ({"id": "x", "scores": ["high"]}, "line 2: not an explanation"),
        ({"id": "x", "scores": [[1, 2], [3, 4]]}, "line 2: all scores must be vectors"),
        ('{"id": "x", "scores": [NaN]}', "line 2: score 'score' has 1 non-finite"),
        ({"id": "x", "scores": {"a": [1], "b": [1, 2]}}, "line 2: all scores must be vectors of one length"),
        ({"id": "x", "scores": [1], "primary": "lin"}, "line 2: primary score 'lin'"),
        ({"id": "x", "scores": [1], "unsigned": "yes"}, "line 2: `unsigned` must be"),
        ({"id": "x", "scores": [1], "unsigned": ["b"]}, "line 2: unsigned names"),
        ({"id": "x", "scores": [1], "surrogate": "linear"}, "line 2: `surrogate` must be"),
        ({"id": "x", "scores": [1], "surrogate": {"kind": "liner"}}, "line 2: unknown surrogate 'liner'"),
        ({"id": "x", "scores": [1], "surrogate": {"kind": "slalom", "value": [1]}}, "line 2: not an explanation"),
        ({"id": "x", "scores": [1], "surrogate": {"kind": "linear", "weights": [1, 2]}}, "line 2: a surrogate over 2"),
        ({"id": "ok", "scores": [1]}, "line 2: sample 'ok' is explained twice"),
    ],
)
def test_bad_lines_are_named(write, row, message):
    with pytest.raises(InvalidInput) as caught:
        read_explanations(write({"id": "ok", "scores": [1]}, row))
    assert message in str(caught.value)


def test_missing_empty_and_wrongly_encoded_files(write, tmp_path):
    with pytest.raises(InvalidInput, match="no such file"):
        read_explanations(tmp_path / "none.jsonl")
    with pytest.raises(InvalidInput, match="no explanations in it"):
        read_explanations(write(""))
    path = tmp_path / "latin.jsonl"
    path.write_bytes('{"id": "é", "scores": [1]}'.encode("latin-1"))
    with pytest.raises(InvalidInput, match="not UTF-8"):
        read_explanations(path)


def test_matching_by_id_and_length(write):
    found = read_explanations(write({"id": "a", "scores": [1, 2]}, {"id": "z", "scores": [1]}))
    samples = [Sample("a", [5, 6]), Sample("b", [7])]
    matched = match(found, samples)
    assert [(sample.id, len(explanation)) for sample, explanation in matched.pairs] == [("a", 2)]
    assert (matched.missing, matched.unknown) == (("b",), ("z",))
    with pytest.raises(InvalidInput, match="sample a: 2 scores for 3 content tokens"):
        match(found, [Sample("a", [5, 6, 7])])


def test_a_file_made_from_described_samples_can_be_scored(write):
    weights = {f"w{i}": 0.1 * i - 0.5 for i in range(12)}
    classifier = Classifier(bag_of_words(weights))
    example = Example("s", " ".join(weights))
    told = describe(classifier.encode(example), classifier.tokens, 1)
    assert told["tokens"] == list(weights)
    assert told["text"][slice(*told["offsets"][1])] == "w1"
    # an outside method that knows the truth
    row = {"id": told["id"], "scores": [weights[word] for word in told["tokens"]], "surrogate": {"kind": "linear"}}
    pairs = match(read_explanations(write(row)), [classifier.encode(example)]).pairs
    task = TaskData("t", DataSource("generated", "t", "0"), ("no", "yes"), [example])
    score = StrictFidelity().score(classifier, *pairs[0], Context(task))
    assert score.values["mean"] == pytest.approx(0.0, abs=1e-10)
