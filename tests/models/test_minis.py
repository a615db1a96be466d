"""The shipped minis: what lies beside the package is what the cards say."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slalom_bench.core.options import ModelOptions
from slalom_bench.core.tokens import HFTokens
from slalom_bench.core.types import DataSource, Example, TaskData
from slalom_bench.data.loading import load_task
from slalom_bench.data.sources import Absent
from slalom_bench.data.splits import distinct, is_held_out, labelled
from slalom_bench.errors import InvalidInput, Unsupported
from slalom_bench.handle.classifier import Classifier
from slalom_bench.models.loading import load_model, model_availability
from slalom_bench.models.minis import MiniAlibi, MiniBert, MiniDistilBert, MiniGpt2, MiniRotary, train_tokenizer

MINIS = {
    "mini-bert": MiniBert,
    "mini-distilbert": MiniDistilBert,
    "mini-gpt2": MiniGpt2,
    "mini-rotary": MiniRotary,
    "mini-alibi": MiniAlibi,
}
QUIET = ModelOptions(device="cpu", progress=False)
GOOD = "A wonderful film: superb acting, a moving story, and one of the best endings I have ever seen. Loved it."
BAD = "Terrible. The plot is a mess, the acting is awful and I want my two hours back. Avoid this waste of time."


@pytest.fixture(scope="module")
def task() -> TaskData:
    examples = (Example("good", GOOD, 1), Example("bad", BAD, 0))
    return TaskData("text", DataSource("file", "x", "hash"), ("negative", "positive"), examples)


@pytest.fixture(scope="module")
def handles(task: TaskData) -> dict[str, Classifier]:
    return {name: Classifier(load_model(name, task, QUIET)) for name in MINIS}


def directory(name: str) -> Path:
    return MINIS[name]().directory


@pytest.mark.parametrize("name", MINIS)
def test_files_are_small_fp16_and_of_the_stated_shape(name: str) -> None:
    from safetensors import safe_open

    weights = directory(name) / "model.safetensors"
    assert weights.stat().st_size <= 4_000_000
    with safe_open(weights, "pt") as file:
        assert {str(file.get_tensor(key).dtype) for key in file.keys()} == {"torch.float16"}  # noqa: SIM118
    config = json.loads((directory(name) / "config.json").read_text())
    assert config.get("num_hidden_layers", config.get("n_layers", config.get("n_layer"))) == 2
    assert config.get("hidden_size", config.get("dim", config.get("n_embd"))) == 128
    assert config["vocab_size"] == 8000
    limit = config.get("max_position_embeddings", config.get("n_positions"))
    assert limit is None if name == "mini-alibi" else limit >= 512
    assert sum(path.stat().st_size for path in directory(name).iterdir()) <= 4_000_000
    assert not [path for path in directory(name).iterdir() if path.suffix in (".bin", ".pt", ".pkl")]


@pytest.mark.parametrize("name", MINIS)
def test_the_card_says_how_it_was_made_and_what_it_reaches(name: str) -> None:
    card = json.loads((directory(name) / "card.json").read_text())
    assert card["accuracy"]["official test, 256 tokens"] >= (0.80 if name in ("mini-gpt2", "mini-alibi") else 0.84)
    assert card["command"].startswith(f"slalom-bench train --task imdb --model {name}")
    assert card["recipe"] == MINIS[name](weights="trained").recipe("imdb").recorded()
    for needed in ("seed", "split", "training seconds", "data", "licence", "weights sha256"):
        assert card[needed] not in (None, ""), needed
    readme = (directory(name) / "README.md").read_text()
    assert card["command"] in readme
    assert f"{card['accuracy']['official test, 256 tokens']:.4f}" in readme


@pytest.mark.parametrize("name", MINIS)
def test_the_card_says_that_positions_are_read_little(name: str) -> None:
    card = json.loads((directory(name) / "card.json").read_text())
    assert card["position shift"]["texts"] == 20
    assert card["position shift"]["share of the mean square change under deletion, 256 tokens"] <= 0.1


@pytest.mark.parametrize("name", MINIS)
def test_the_card_names_the_weights_that_lie_beside_it(name: str) -> None:
    import hashlib

    card = json.loads((directory(name) / "card.json").read_text())
    found = hashlib.sha256((directory(name) / "model.safetensors").read_bytes()).hexdigest()
    assert found == card["weights sha256"]


@pytest.mark.parametrize("name", MINIS)
def test_minis_know_good_from_bad(handles: dict[str, Classifier], name: str) -> None:
    classifier = handles[name]
    good, bad = classifier.log_odds([classifier.encode(Example("x", text)).ids for text in (GOOD, BAD)])
    assert classifier.backend.dtype == "float32"
    assert classifier.class_names == ("negative", "positive")
    assert good > 1
    assert bad < -1


@pytest.mark.parametrize("name", MINIS)
def test_minis_take_510_content_tokens(handles: dict[str, Classifier], name: str) -> None:
    classifier = handles[name]
    sample = classifier.encode(Example("x", f"{GOOD} " * 60), 510)
    assert len(sample) == 510
    assert sample.truncated > 0
    assert np.isfinite(classifier.log_odds([sample.ids])).all()


@pytest.fixture(scope="module")
def held_out() -> list[Example]:
    """200 held-out reviews of the data package alone, whatever data the environment names."""
    from slalom_bench.tasks.imdb import CLASSES, _read_package

    try:
        rows = _read_package().splits["train"]
    except Absent as absent:
        pytest.skip(str(absent))
    return list(distinct(labelled([row for row in rows if is_held_out(row["text"])][:200], CLASSES, "x")).values())


@pytest.mark.parametrize("name", MINIS)
def test_accuracy_on_reviews_that_were_held_out(
    handles: dict[str, Classifier], held_out: list[Example], name: str
) -> None:
    """Not more than three standard errors below the card's figure."""
    classifier = handles[name]
    answers = classifier.log_odds([classifier.encode(example, 256).ids for example in held_out])
    found = ((answers > 0) == np.array([example.label == 1 for example in held_out])).mean()
    card = json.loads((directory(name) / "card.json").read_text())
    stated = card["accuracy"]["held out of the official training split, 256 tokens"]
    assert found > stated - 3 * np.sqrt(stated * (1 - stated) / len(held_out))


def test_trained_on_what_the_hash_split_trains_on_only() -> None:
    texts = [Example(str(i), f"review {i}", i % 2) for i in range(500)]
    imdb = TaskData("imdb", DataSource("file", "x", "hash"), ("negative", "positive"), texts[:1], texts)
    used = MiniBert(weights="trained").training_examples(imdb)
    assert 350 < len(used) < 450
    assert not any(is_held_out(example.text) for example in used)


def test_tasks_that_learn_from_imdb_have_its_recipe_and_others_one_for_short_texts() -> None:
    assert MiniBert().recipe("eraser-movies") == MiniBert().recipe("imdb")
    assert MiniBert().recipe("ag-news").token_drop == 0.6
    assert MiniBert().recipe("ag-news").short_epochs == 0


def test_the_shipped_weights_are_fixed(task: TaskData) -> None:
    with pytest.raises(InvalidInput, match="epochs need weights=trained"):
        load_model("mini-bert:epochs=3", task, QUIET)
    with pytest.raises(InvalidInput, match="shipped or trained, not 'own'"):
        load_model("mini-bert:weights=own", task, QUIET)
    with pytest.raises(Unsupported, match="two classes"):
        load_model("mini-bert", replace(task, class_names=("a", "b", "c")), QUIET)
    with pytest.raises(Unsupported, match="use gpt2"):
        load_model("mini-gpt2", load_task("synthetic-linear", {"train_size": 5, "evaluation_size": 5}), QUIET)
    assert model_availability("mini-bert", "imdb", QUIET).state == "shipped"


def test_pieces_are_numbered_in_alphabetical_order_after_the_special_tokens() -> None:
    vocabulary = train_tokenizer("bert", [GOOD, BAD] * 5).get_vocab()
    pieces = sorted(vocabulary, key=vocabulary.__getitem__)
    assert pieces[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert pieces[5:] == sorted(pieces[5:])


@pytest.mark.parametrize("architecture", ["bert", "gpt2"])
def test_tokenizer_ignores_case_and_line_breaks_and_keeps_offsets(architecture: str) -> None:
    tokens = HFTokens(train_tokenizer(architecture, [GOOD, BAD, "The movie was great. I liked it"] * 5))
    text = "The Movie was GREAT.<br /><br />I liked it"
    ids, offsets = tokens.encode(text)
    plain, _ = tokens.encode("the movie was great. i liked it")
    assert [i for i in ids if tokens.words([i])[0].strip()] == [i for i in plain if tokens.words([i])[0].strip()]
    assert offsets is not None
    covered = re.sub(r"\s|<br|/>", "", "".join(text[start:end] for start, end in offsets))
    assert covered == "TheMoviewasGREAT.Ilikedit"
    assert tokens.mask_id is None if architecture == "gpt2" else tokens.mask_id is not None
