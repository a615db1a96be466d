"""Edits that turned the class round: are they where scores are high, and do scores change as the model does?"""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from slalom_bench.core import undefined
from slalom_bench.core.tokens import word_of_token
from slalom_bench.core.types import Bools, Example, Explanation, Floats, Ints, Sample, Score
from slalom_bench.errors import InvalidInput
from slalom_bench.metrics._marks import auprc, auroc, sizes
from slalom_bench.numerics.correlation import spearman
from slalom_bench.registry import metric

if TYPE_CHECKING:
    from slalom_bench.core.context import Context
    from slalom_bench.handle.classifier import Classifier

_FEWEST = 3


class Edit(NamedTuple):
    """One place where two texts differ: words of the one against words of the other, by number."""

    words: slice
    others: slice


def edits(words: list[str], others: list[str]) -> list[Edit]:
    """Where two lists of words differ, from left to right, equal words at both sides of each.

    >>> edits("a dull film".split(), "a great film indeed".split())
    [Edit(words=slice(1, 2, None), others=slice(1, 2, None)), Edit(words=slice(3, 3, None), others=slice(3, 4, None))]
    """
    found = SequenceMatcher(None, words, others, autojunk=False).get_opcodes()
    return [Edit(slice(a, b), slice(c, d)) for tag, a, b, c, d in found if tag != "equal"]


@metric(
    "edit-localisation",
    version=1,
    order=65,
    needs={"pairs"},
    direction="higher",
    unit="area",
    headline="@primary",
    relevant=0.02,
    bounds=(0, 1),
)
class EditLocalisation:
    """Area under the ROC curve of scores against the words that an edit put in: 0.5 is chance.

    A text and the other one of its pair are compared word by word (whitespace words, longest matching blocks); a token
    is marked where its word differs from the other text. Under the name of each score: the probability that |score| of
    a marked token is above that of another, ties half; under the name and ` auprc`: average precision, whose chance
    level is the share of marked tokens. Words that an edit took out stand in the other text only: they are that text's
    marks, where a task explains both sides. Needs pairs. Undefined for texts without a pair, and where no token that
    was read is an edit, or every one.

    Formula:
        P(|score_i| > |score_j|) + P(|score_i| = |score_j|) / 2 over edited i and other j

    Choose it:
        Where people edited a text into the other class: their edits are the words that decide, without anyone's marks.

    Example:
        |scores| 3, 1, 2, 0, the first two put in by the edit: of the pairs (3, 2), (3, 0), (1, 2), (1, 0) three are in
        order: 0.75.

    Reference:
        Kaushik, Hovy and Lipton 2020, Learning the Difference that Makes a Difference with Counterfactually-Augmented
        Data, ICLR (the pairs).
    """

    def score(self, classifier: Classifier, sample: Sample, explanation: Explanation, context: Context) -> Score:
        """No query; two values for each score of the explanation."""
        names = [name + end for name in explanation.scores for end in ("", " auprc")]
        other = context.example(sample).counterpart
        if other is None or sample.text is None or sample.offsets is None:
            return undefined.everywhere(names, undefined.NO_PAIR)
        marks = _edited(sample.text, other)[word_of_token(sample.text, sample.offsets)]
        if undefined.one_class(marks):
            return undefined.everywhere(names, undefined.NO_EDIT)
        values = {name: auroc(marks, size) for name, size in sizes(explanation).items()}
        return Score(values | {f"{name} auprc": auprc(marks, size) for name, size in sizes(explanation).items()})


def _edited(text: str, other: str) -> Bools:
    """For each word of a text whether it differs from the other text."""
    words = text.split()
    marks = np.zeros(len(words), np.bool_)
    for edit in edits(words, other.split()):
        marks[edit.words] = True
    return marks


@metric(
    "edit-contrast",
    version=1,
    order=66,
    needs={"pairs", "queries"},
    direction="higher",
    unit="rank correlation",
    headline="@primary",
    relevant=0.05,
    bounds=(-1, 1),
)
class EditContrast:
    """Rank correlation, over the edits of a pair, of what an edit changes in the scores and in the log-odds.

    For each edit e between a text and its pair (a run of words against the words that stand there in the other text):
    the change of attribution is the sum of the scores of the edit's tokens in the text, less the sum of the scores of
    the words they replaced, from an explanation of the other text with the same explainer, budget, seed and target; the
    change of log-odds is F(text) - F(text with e undone), its words joined by single spaces. The value is the Spearman
    correlation of the two over the edits that were read in full on both sides. One value a text, so that intervals and
    comparisons are over texts as everywhere. Of `imdb-counterfactual` the other text is an original, which the models
    of IMDB were trained on: it is explained for the comparison, and no score of it is reported.

    Needs pairs, one query for each edit and a second explanation. Undefined for texts without a pair, with fewer than
    three edits that were read, for unsigned scores, where either change is the same for every edit, and for
    explanations computed elsewhere.

    Formula:
        Spearman correlation over edits e of: sum of scores in e - sum of scores of what e replaced, and F(text) -
          F(text with e undone)

    Choose it:
        Where pairs of edited texts are there: whether a method sees what an edit changed, in size and sign.

    Example:
        Three edits change the scores by 2, 1 and -1 and the log-odds by 3, 0.5 and -2: the same order, 1. With -1, 1
        and 2 it would be -1.

    Reference:
        Kaushik, Hovy and Lipton 2020, Learning the Difference that Makes a Difference with Counterfactually-Augmented
        Data, ICLR (the pairs); the measure is this project's own.
    """

    def score(self, classifier: Classifier, sample: Sample, explanation: Explanation, context: Context) -> Score:
        """One explanation of the other text, and one query for each edit."""
        other = context.example(sample).counterpart
        if other is None or sample.text is None or sample.offsets is None:
            return undefined.everywhere(explanation.scores, undefined.NO_PAIR)
        if context.explain is None:
            return undefined.everywhere(explanation.scores, undefined.NO_EXPLAINER)
        pair = classifier.encode(Example(f"{sample.id}-pair", other), context.max_tokens)
        here, there = _word_numbers(sample), _word_numbers(pair)
        found = [
            edit
            for edit in edits(sample.text.split(), other.split())
            if edit.words.stop <= _read(sample, here) and edit.others.stop <= _read(pair, there)
        ]
        if len(found) < _FEWEST:
            return undefined.everywhere(explanation.scores, undefined.TOO_FEW_EDITS)
        again = context.explain(classifier, pair)
        change = _log_odds_changes(classifier, sample.text.split(), other.split(), found, context.max_tokens)
        results: dict[str, float | str] = {}
        for name, scores in explanation.scores.items():
            moved = np.array(
                [_total(scores, here, e.words) - _total(again.scores[name], there, e.others) for e in found]
            )
            reason = undefined.unsigned_scores(name, explanation) or undefined.correlation(moved, change)
            results[name] = reason or spearman(moved, change)
        return undefined.as_score(results)


def _word_numbers(sample: Sample) -> Ints:
    if sample.text is None or sample.offsets is None:
        raise InvalidInput(f"sample {sample.id} has no text with places of its tokens")
    return word_of_token(sample.text, sample.offsets)


def _read(sample: Sample, numbers: Ints) -> int:
    """How many words were read in full: of a text that was cut, those before the last token's."""
    return int(numbers[-1]) if sample.truncated else int(numbers[-1]) + 1


def _total(scores: Floats, numbers: Ints, words: slice) -> float:
    """The sum of the scores of all tokens of these words."""
    return float(scores[(numbers >= words.start) & (numbers < words.stop)].sum())


def _log_odds_changes(
    classifier: Classifier, words: list[str], others: list[str], found: list[Edit], max_tokens: int | None
) -> Floats:
    """F(text) - F(text with an edit undone), for each edit."""
    undone = [[*words[: e.words.start], *others[e.others], *words[e.words.stop :]] for e in found]
    texts = [" ".join(words), *map(" ".join, undone)]
    sequences = [classifier.encode(Example("edit", text), max_tokens).ids for text in texts]
    log_odds = classifier.log_odds(sequences)
    return log_odds[0] - log_odds[1:]
