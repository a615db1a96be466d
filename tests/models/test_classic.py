"""The attention classifier against its theorems, TF-IDF against scikit-learn, the fully connected model by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from slalom_bench import registry
from slalom_bench.backends.nets_classic import (
    AttentionNet,
    AttentionNetBackend,
    EnglishWords,
    SlotBackend,
    SlotNet,
    TfidfBackend,
    TfidfNet,
    inverse_document_frequencies,
    sinusoids,
)
from slalom_bench.core.options import ModelOptions
from slalom_bench.core.types import DataSource, Example, TaskData
from slalom_bench.data.loading import load_task
from slalom_bench.errors import InvalidInput, Unsupported
from slalom_bench.handle.classifier import Classifier

VOCABULARY = [f"w{i}" for i in range(80)]


def attention_net(*, layers: int = 1, double: bool = False, outputs: int = 1, seed: int = 0) -> AttentionNet:
    torch.manual_seed(seed)
    net = AttentionNet(len(VOCABULARY) + 2, layers=layers, outputs=outputs)
    if double:
        net = net.double()
        net.positions = sinusoids(256, 128)  # exact, not rounded to float32 first
    return net.eval()


def attention_backend(layers: int = 1, outputs: int = 1) -> AttentionNetBackend:
    names = [f"c{i}" for i in range(max(2, outputs))]
    tokens = EnglishWords(VOCABULARY, cls=True)
    return AttentionNetBackend(
        attention_net(layers=layers, outputs=outputs), tokens, name="attention", class_names=names, max_length=256
    )


def parts(net: AttentionNet, ids: torch.Tensor) -> dict[str, torch.Tensor]:
    """Equations 2 to 9 of one text, written out head by head from the definitions."""
    e = net.words(torch.cat([ids, torch.zeros(256 - len(ids), dtype=torch.long)])) + net.positions
    h = net.words.weight[0] + net.positions
    q = torch.stack([w @ e[0] for w in net.last.query])
    g, gh = (
        torch.stack([torch.exp((x @ w.T) @ query / math.sqrt(64)) for w, query in zip(net.last.key, q, strict=True)])
        for x in (e, h)
    )
    v, vh = (torch.stack([x @ w.T for w in net.last.value]) for x in (e, h))
    alpha = g / g.sum(dim=1, keepdim=True)
    return {"e": e, "q": q, "g": g, "gh": gh, "v": v, "vh": vh, "alpha": alpha, "vbar": (alpha[..., None] * v).sum(1)}


def test_output_is_the_mean_over_heads_of_equation_1() -> None:
    net = attention_net(double=True)
    ids = torch.tensor([1, 5, 9, 5, 70])
    p = parts(net, ids)
    expected = sum((net.head[i, 0] @ p["vbar"][i]).item() for i in range(6)) / 6
    assert net(net.words(ids)[None]).item() == pytest.approx(expected, rel=1e-12)


def test_positions_follow_equation_3() -> None:
    table = sinusoids(256, 128)
    for t, i in ((1, 1), (7, 3), (256, 64)):
        assert table[t - 1, 2 * i - 2].item() == pytest.approx(math.sin(t / 256 ** (2 * i / 128)), abs=1e-12)
        assert table[t - 1, 2 * i - 1].item() == pytest.approx(math.cos(t / 256 ** (2 * i / 128)), abs=1e-12)


def test_theorem_4_1_gives_the_gradient_everywhere_but_at_cls() -> None:
    net = attention_net(double=True)
    ids = torch.tensor([1, *np.random.default_rng(0).integers(2, 82, 40)])
    words = net.words(ids).detach()[None].requires_grad_(True)
    (gradient,) = torch.autograd.grad(net(words).sum(), words)
    p = parts(net, ids)
    formula = torch.zeros(41, 128, dtype=torch.float64)
    for i in range(6):
        w_l, alpha = net.head[i, 0], p["alpha"][i, :41, None]
        first = alpha * (net.last.value[i].T @ w_l)
        gap = (p["v"][i, :41] - p["vbar"][i]) @ w_l
        formula += (first + alpha / math.sqrt(64) * gap[:, None] * (net.last.key[i].T @ p["q"][i])) / 6
    error = (gradient[0] - formula).abs().amax(dim=1)
    assert error[1:].max() < 1e-12
    assert gradient.abs().max() > 1e-4
    assert error[0] > 1e-6  # the query depends on [CLS] too, which the theorem leaves out


WORDS = 10


def every_mask(net: AttentionNet, ids: torch.Tensor) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All masks of the words, how likely LIME draws each, and what the net says with [UNK] for the removed words."""
    z = np.array(list(product([0, 1], repeat=WORDS)))
    rows = torch.from_numpy(np.concatenate([np.ones((len(z), 1), int), z * ids[1:].numpy()], axis=1))
    with torch.no_grad():
        y = torch.cat([net(net.words(part))[:, 0] for part in rows.split(256)]).numpy()
    likely = np.array([1 / math.comb(WORDS, s) if s else 0.0 for s in WORDS - z.sum(axis=1)])
    return z, likely / likely.sum(), y


def lime_exactly(z: np.ndarray, likely: np.ndarray, y: np.ndarray, width: float) -> np.ndarray:
    """LIME's coefficients as its samples go to infinity, by weighted least squares over every mask."""
    weight = likely * np.exp(-((100 * (1 - np.sqrt(z.mean(axis=1)))) ** 2) / (2 * width**2))
    root = np.sqrt(weight)[:, None]
    return np.linalg.lstsq(root * np.column_stack([z, np.ones(len(z))]), root[:, 0] * y, rcond=None)[0][:-1]


def theorem_5_1(net: AttentionNet, ids: torch.Tensor) -> dict[str, np.ndarray]:
    """As printed (equation 19), and what the model does to first order when a word goes, head by head."""
    p = {name: value.detach() for name, value in parts(net, ids).items()}
    alpha_h = p["gh"] / p["gh"].sum(dim=1, keepdim=True)
    printed, first = np.zeros(WORDS), np.zeros(WORDS)
    for i in range(6):
        w_l, where = net.head[i, 0].detach(), slice(1, WORDS + 1)
        value, value_h, mean = p["v"][i, where] @ w_l, p["vh"][i, where] @ w_l, p["vbar"][i] @ w_l
        printed += (1.5 / 6) * (p["alpha"][i, where] * value - alpha_h[i, where] * value_h).numpy()
        change = p["g"][i, where] * (value - mean) - p["gh"][i, where] * (value_h - mean)
        first += (change / p["g"][i].sum()).numpy() / 6
    return {"printed": printed, "first": first}


@pytest.mark.parametrize("width", [25.0, 1e9])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_theorem_5_1_has_the_wrong_factor_and_lacks_the_denominator(seed: int, width: float) -> None:
    """Every mask there is, so no sampling; little attention on each word, as the theorem assumes."""
    net = attention_net(double=True, seed=seed)
    ids = torch.from_numpy(np.concatenate([[1], 2 + np.random.default_rng(seed).permutation(80)[:WORDS]]))
    lime = lime_exactly(*every_mask(net, ids), width)
    off = {name: np.linalg.norm(form - lime) / np.linalg.norm(lime) for name, form in theorem_5_1(net, ids).items()}
    assert off["first"] < 0.1
    assert off["printed"] > 0.5


def test_neither_form_of_theorem_5_1_holds_where_a_word_has_much_of_the_attention() -> None:
    """Trained classifiers are like this; LIME's limit needs no such assumption (numerics/lime_limit.py)."""
    net = attention_net(double=True)
    with torch.no_grad():
        net.last.query *= 10
    ids = torch.from_numpy(np.concatenate([[1], 2 + np.random.default_rng(0).permutation(80)[:WORDS]]))
    lime = lime_exactly(*every_mask(net, ids), 25.0)
    off = {name: np.linalg.norm(form - lime) / np.linalg.norm(lime) for name, form in theorem_5_1(net, ids).items()}
    assert parts(net, ids)["alpha"][:, 1:11].max() > 0.3
    assert min(off.values()) > 0.2


def test_equation_17_makes_the_coefficients_add_up_to_zero_which_limes_do_not() -> None:
    """3 (E[f | j stays] - the mean of that over words), from which theorem 5.1 is derived, loses what words share."""
    net = attention_net(double=True)
    ids = torch.from_numpy(np.concatenate([[1], 2 + np.random.default_rng(0).permutation(80)[:WORDS]]))
    z, likely, y = every_mask(net, ids)
    stays = likely[:, None] * z
    given = (stays * y[:, None]).sum(axis=0) / stays.sum(axis=0)
    printed, lime = 3 * (given - given.mean()), lime_exactly(z, likely, y, 1e9)
    assert printed.sum() == pytest.approx(0.0, abs=1e-12)
    assert abs(lime.sum()) > 0.5 * np.abs(lime).sum()
    shifted = printed - printed.mean() + lime.mean()
    assert np.linalg.norm(shifted - lime) < 0.2 * np.linalg.norm(lime) < np.linalg.norm(printed - lime)


@pytest.mark.parametrize("layers", [1, 6])
def test_empty_positions_are_padding_and_batches_change_nothing(layers: int) -> None:
    backend = attention_backend(layers)
    short = np.array([1, 7, 8, 9])
    trailing = np.concatenate([short, [-1, -1, 0]])  # hidden, hidden, [UNK]
    alone = backend.logits([short])
    assert backend.logits([trailing]) == pytest.approx(alone, abs=1e-6)
    longer = np.concatenate([[1], np.arange(2, 60)])
    mixed = backend.logits([longer, short, np.array([1]), trailing])
    assert mixed[1] == pytest.approx(alone[0], abs=1e-6)
    assert mixed[0] == pytest.approx(backend.logits([longer])[0], abs=1e-6)
    assert abs(mixed[0, 1] - mixed[1, 1]) > 1e-4


@pytest.mark.parametrize("layers", [1, 6])
def test_attention_maps_and_gradients_through_the_handle(layers: int) -> None:
    classifier = Classifier(attention_backend(layers))
    sample = classifier.encode(Example("a", "W3 w4 w4, unknown w9"))
    assert sample.ids.tolist() == [5, 6, 6, 0, 0, 11]
    maps = classifier.attentions(sample)
    assert maps.shape == (layers, 6, 7, 7)
    assert classifier.read_position(sample) == 0
    assert maps.min() > 0
    assert maps.sum(axis=-1).max() < 1  # the rest went to 249 empty positions
    value, gradient = classifier.gradients(classifier.embed(sample)[None])
    assert value == pytest.approx(classifier.log_odds([sample.ids]), abs=1e-6)
    assert gradient.shape == (1, 7, 128)
    words = classifier.embed(sample).double()
    net = attention_net(layers=layers, double=True)
    step = torch.zeros_like(words)
    step[2] = 1e-4
    with torch.no_grad():
        slope = float(net((words + step)[None]) - net((words - step)[None])) / 2e-4
    assert float(gradient[0, 2].sum()) == pytest.approx(slope, rel=1e-3, abs=1e-6)


def test_cls_row_of_the_maps_is_what_the_output_uses() -> None:
    net = attention_net(double=True)
    ids = torch.tensor([1, 5, 9])
    maps = net.attended(net.words(ids)[None])[1][0][0]
    assert torch.allclose(maps[:, 0], parts(net, ids)["alpha"], atol=1e-12)


def test_more_than_two_classes_and_too_long_texts() -> None:
    classifier = Classifier(attention_backend(outputs=3))
    assert classifier.logits([np.array([5, 6])]).shape == (1, 3)
    assert classifier.max_content == 255
    with pytest.raises(InvalidInput, match="takes 256"):
        classifier.logits([np.full(256, 5)])


def test_words_have_offsets_and_line_breaks_are_no_words() -> None:
    tokens = EnglishWords(["it's", "fine", "."])
    ids, offsets = tokens.encode("It's<br /><br />FINE, no.")
    assert tokens.words(ids) == ["it's", "fine", "[UNK]", "[UNK]", "."]
    assert offsets is not None
    assert ["It's<br /><br />FINE, no."[a:b] for a, b in offsets] == ["It's", "FINE", ",", "no", "."]
    assert EnglishWords.vocabulary(["b a a", "c b"], 2) == ["a", "b"]


TEXTS = ["good good film", "bad film", "a good one a", "film film film bad", "a"]


def tfidf_backend(outputs: int = 2) -> TfidfBackend:
    torch.manual_seed(0)
    tokens = EnglishWords(["good", "bad", "film", "a", "one"])
    idf = inverse_document_frequencies([tokens.encode(text)[0] for text in TEXTS], len(tokens))
    return TfidfBackend(
        TfidfNet(idf, outputs).eval(), tokens, name="tfidf", class_names=("negative", "positive"), max_length=None
    )


def test_tfidf_equals_scikit_learn() -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    backend = tfidf_backend()
    words = ["good", "bad", "film", "a", "one"]
    expected = TfidfVectorizer(vocabulary=words, token_pattern=r"\w+").fit(TEXTS)
    for text in [*TEXTS, "good one unknown bad bad", "unknown"]:
        ids = torch.from_numpy(backend.tokens.encode(text)[0])[None]
        weights = backend.module.weights(ids, None)[0]  # type: ignore[operator]
        dense = np.zeros(6)
        np.add.at(dense, ids[0].numpy(), weights.numpy())
        assert dense[1:] == pytest.approx(expected.transform([text]).toarray()[0], abs=1e-6)


def test_tfidf_ignores_order_padding_and_unknown_words_and_has_no_gradients() -> None:
    classifier = Classifier(tfidf_backend())
    a, b = np.array([1, 1, 3, 4]), np.array([3, 1, 0, 4, 1])
    together = classifier.log_odds([a, b, np.array([2, 3, 4, 5, 1, 2])])
    assert together[0] == pytest.approx(together[1], abs=1e-6)
    assert classifier.backend.logits([np.array([1, -1, 1, 3, 4])])[0] == pytest.approx(
        classifier.backend.logits([a])[0], abs=1e-6
    )
    assert abs(together[0] - together[2]) > 1e-4
    with pytest.raises(Unsupported, match="gradients"):
        classifier.embed(classifier.encode(Example("a", "good film")))


def slot_backend() -> SlotBackend:
    torch.manual_seed(0)
    tokens = EnglishWords(["the", "perfect"])
    return SlotBackend(SlotNet(3, slots=8).eval(), tokens, name="fc", class_names=("n", "p"), max_length=8)


def test_slots_are_positions_and_free_slots_are_zero() -> None:
    backend = slot_backend()
    net = backend.module
    filled = torch.cat([net.words.weight[1], net.words.weight[2], torch.zeros(6 * 32)])
    with torch.no_grad():
        expected = float(net.second((net.first.weight @ filled + net.first.bias).relu()))
    assert backend.logits([np.array([1, 2])])[0].tolist() == pytest.approx([0.0, expected], abs=1e-5)
    batch = backend.logits([np.array([1, 2, 1, 1]), np.array([1, 2, 0]), np.array([1, 2, -1])])
    assert batch[1:, 1] == pytest.approx([expected, expected], abs=1e-5)
    classifier = Classifier(backend)
    sample = classifier.encode(Example("a", "the perfect"))
    value, _ = classifier.gradients(classifier.embed(sample)[None])
    assert value == pytest.approx([expected], abs=1e-5)


# ---- trained through the registry ----

REVIEWS = ["a good film", "good acting and a good plot", "bad", "a bad film , bad acting", "fine film", "an awful plot"]


def review_task(copies: int = 40) -> TaskData:
    """Texts whose class one word tells; every text is different."""
    labels = (1, 1, 0, 0, 1, 0)
    examples = [
        Example(f"{i}-{j}", f"{text} number x{i}", label)
        for i in range(copies)
        for j, (text, label) in enumerate(zip(REVIEWS, labels, strict=True))
    ]
    source = DataSource("generated", "reviews", f"reviews {copies}")
    return TaskData("reviews", source, ("negative", "positive"), examples[:30], examples[30:])


@pytest.fixture
def quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelOptions:
    monkeypatch.setenv("SLALOM_BENCH_CACHE", str(tmp_path))
    return ModelOptions(device="cpu", progress=False)


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("tfidf-mlp", {"epochs": 8, "learning_rate": 1e-2}),
        ("attention-classifier", {"epochs": 6, "learning_rate": 3e-2, "vocabulary": 20}),
    ],
)
def test_trained_once_and_the_same_when_read_again(
    name: str, params: dict[str, Any], quiet: ModelOptions, tmp_path: Path
) -> None:
    task = review_task(20)
    built = registry.models.get(name).build(params)
    assert built.availability("reviews", quiet).state == "train"
    classifier = Classifier(built.load(task, quiet))
    samples = [classifier.encode(example) for example in task.evaluation]
    odds = classifier.log_odds([sample.ids for sample in samples])
    assert np.mean((odds > 0) == [example.label for example in task.evaluation]) == 1.0
    again = Classifier(built.load(task, replace(quiet, allow_training=False)))
    assert again.identity() == classifier.identity()
    assert again.log_odds([sample.ids for sample in samples]).tolist() == odds.tolist()
    assert built.availability("reviews", quiet).state == "cached"
    (weights,) = (tmp_path / "models").glob("*/weights.safetensors")
    weights.write_bytes(b"broken" * 10)
    with pytest.raises(InvalidInput, match=f"the {name} in .* cannot be read .*delete that directory"):
        built.load(task, quiet)


def test_tfidf_weights_come_from_the_training_texts(quiet: ModelOptions) -> None:
    backend = registry.models.get("tfidf-mlp").build({"epochs": 1}).load(review_task(), quiet)
    idf = dict(zip(backend.tokens.strings, backend.module.idf.tolist(), strict=True))
    assert idf["[UNK]"] == 0.0
    assert idf["number"] == pytest.approx(1.0)  # in every text
    assert idf["number"] < idf["film"] < idf["fine"] < idf["x7"]


def test_layers_are_a_parameter_and_part_of_the_cache_key(quiet: ModelOptions) -> None:
    one, two = (registry.models.get("attention-classifier").build({"layers": n, "epochs": 1}) for n in (1, 2))
    task = review_task(9)
    assert one.identity(task, quiet) != two.identity(task, quiet)
    assert two.load(task, quiet).attentions(np.array([1, 2, 3])).shape == (2, 6, 3, 3)
    with pytest.raises(InvalidInput, match="layers must be int >= 1 and <= 100000, not 0"):
        registry.models.get("attention-classifier").build({"layers": 0}).load(task, quiet)


def test_fully_connected_model_learns_the_linear_task(quiet: ModelOptions) -> None:
    """Figure 3a: the log-odds of `perfect` repeated go on rising; by half the true 1.5 a word in a short training."""
    task = load_task("synthetic-linear", {"train_size": 3000})
    params = {"epochs": 6, "batch_size": 50, "hidden": 100, "learning_rate": 3e-3}
    classifier = Classifier(registry.models.get("fc").build(params).load(task, quiet))
    perfect = int(classifier.tokens.encode("perfect")[0][0])
    odds = classifier.log_odds([np.full(k, perfect) for k in (1, 4, 8, 12)])
    assert (np.diff(odds) > 0.75 * 3).all()
    samples = [classifier.encode(example) for example in task.evaluation]
    truth = [sum(task.truth["weight"][word] for word in example.text.split()) for example in task.evaluation]
    assert np.corrcoef(classifier.log_odds([sample.ids for sample in samples]), truth)[0, 1] > 0.93
    with pytest.raises(Unsupported, match="use tfidf-mlp"):
        registry.models.get("fc").build().load(review_task(), quiet)
