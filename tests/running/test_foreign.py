"""Attributions of other packages, read into explanations that `score` takes."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

import slalom_bench
from slalom_bench.errors import InvalidInput
from slalom_bench.running.external import read_explanations
from slalom_bench.running.foreign import read_foreign, spread

TEXT = "A good film"
OFFSETS = [(0, 1), (2, 6), (7, 11)]


@pytest.mark.parametrize(
    "pieces",
    [
        [("A", 1.0), ("good", 2.0), ("film", 4.0)],
        [("[CLS]", 9.0), ("a", 1.0), ("go", 0.5), ("##od", 1.5), ("film", 4.0), ("[SEP]", 9.0)],
        [("A", 1.0), ("\u0120good", 2.0), ("\u0120fi", 3.0), ("lm", 1.0), ("</s>", 9.0)],
        [("\u2581A", 1.0), ("\u2581good", 2.0), ("\u2581film", 4.0)],
        [("", 9.0), ("A ", 1.0), ("good ", 2.0), ("film", 4.0), ("", 9.0)],
    ],
)
def test_pieces_of_any_tokenizer_are_found_in_the_text(pieces):
    assert spread(TEXT, pieces, OFFSETS).tolist() == [1.0, 2.0, 4.0]


def test_a_piece_over_several_tokens_is_shared_by_characters_and_sums_are_kept():
    found = spread("unbelievable", [("unbelievable", 6.0)], [(0, 2), (2, 12)])
    np.testing.assert_allclose(found, [1.0, 5.0])
    assert spread(TEXT, [("A good", 3.0), ("film", 4.0)], OFFSETS).sum() == 7.0


def test_what_a_tokenizer_leaves_out_of_the_text_is_no_other_text():
    text = "A caf\u00e9<br /><br />was \x96 \u2603 good"
    offsets = [(0, 1), (2, 6), (18, 21), (24, 25), (26, 30)]
    assert [text[a:b] for a, b in offsets] == ["A", "caf\u00e9", "was", "\u2603", "good"]
    pieces = [("[CLS]", 9.0), ("a", 1.0), ("cafe", 2.0), ("was", 3.0), ("[UNK]", 5.0), ("good", 4.0), ("[SEP]", 9.0)]
    assert spread(text, pieces, offsets).tolist() == [1.0, 2.0, 3.0, 5.0, 4.0]
    pieces = [("", 9.0), ("[UNK]", 5.0), ("", 9.0), ("so", 1.0), ("[UNK]", 7.0), ("[SEP]", 9.0), ("", 9.0)]
    assert spread("\u2603 so \u2603", pieces, [(0, 1), (2, 4), (5, 6)]).tolist() == [5.0, 1.0, 7.0]


def test_what_captum_and_shap_say_of_a_shipped_models_tokens_is_found_in_reviews():
    text = "Isn't it?<br /><br />A caf\u00e9 \x96 and nothing   but \u201cbaf\ufb02ing\u201d films"
    e = slalom_bench.explain(text, explainer="leave-one-out", budget=60)
    (record,) = e.to_captum()
    found = spread(text, read_foreign([record])[0], e.sample.offsets.tolist())
    np.testing.assert_allclose(found, np.asarray(record.word_attributions), atol=1e-12)


def test_another_text_is_an_error():
    with pytest.raises(InvalidInput, match="'bad' does not stand"):
        spread(TEXT, [("A", 1.0), ("bad", 2.0)], OFFSETS)


def test_the_shap_packages_own_explanation():
    shap = pytest.importorskip("shap")
    several = shap.Explanation(
        values=np.array([np.array([1.0, 2.0, 4.0]), np.array([5.0])], dtype=object),
        base_values=np.zeros(2),
        data=np.array([np.array(["A ", "good ", "film"]), np.array(["x"])], dtype=object),
    )
    assert read_foreign(several) == [[("A ", 1.0), ("good ", 2.0), ("film", 4.0)], [("x", 5.0)]]
    one = shap.Explanation(values=np.array([1.0, 2.0]), base_values=0.0, data=np.array(["A ", "film"], dtype=object))
    assert read_foreign(one) == [[("A ", 1.0), ("film", 2.0)]]


def test_captums_own_record():
    import torch
    from captum.attr import visualization

    record = visualization.VisualizationDataRecord(
        torch.tensor([1.0, 2.0]), 0.5, 1, 1, "1", 3.0, ["[CLS]", "film"], 0.0
    )
    assert read_foreign([record]) == [[("[CLS]", 1.0), ("film", 2.0)]]


def test_the_fields_of_interpreto_and_inseq():
    interpreto = SimpleNamespace(attributions=np.array([[1.0, 2.0]]), elements=["good", "film"])
    assert read_foreign([interpreto]) == [[("good", 1.0), ("film", 2.0)]]
    both = SimpleNamespace(attributions=np.ones((2, 2)), elements=["good", "film"])
    with pytest.raises(InvalidInput, match="choose the explained class"):
        read_foreign([both])
    token = SimpleNamespace(token="\u2581film", id=3)
    granular = SimpleNamespace(source=[token], target=[token], source_attributions=np.full((1, 1, 4), 0.5))
    assert read_foreign(SimpleNamespace(sequence_attributions=[granular])) == [[("\u2581film", 2.0)]]
    long = SimpleNamespace(source=[token], target=[token] * 2, source_attributions=np.ones((1, 2)))
    with pytest.raises(InvalidInput, match="2 generated tokens"):
        read_foreign([long])
    with pytest.raises(InvalidInput, match="int is not understood"):
        read_foreign(3)


def test_the_file_is_one_that_score_reads(tmp_path):
    samples = tmp_path / "samples.jsonl"
    samples.write_text(json.dumps({"id": "s1", "text": TEXT, "offsets": OFFSETS}) + "\n", encoding="utf-8")
    path = slalom_bench.write_scores([[("A", 0.0), ("good", 2.0), ("film", 4.0)]], samples, tmp_path / "mine.jsonl")
    read = read_explanations(path)["s1"]
    assert read.scores["score"].tolist() == [0.0, 2.0, 4.0]
    assert (read.target, read.unsigned) == (1, frozenset())
    with pytest.raises(InvalidInput, match="2 explanations for the 1 samples"):
        slalom_bench.write_scores([[("A", 1.0)], [("A", 1.0)]], samples, tmp_path / "mine.jsonl")
    with pytest.raises(InvalidInput, match="sample s1: 'bad'"):
        slalom_bench.write_scores([[("bad", 1.0)]], samples, tmp_path / "mine.jsonl")


def test_the_class_is_the_one_that_the_samples_name(tmp_path):
    samples = tmp_path / "samples.jsonl"
    samples.write_text(json.dumps({"id": "s1", "text": TEXT, "target": 2, "offsets": OFFSETS}) + "\n", encoding="utf-8")
    pieces = [[("A", 0.0), ("good", 2.0), ("film", 4.0)]]
    assert read_explanations(slalom_bench.write_scores(pieces, samples, tmp_path / "a.jsonl"))["s1"].target == 2
    given = slalom_bench.write_scores(pieces, samples, tmp_path / "b.jsonl", target=0)
    assert read_explanations(given)["s1"].target == 0


NUMBERS = [("A", 1.0), ("good", 2.0), ("film", 4.0)]
ODD = {
    "not finite": [[("A", float("nan")), *NUMBERS[1:]]],
    "not finite ": [[("A", float("inf")), *NUMBERS[1:]]],
    "no numbers": [[("A", "x"), *NUMBERS[1:]]],
    "scores of 2 texts": SimpleNamespace(base_values=0, values=[np.ones(2)] * 2, data=[["A", "good"]]),
    "0 explanations": SimpleNamespace(base_values=0, values=[], data=[]),
}


@pytest.mark.parametrize("message", ODD)
def test_outputs_that_are_no_explanation_are_refused(tmp_path, message):
    samples = tmp_path / "samples.jsonl"
    samples.write_text(json.dumps({"id": "a", "text": TEXT, "offsets": OFFSETS}) + "\n")
    with pytest.raises(InvalidInput, match=message.strip()):
        slalom_bench.write_scores(ODD[message], samples, tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.parametrize(
    "line",
    ["[", "[1]", "{}", "[" * 100_000, '{"id": "a", "text": 5, "offsets": [[0, 1]]}']
    + [f'{{"id": "a", "text": "x", "offsets": {bad}}}' for bad in ('"zz"', "[[0]]", '[["a", "b"]]', "[[0, -1]]")],
)
def test_samples_of_another_shape_are_named_by_line(tmp_path, line):
    samples = tmp_path / "samples.jsonl"
    samples.write_text(json.dumps({"id": "a", "text": TEXT, "offsets": OFFSETS}) + "\n" + line + "\n")
    with pytest.raises(InvalidInput, match=r"samples\.jsonl: line 2: "):
        slalom_bench.write_scores([NUMBERS] * 2, samples, tmp_path / "out.jsonl")
    with pytest.raises(InvalidInput, match="no such file"):
        slalom_bench.write_scores([NUMBERS], tmp_path / "none.jsonl", tmp_path / "out.jsonl")
