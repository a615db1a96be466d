"""When a metric has no value, and how ties rank: every rule in one place.

A rule returns its reason, a short fixed string so that reasons can be counted, or None where the value is defined.
Undefined is never zero.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slalom_bench.core.types import Explanation, Score

NO_SURROGATE = "explainer has no surrogate"
TOO_SHORT = "text has too few tokens"
NO_POSITIONS = "model has no positions to keep"
NO_TEXT = "sample has no text"
NOT_RECORDED = "the explainer's queries were not recorded"
ONE_SENTENCE = "text has one sentence only"
ASKED = "explainer has itself asked for most of the masks"
NO_CHANGE = "model output does not change"
CONSTANT_SCORES = "scores are constant"
CONSTANT_REFERENCE = "reference values are constant"
TOO_FEW_PAIRS = "fewer than two tokens to compare"
NO_TRAIN = "task has no labelled training texts"
OTHER_CLASS = "explained class is not the ranked one"
NO_MARKS = "sample has no human marks"
ONE_CLASS_MARKS = "marks are all of one class"
NO_ANNOTATORS = "sample has not the marks of several annotators"
NO_PAIR = "text has no other one that it is a pair with"
NO_EDIT = "no word of the text that was read is an edit, or every one"
TOO_FEW_EDITS = "fewer than three edits to compare"
NO_LABEL = "sample has no label"
NO_TRUTH = "task has no known truth"
OTHER_MODEL = "model is not the one that the theorem is about"
OTHER_SURROGATE = "surrogate is of another kind than the truth"
NO_EXPLAINER = "explanations were computed elsewhere"
NOT_RANDOMISABLE = "model cannot be randomised"
UNKNOWN_TOKEN = "a token is no word of the task"
UNSIGNED_SCORES = "scores have no sign"
NO_RANGE = "every order of the tokens does the same"

_RELATIVE = 1e-12
"""Numbers that differ by less than this share of their size differ by rounding only."""


def _is_constant(values: NDArray[np.floating]) -> bool:
    """Whether a vector has nothing to rank: one distinct number up to rounding.

    >>> _is_constant(np.array([0.3, 0.1 + 0.2]))
    True
    """
    return bool(constant_rows(values[None])[0]) if len(values) else True


def constant_rows(values: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Of each row, whether it has nothing to rank.

    >>> constant_rows(np.array([[0.3, 0.1 + 0.2], [0.3, 0.4]]))
    array([ True, False])
    """
    found: NDArray[np.bool_] = np.ptp(values, axis=1) <= _RELATIVE * np.abs(values).max(axis=1)
    return found


def descending_ranks(scores: NDArray[np.floating]) -> NDArray[np.int64]:
    """Each position's rank, 0 for the highest score; ties rank in the order of the text.

    >>> descending_ranks(np.array([1.0, 2.0, 1.0])).tolist()
    [1, 0, 2]
    """
    out = np.empty(len(scores), np.int64)
    out[np.argsort(-scores, kind="stable")] = np.arange(len(scores))
    return out


def no_surrogate(explanation: Explanation) -> str | None:
    """Unsigned scores (norms, attention) predict nothing: fidelity is not defined for them."""
    return NO_SURROGATE if explanation.surrogate is None else None


def too_short(tokens: int, deleted: int) -> str | None:
    """A deletion must leave at least one token."""
    return TOO_SHORT if deleted >= tokens else None


def no_change(observed: NDArray[np.floating], rounding: float = 0.0) -> str | None:
    """An error relative to the observed change needs one beyond the rounding of the answers (`Classifier.rounding`).

    >>> no_change(np.array([0.0, 1e-7]), 1e-6), no_change(np.array([0.0, 1e-7]))
    ('model output does not change', None)
    """
    return NO_CHANGE if not np.any(np.abs(observed) > rounding) else None


def constant_scores(scores: NDArray[np.floating]) -> str | None:
    """Constant scores rank nothing."""
    return CONSTANT_SCORES if _is_constant(scores) else None


def too_few_points(tokens: int, points: int) -> str | None:
    """A ranking needs two tokens, and a curve one point."""
    return TOO_SHORT if tokens < 2 or not points else None


def not_rankable(towards: int | None, target: int, classes: int) -> str | None:
    """Scores for the class `target` rank tokens towards another class only where there are two: negated."""
    if towards is None:
        return NO_LABEL
    return OTHER_CLASS if towards != target and classes > 2 else None


def correlation(scores: NDArray[np.floating], reference: NDArray[np.floating]) -> str | None:
    """A correlation needs two tokens and variation on both sides."""
    if len(reference) < 2:
        return TOO_FEW_PAIRS
    if _is_constant(reference):
        return CONSTANT_REFERENCE
    return constant_scores(scores)


def unsigned_scores(name: str, explanation: Explanation) -> str | None:
    """Scores that say how much but not in which direction have nothing to compare with signed values."""
    return UNSIGNED_SCORES if name in explanation.unsigned else None


def no_range(lower: float, upper: float) -> str | None:
    """A share of a range needs one, beyond rounding.

    >>> no_range(0.3, 0.1 + 0.2)
    'every order of the tokens does the same'
    """
    return NO_RANGE if _is_constant(np.array([lower, upper])) else None


def one_class(marks: NDArray[np.bool_]) -> str | None:
    """AUROC and AUPRC need marked and unmarked tokens. Constant scores are defined there: they are chance."""
    return ONE_CLASS_MARKS if marks.all() or not marks.any() else None


def unknown_token(truth: Any) -> str | None:
    """A text with a token that is no word of the task (a sub-word, say) has no true log-odds: `truth` is None."""
    return UNKNOWN_TOKEN if truth is None else None


def one_token(distinct: int) -> str | None:
    """The importance of a single token is zero by centring: nothing to recover."""
    return TOO_SHORT if distinct < 2 else None


def everywhere(names: Iterable[str], reason: str) -> Score:
    """A score that has no value under any of its names."""
    return Score(undefined=dict.fromkeys(names, reason))


def as_score(results: dict[str, Any]) -> Score:
    """A Score from names that map to a number or to the reason why there is none.

    >>> as_score({"a": 1.0, "b": TOO_SHORT})
    Score(values={'a': 1.0}, undefined={'b': 'text has too few tokens'})
    """
    return Score(
        values={name: result for name, result in results.items() if not isinstance(result, str)},
        undefined={name: result for name, result in results.items() if isinstance(result, str)},
    )
