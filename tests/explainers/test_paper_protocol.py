"""The explainers as published: hand-worked values on models in closed form, and how a run tells them to be so."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from torch import nn

from slalom_bench import registry
from slalom_bench.backends.closed_forms import BagOfWordsBackend, BagOfWordsNet, bag_of_words
from slalom_bench.backends.lrp import Relevance
from slalom_bench.backends.random_models import random_backend
from slalom_bench.backends.torch_backend import DifferentiableBackend
from slalom_bench.core.context import Context
from slalom_bench.core.references import Ref
from slalom_bench.core.tokens import HFTokens, WordTokens, encode
from slalom_bench.core.types import DataSource, Example, Sample, TaskData
from slalom_bench.errors import BudgetExceeded, InvalidInput, Unsupported
from slalom_bench.explainers.attnlrp import AttnLRP
from slalom_bench.explainers.gradients import GradL2, IntegratedGradients
from slalom_bench.explainers.kernel_shap import KernelShap
from slalom_bench.explainers.lime import Lime, lime_fit, lime_masks, remaining_texts, string_features
from slalom_bench.handle.classifier import Classifier
from slalom_bench.metrics.aopc import Insertion
from slalom_bench.metrics.nb_spearman import NaiveBayesSpearman
from slalom_bench.models.minis import train_tokenizer
from slalom_bench.running.loading import LoadedTask, Subject
from slalom_bench.running.plan import build_explainer
from slalom_bench.running.suite import make_suite

SPECIALS = {"[CLS]": 5.0, "[SEP]": 7.0, "[UNK]": 0.3, "[MASK]": 11.0, "[PAD]": 13.0}
WEIGHTS = {"good": 1.5, "bad": -2.0, "the": 0.0, "fine": 0.25}


def explain(explainer, classifier, sample, budget=100, seed=0):
    with classifier.work(budget) as cost:
        result = explainer.explain(classifier, sample, budget, np.random.default_rng(seed))
    return result, result.scores["attribution"], cost


def weighted_specials() -> Classifier:
    """A bag of words inside [CLS] .. [SEP], in which special tokens have weights as well; bias 0.1."""
    tokens = WordTokens(list(WEIGHTS), prefix=["[CLS]"], suffix=["[SEP]"])
    table = [(WEIGHTS | SPECIALS)[word] for word in tokens.strings]
    return Classifier(BagOfWordsBackend(BagOfWordsNet(table, 0.1), tokens, "weighted"))


# ---- the handle without special tokens ----


def test_a_bare_view_asks_about_content_alone_and_shares_the_counters():
    classifier = weighted_specials()
    ids = classifier.encode(Example("a", "good bad")).ids
    with classifier.work(3) as cost:
        bare = classifier.bare()
        assert bare.log_odds([ids])[0] == pytest.approx(0.1 + 1.5 - 2.0, abs=1e-5)
        assert classifier.log_odds([ids])[0] == pytest.approx(0.1 + 5.0 + 1.5 - 2.0 + 7.0, abs=1e-5)
        assert bare.log_odds([ids])[0] == pytest.approx(-0.4, abs=1e-5)
        with pytest.raises(BudgetExceeded):
            bare.log_odds([ids])
    assert (cost.queries, cost.forwards, cost.hits, cost.tokens) == (4, 2, 1, 2 + 4)
    assert classifier.empty_allowed
    assert not bare.empty_allowed
    assert bare.content == slice(0, None)
    with pytest.raises(InvalidInput, match="empty sequence"):
        classifier.bare().log_odds([ids[:0]])


def test_a_bare_view_takes_as_many_tokens_as_the_model_and_keeps_the_target():
    classifier = Classifier(random_backend("bert")).targeting(0)
    bare = classifier.bare()
    assert (classifier.max_content, bare.max_content, bare.target) == (512, 514, 0)
    np.testing.assert_allclose(bare.embed(Sample("a", [7, 8])), classifier.embed(Sample("a", [7, 8]))[1:3])


# ---- kernel-shap ----


def test_kernel_shap_replaces_by_unk_and_adds_no_special_token():
    """F = 0.1 + sum of weights of bare content, so phi_i = w_i - w([UNK]) and the base value is 0.1 + 4 w([UNK])."""
    classifier = weighted_specials()
    sample = classifier.encode(Example("a", "the good bad good"))
    result, scores, cost = explain(KernelShap(protocol="paper"), classifier, sample)
    np.testing.assert_allclose(scores, [-0.3, 1.2, -2.3, 1.2], atol=1e-5)
    assert result.diagnostics["base"] == pytest.approx(0.1 + 4 * 0.3, abs=1e-5)
    assert (result.diagnostics["exact"], cost.queries) == (True, 16)
    np.testing.assert_allclose(explain(KernelShap(), classifier, sample)[1], [0.0, 1.5, -2.0, 1.5], atol=1e-5)


def test_kernel_shap_has_an_empty_coalition_where_the_model_has_no_special_tokens():
    classifier = Classifier(bag_of_words(WEIGHTS, bias=0.7))
    result, scores, _ = explain(KernelShap(protocol="paper"), classifier, classifier.encode(Example("a", "good")), 2)
    assert (scores[0], result.diagnostics["base"]) == pytest.approx((1.5, 0.7), abs=1e-5)


def test_gpt2_is_masked_by_its_end_of_text_and_a_tokenizer_without_any_mask_is_refused():
    tokenizer = train_tokenizer("gpt2", ["a good film"])
    tokens = HFTokens(tokenizer)
    assert tokens.unk_id == tokenizer.eos_token_id == tokens.pad_id
    bert = HFTokens(train_tokenizer("bert", ["a good film"]))
    assert bert.tokenizer.convert_ids_to_tokens(bert.unk_id) == "[UNK]"
    classifier = weighted_specials()
    classifier.backend.tokens.mask_id = None
    del classifier.backend.tokens.unk_id
    with pytest.raises(Unsupported, match=r"\[UNK\]"):
        explain(KernelShap(protocol="paper"), classifier, Sample("a", [5, 6]))


# ---- gradients ----


class Quadratic(nn.Module):
    """Logits 0.5 and 0.5 sum_t (x_t . u)^2 with u = (1, 2): the gradient of the second is (x_t . u) u."""

    def __init__(self) -> None:
        super().__init__()
        # [PAD] [UNK] [MASK] [CLS] [SEP] a b c
        table = [[0, 0], [0, 0], [0, 0], [9, 9], [9, 9], [1, 1], [2, 0], [0, -0.5]]
        self.words = nn.Embedding.from_pretrained(torch.tensor(table, dtype=torch.float32))

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        second = 0.5 * (words @ torch.tensor([1.0, 2.0])).square().sum(dim=1)
        return torch.stack([torch.full_like(second, 0.5), second], dim=1)


class QuadraticBackend(DifferentiableBackend):
    def __init__(self) -> None:
        tokens = WordTokens(["a", "b", "c"], prefix=["[CLS]"], suffix=["[SEP]"])
        super().__init__(Quadratic().eval(), tokens, name="quadratic", class_names=("no", "yes"), max_length=None)

    def word_embeddings(self):
        return self.module.words

    def forward(self, module, mask, **inputs):
        words = inputs["inputs_embeds"] if "inputs_embeds" in inputs else module.words(inputs["input_ids"])
        return module(words if mask is None else words * mask[..., None])


@pytest.mark.parametrize("label", [0, 1, None])
def test_grad_is_the_norm_of_the_gradient_of_the_largest_logit_of_bare_content(label):
    """x . u is 3, 2, -1 for a, b, c, so the second logit (7) is the larger and the norms are 3, 2, 1 times |u|."""
    classifier = Classifier(QuadraticBackend())
    sample = classifier.encode(Example("a", "a b c", label=label))
    result, scores, cost = explain(GradL2(protocol="paper"), classifier, sample, 1)
    np.testing.assert_allclose(scores, np.sqrt(5) * np.array([3, 2, 1]), rtol=1e-6)
    assert (cost.queries, cost.backwards, cost.tokens) == (1, 1, 3)
    assert not result.unsigned
    every = np.ones((2, 3), np.bool_)
    every[1, 1] = False
    np.testing.assert_allclose(result.surrogate.predict(every), [7.0, 7.0 - 2 * np.sqrt(5)], rtol=1e-6)


def test_grad_of_a_text_whose_largest_logit_is_a_constant_is_zero():
    classifier = Classifier(QuadraticBackend())
    sample = classifier.encode(Example("a", "c"))  # logits 0.5 and 0.5 (-1)^2 = 0.5 are equal, the first one is taken
    assert explain(GradL2(protocol="paper"), classifier, classifier.encode(Example("b", "c c")), 1)[1][0] > 0
    assert explain(GradL2(protocol="paper"), classifier, sample, 1)[1] == [0.0]


def test_ig_is_the_norm_of_the_unnormalised_weighted_sum_with_the_class_chosen_at_every_point():
    """sum_k a_k^2 (x . u) (u * x) over those of the 30 points where 7 a^2 > 0.5: k = 8..29, as (7.75 / 29)^2 = 1/14."""
    classifier = Classifier(QuadraticBackend())
    sample = classifier.encode(Example("a", "a b c"))
    _, scores, cost = explain(IntegratedGradients(protocol="paper"), classifier, sample, 30)
    squares = (29 * 30 * 59 / 6 - 7 * 8 * 15 / 6) / 29**2
    expected = [3 * math.hypot(1, 2), 2 * math.hypot(2, 0), 1 * math.hypot(0, -1)]
    np.testing.assert_allclose(scores, squares * np.array(expected), rtol=1e-5)
    assert (cost.queries, cost.tokens) == (30, 90)
    with pytest.raises(InvalidInput, match="at least 30"):
        explain(IntegratedGradients(protocol="paper"), classifier, sample, 29)


def test_a_norm_is_ranked_times_the_sign_of_the_label_once_and_compared_with_signed_weights():
    """Published: a negative review ranks its tokens by the smallest norm. Insertion does that, so the norm must not."""
    classifier = Classifier(QuadraticBackend())
    train = [Example("p", "a a a b", 1), Example("n", "b c c c", 0)]
    task = TaskData("t", DataSource("generated", "t", "0"), ("no", "yes"), train, train)
    found = {}
    for label in (0, 1):
        sample = classifier.encode(Example("a", "a b c b a c a", label=label))
        result, scores, _ = explain(GradL2(protocol="paper"), classifier, sample, 1)
        np.testing.assert_allclose(scores / np.sqrt(5), [3, 2, 1, 2, 3, 1, 3], rtol=1e-6)
        found[label] = Insertion().score(classifier, sample, result, Context(task, "paper")).values["attribution"]
        spearman = NaiveBayesSpearman().score(classifier, sample, result, Context(task, "paper")).values
        assert spearman == {"attribution": pytest.approx(1.0)}  # a, b, c weigh more, 0 and less: |weights| would not do
    kept = {1: "a b b a a", 0: "a b c b c"}  # five of the highest norms; five of the smallest
    for label, text in kept.items():
        p = classifier.probabilities([classifier.tokens.encode(text)[0]])[0, label]
        assert found[label] == pytest.approx(1 - p, abs=1e-9)


# ---- attnlrp ----


def relevance_of(classifier: Classifier, sample: Sample, which: int) -> np.ndarray:
    """Gradient x input of one logit under the rules, by hand."""
    words = classifier.embed(sample).requires_grad_(True)
    logits = Relevance(classifier.backend, "attn").logits(words[None])
    (grad,) = torch.autograd.grad(logits[0, which], words)
    return (grad * words).sum(dim=1).detach().numpy()[classifier.content]


@pytest.mark.parametrize("flip", [1.0, -1.0])
@pytest.mark.parametrize("architecture", ["bert", "gpt2"])
def test_attnlrp_attributes_the_larger_logit_negated_where_it_speaks_against_the_class(architecture, flip):
    """Flipping the head exchanges the larger logit; relevance is linear in what is explained."""
    backend = random_backend(architecture)
    with torch.no_grad():
        for parameter in (backend.module.score if architecture == "gpt2" else backend.module.classifier).parameters():
            parameter.mul_(flip)
    classifier = Classifier(backend)
    sample = Sample("a", [10, 20, 30, 20, 15])
    logits = classifier.logits([sample.ids])[0]
    larger = int(logits.argmax())
    of = [relevance_of(classifier, sample, which) for which in (0, 1)]
    for target in (0, 1):
        sign = 1 if larger == target else -1
        result, scores, cost = explain(AttnLRP(protocol="paper"), classifier.targeting(target), sample, 1)
        np.testing.assert_allclose(scores, sign * of[larger], rtol=1e-3, atol=1e-4)
        assert result.diagnostics["signed_logit"] == pytest.approx(sign * logits[larger], abs=1e-4)
        assert cost.queries == 1
    bench = explain(AttnLRP(), classifier, sample, 1)[1]
    np.testing.assert_allclose(bench, of[1] - of[0], rtol=1e-3, atol=1e-4)
    assert np.abs(scores - bench).max() > 0.01 * np.abs(bench).max()


def test_the_largest_of_three_logits():
    classifier = Classifier(random_backend("distilbert", classes=3)).targeting(2)
    sample = Sample("a", [10, 20, 30])
    logits = classifier.logits([sample.ids])[0]
    result, scores, _ = explain(AttnLRP(protocol="paper"), classifier, sample, 1)
    sign = 1 if logits.argmax() == 2 else -1
    assert result.diagnostics["signed_logit"] == pytest.approx(sign * logits.max(), abs=1e-4)
    np.testing.assert_allclose(
        scores, sign * relevance_of(classifier, sample, int(logits.argmax())), rtol=1e-3, atol=1e-4
    )


# ---- lime ----


def test_lime_explains_the_probability_with_one_feature_per_string_and_no_intercept():
    """Two strings, so four texts; positions of one string have the whole coefficient, in the surrogate too."""
    classifier = Classifier(bag_of_words({"good": 1.0, "bad": -3.0}, bias=0.5, specials=True))
    sample = classifier.encode(Example("a", "good bad good"))
    result, scores, cost = explain(Lime(protocol="paper"), classifier, sample, 60, seed=4)
    assert cost.queries == 60
    present = lime_masks(2, 60, True, np.random.default_rng(4))
    p = 1 / (1 + np.exp(-(0.5 + present @ [2.0, -3.0])))
    good, bad = lime_fit(present, p)[0]
    np.testing.assert_allclose(scores, [good, bad, good], atol=1e-6)
    assert 1 > good > 0 > bad > -1
    keep = np.array([[1, 1, 1], [0, 1, 1], [0, 1, 0]], np.bool_)
    full = 1 / (1 + np.exp(0.5))
    np.testing.assert_allclose(result.surrogate.predict(keep), [full, full - good, full - 2 * good], atol=1e-6)
    other = explain(Lime(protocol="paper"), classifier.targeting(0), sample, 60, seed=4)[1]
    np.testing.assert_allclose(other, -scores, atol=1e-6)


def pieces() -> HFTokens:
    """A WordPiece tokenizer of six pieces, inside [CLS] .. [SEP]."""
    import tokenizers as tk
    from tokenizers import models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    strings = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "play", "##ing", "ing", "go", "##go", "playgo"]
    tokenizer = tk.Tokenizer(models.WordPiece({word: i for i, word in enumerate(strings)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return HFTokens(PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]"))


def test_lime_tokenises_the_glued_text_anew():
    """Playing, ing: "##ing" and "ing" are one string; without "play" the first is another token than it was."""
    tokens = pieces()
    weights = np.zeros(11)
    weights[[5, 6, 7]] = play, suffix, word = 1.0, -0.5, 2.0
    classifier = Classifier(BagOfWordsBackend(BagOfWordsNet(weights, 0.0), tokens, "pieces"))
    sample = classifier.encode(Example("a", "Playing ing"))
    assert sample.ids.tolist() == [5, 6, 7]
    _, scores, _ = explain(Lime(protocol="paper"), classifier, sample, 50, seed=1)
    present = lime_masks(2, 50, True, np.random.default_rng(1))
    left = {(True, True): play + suffix + word, (False, True): 2 * word, (True, False): play, (False, False): 0.0}
    f = np.array([left[tuple(row)] for row in present.tolist()])
    expected = lime_fit(present, 1 / (1 + np.exp(-f)))[0]
    np.testing.assert_allclose(scores, expected[[0, 1, 1]], atol=1e-6)


def test_tokens_that_meet_after_a_cut_become_one():
    tokens = pieces()
    text, owner, feature = string_features(tokens, encode(tokens, Example("a", "playinggo"), None))
    assert (text, owner.tolist(), feature.tolist()) == ("playinggo", [0, 0, 0, 0, 1, 1, 1, 2, 2], [0, 1, 2])
    (left,) = remaining_texts(text, owner, (np.arange(3) != 1)[None])
    assert tokens.encode(left)[0].tolist() == [10]
    truncated = encode(tokens, Example("a", "playinggo"), 2)
    assert string_features(tokens, truncated)[0] == "playing"


@pytest.mark.parametrize("architecture", ["bert", "gpt2"])
def test_strings_and_cuts_are_those_of_the_lime_package(architecture):
    from lime.lime_text import IndexedString

    text = "once a film, a very good film. was it good? unbelievably good films; it was . no"
    tokens = HFTokens(train_tokenizer(architecture, [text, "a good believable film was very good"]))
    ids, offsets = tokens.encode(text)
    sample = Sample("a", ids, text=text, offsets=offsets)
    words = tokens.words(ids)
    assert (" ." if architecture == "gpt2" else ".") in words
    strings = ["." if w == " ." else w.removeprefix("##") for w in words]
    strings[0] = strings[0].strip()  # the byte-level tokenizer puts a space before the text, which has none itself
    theirs = IndexedString(text, lambda _: strings)
    ours, owner, feature = string_features(tokens, sample)
    assert ours == text
    order = [theirs.inverse_vocab.index(s) for s in strings]
    assert feature.tolist() == order
    assert feature.max() + 1 == theirs.num_words() < len(words)
    present = lime_masks(theirs.num_words(), 50, True, np.random.default_rng(0))
    assert remaining_texts(text, owner, present) == [theirs.inverse_removing(np.flatnonzero(~row)) for row in present]


def test_a_character_of_many_tokens_goes_as_a_whole():
    text = "good \N{SNOWMAN} film"
    tokens = HFTokens(train_tokenizer("gpt2", ["good film"]))
    ids, offsets = tokens.encode(text)
    _, owner, feature = string_features(tokens, Sample("a", ids, text=text, offsets=offsets))
    snowman = owner[text.index("\N{SNOWMAN}")]
    assert (feature == snowman).sum() > 1
    left = remaining_texts(text, owner, np.arange(feature.max() + 1)[None] != snowman)[0]
    assert left.split() == ["good", "film"]


def test_lime_needs_a_text():
    classifier = Classifier(bag_of_words(WEIGHTS))
    with pytest.raises(InvalidInput, match="text with offsets"):
        explain(Lime(protocol="paper"), classifier, Sample("a", [5, 6]))


# ---- how they are told ----


@pytest.mark.parametrize("explainer", [Lime, KernelShap, GradL2, IntegratedGradients, AttnLRP])
def test_an_unknown_protocol_is_refused_when_explaining(explainer):
    classifier = Classifier(random_backend("bert"))
    with pytest.raises(InvalidInput, match="unknown protocol 'papre'; one of bench, paper"):
        explain(explainer(protocol="papre"), classifier, classifier.encode(Example("a", "w1 w2")))


def test_only_explainers_that_know_the_paper_protocol_are_told_of_it():
    assert build_explainer("lime", "paper").protocol == "paper"
    assert build_explainer("lime", "bench").protocol == "bench"
    assert build_explainer("lime:protocol=bench", "paper").protocol == "bench"
    assert build_explainer("grad-l2:protocol=paper", "bench").protocol == "paper"
    assert not hasattr(build_explainer("random", "paper"), "protocol")
    knowing = [e.name for e in registry.explainers.entries() if getattr(e.factory(), "protocol", "") == "bench"]
    assert {"attnlrp", "grad-l2", "integrated-gradients", "kernel-shap", "lime"} <= set(knowing)


def test_a_run_in_the_paper_protocol_explains_as_published(tmp_path, lab):
    classifier = weighted_specials()
    examples = (Example("s0", "the good bad good", 1),)
    data = TaskData("synthetic-slalom", DataSource("generated", "test", "c" * 64), ("neg", "pos"), examples)
    subject = Subject(LoadedTask(Ref.parse("synthetic-slalom"), data), "weighted", classifier)
    for protocol, expected in {"paper": [-0.3, 1.2, -2.3, 1.2], "bench": [0.0, 1.5, -2.0, 1.5]}.items():
        suite = make_suite(
            name="test",
            tasks=("synthetic-slalom",),
            models=("weighted",),
            budgets=(60,),
            protocol=protocol,
            explainers=("kernel-shap",),
            metrics=("insertion",),
        )
        result = lab.call(tmp_path / protocol, suite, subject)
        (identity,) = result.identities.values()
        assert (result.failed, identity.explainer.params, identity.protocol) == (0, {}, protocol)
        row = json.loads(next((tmp_path / protocol).rglob("explanations.jsonl")).read_text().splitlines()[-1])
        np.testing.assert_allclose(row["explanation"]["scores"]["attribution"], expected, atol=1e-5)
