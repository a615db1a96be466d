"""Partition SHAP: Owen values over a binary tree of adjacent tokens, what `shap.Explainer` runs on texts by default.

The tree and the order of the splits are those of the shap package (`maskers.Text`, `PartitionExplainer`), written anew:
a merge recomputes the scores of its two neighbours only, and every round asks for all its coalitions at once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from slalom_bench.core.budget import require_budget
from slalom_bench.core.parameters import Count
from slalom_bench.core.types import Bools, Explanation, Floats, Ints, Sample
from slalom_bench.errors import InvalidInput
from slalom_bench.registry import explainer
from slalom_bench.surrogates.linear import LinearSurrogate

if TYPE_CHECKING:
    from collections.abc import Callable

    from slalom_bench.core.tokens import Tokens
    from slalom_bench.handle.classifier import Classifier

_NO_WORD_AT_END = re.compile(r".*\W")
_LETTER_FIRST = re.compile(r"[A-Za-z]")
_CONNECTORS = frozenset({"but", "and", "or"})
_SENTENCE_ENDS = frozenset({".", "?", "!"})
_APOSTROPHE_ENDS = frozenset({"t", "s"})


@dataclass(frozen=True)
class Tree:
    """A binary tree over n leaves in the numbering of scipy's linkages: leaves 0..n-1, then nodes, the root last.

    Args:
        children: left and right child of each inner node (n-1 x 2).
        members: the leaves below every node (2n-1 x n).
    """

    children: Ints
    members: Bools

    @classmethod
    def of(cls, children: Ints, leaves: int) -> Tree:
        """The tree whose inner nodes have these children, each made before it is used."""
        members = np.zeros((2 * leaves - 1, leaves), np.bool_)
        members[:leaves] = np.eye(leaves, dtype=np.bool_)
        for node, (left, right) in enumerate(children, start=leaves):
            members[node] = members[left] | members[right]
        return cls(children, members)


def segments(tokens: Tokens, sample: Sample) -> list[str]:
    """The string of each token as shap's text masker has it: stripped, "##" before what continues a word.

    >>> from slalom_bench.core.tokens import WordTokens
    >>> segments(WordTokens(["a"]), Sample("x", [0, 0], "doing it", [[0, 2], [2, 8]]))
    ['do', '##ing it']
    """
    if sample.text is None or sample.offsets is None:
        return [word.strip() for word in tokens.words(sample.ids)]
    start, end = sample.offsets.T
    raw = [sample.text[a:b] for a, b in zip(start, np.maximum(end, np.append(start[1:], 0)), strict=True)]
    continues = [
        bool(previous) and not _NO_WORD_AT_END.fullmatch(previous) and bool(_LETTER_FIRST.match(part))
        for previous, part in zip(["", *raw], raw, strict=False)
    ]
    return [("##" if more else "") + part.strip() for more, part in zip(continues, raw, strict=True)]


class _Merging:
    """Groups of adjacent words on their way to a tree: which brackets are closed, and what a merge is worth."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words
        self.closed = [word not in ("(", ")") for word in words]

    def score(self, a: tuple[int, int], b: tuple[int, int]) -> float:
        """Of merging the words a[0]..a[1] with b[0]..b[1]: parts of words first, across commas and full stops last."""
        words = self.words
        last, head, alone = words[a[1]], words[b[0]], b[0] == b[1]
        score = 20.0 * head.startswith("##") - (b[1] - a[0] + 1)
        if head == "'" and (alone or (b[1] == b[0] + 1 and words[b[1]] in _APOSTROPHE_ENDS)):
            score += 15
        if last == "'" and head in _APOSTROPHE_ENDS:
            score += 15
        score -= 1000 * (_is_control(words[a[0]]) != _is_control(words[b[1]]))
        score -= 100 * (head == "(" and not self.closed[b[0]])
        score -= 100 * (last == ")" and not self.closed[a[1]])
        score -= 2 * (words[a[0]] == "(")
        score -= 2 * (last in _CONNECTORS or head in _CONNECTORS)
        score -= 10 * (last == ",") + 20 * (last in _SENTENCE_ENDS)
        if head == ",":
            score -= 1 if alone else 10
        if head in _SENTENCE_ENDS:
            score -= 1 if alone else 20
        return score

    def merged(self, first: int, last: int) -> None:
        """Take note that a group now reaches from one word to another: brackets at its two ends are closed."""
        if self.words[first] == "(" and self.words[last] == ")":
            self.closed[first] = self.closed[last] = True


def _is_control(word: str) -> bool:
    return word.startswith("[") and word.endswith("]")


def token_tree(words: Sequence[str]) -> Tree:
    """The tree of shap's text masker: at each step the two neighbouring groups whose merge scores best, ties leftmost.

    Args:
        words: one string a token, "##" before what continues a word (`segments`).

    >>> token_tree(["un", "##do", "it", "."]).children.tolist()
    [[0, 1], [4, 2], [5, 3]]
    """
    n, state = len(words), _Merging(words)
    groups = [(i, i) for i in range(n)]
    nodes = list(range(n))
    scores = [state.score(a, b) for a, b in pairwise(groups)]
    children = np.empty((n - 1, 2), np.int64)
    for step in range(n - 1):
        i = int(np.argmax(scores))
        children[step] = nodes[i], nodes[i + 1]
        groups[i : i + 2] = [(groups[i][0], groups[i + 1][1])]
        nodes[i : i + 2] = [n + step]
        state.merged(*groups[i])
        del scores[i]
        for j in (i - 1, i):
            if 0 <= j < len(scores):
                scores[j] = state.score(groups[j], groups[j + 1])
    return Tree.of(children, n)


@dataclass(frozen=True)
class Owen:
    """Owen values (n), how many coalitions were asked for, and whether every node was split."""

    values: Floats
    evaluations: int
    exact: bool


def owen_values(
    game: Callable[[Bools], Floats], tree: Tree, empty: float, full: float, evaluations: int, batch_size: int
) -> Owen:
    """Owen values of a game over a tree, the nodes with the largest weighted effect split first.

    A node in a context (tokens present outside it) with effect f1 - f0 and weight w is split by asking for the context
    with either child: each child is then pursued without the other and with it, at w / 2. What is not split when
    the evaluations are used up shares its effect among its tokens, so that the values sum to full - empty.

    Args:
        game: F of coalitions (m x n), none of them empty or full.
        tree: over n tokens.
        empty: F of no token.
        full: F of all tokens.
        evaluations: the most coalitions asked for.
        batch_size: how many of them are asked for at once; an odd number is rounded up.
    """
    n = tree.members.shape[1]
    credit = np.zeros(len(tree.members))
    node, f0, f1, weight = np.array([len(credit) - 1]), np.array([empty]), np.array([full]), np.ones(1)
    context, used = np.zeros((1, n), np.bool_), 0
    while True:
        leaf = node < n
        np.add.at(credit, node[leaf], (weight * (f1 - f0))[leaf])
        node, f0, f1, weight, context = (part[~leaf] for part in (node, f0, f1, weight, context))
        splits = min(-(-batch_size // 2), (evaluations - used) // 2, len(node))
        if not splits:
            break
        order = np.argsort(-np.abs(f1 - f0) * weight, kind="stable")
        now, later = order[:splits], order[splits:]
        left, right = tree.children[node[now] - n].T
        with_left, with_right = context[now] | tree.members[left], context[now] | tree.members[right]
        f_left, f_right = np.split(game(np.vstack([with_left, with_right])), 2)
        used += 2 * splits
        node = np.concatenate([node[later], left, right, left, right])
        f0 = np.concatenate([f0[later], f0[now], f0[now], f_right, f_left])
        f1 = np.concatenate([f1[later], f_left, f_right, f1[now], f1[now]])
        weight = np.concatenate([weight[later], np.tile(weight[now] / 2, 4)])
        context = np.vstack([context[later], context[now], context[now], with_right, with_left])
    np.add.at(credit, node, weight * (f1 - f0))
    size = tree.members.sum(axis=1)
    for inner in range(len(credit) - 1, n - 1, -1):
        for child in tree.children[inner - n]:
            credit[child] += credit[inner] * size[child] / size[inner]
    return Owen(credit[:n], used, not len(node))


@explainer("partition-shap", version=1, needs={"queries"}, stochastic=False, family="additive")
class PartitionShap:
    """Partition SHAP: Owen values over a tree of adjacent tokens, best-first; what shap runs on a text pipeline.

    An Owen value is a Shapley value whose coalitions respect a tree: words are merged from their parts, phrases from
    words, sentences last, and a group is either wholly present or absent until it is split itself. The group with the
    largest |effect| x weight is split first; what the budget leaves whole shares its effect equally. The surrogate is
    F(S) = base + sum over i in S of phi_i with base F(empty), or even odds (0) where there is no empty text. At equal
    evaluations, tree and batch size the values are the shap package's.

    Needs queries, a budget of at least 1 (the full text), 2 where the empty text is legal; no randomness. Exact from
    about 2 n^2 / 3 queries on (balanced trees).

    Formula:
        phi_g = ((F(T + g) - F(T)) + (F(T + g + h) - F(T + h))) / 2 for the halves g, h of a group, down a tree;
        T: what is present around them. phi_i: the mean over its contexts of the last split

    Choose it:
        For phrases, for long texts and for small budgets: it says something of every token from the first queries on.
        Shapley values proper: `kernel-shap`, `permutation-shap`.

    Example:
        Two tokens with F(empty) = 0, F(a) = 2, F(b) = -1, F(ab) = 0 are one split: phi_a = ((2 - 0) + (0 + 1)) / 2 =
        1.5, phi_b = -1.5. With a budget that ends before the split each has half of F(ab) - F(empty) = 0.

    Args:
        batch_size: coalitions asked for at once. Small ones follow the best-first order more closely (shap's text
            default is 5, which splits 3 nodes a round), large ones are faster.

    Reference:
        Owen 1977, Values of Games with a Priori Unions; Lundberg and others, the shap package, PartitionExplainer.
    """

    def __init__(self, batch_size: Count = 40) -> None:
        self.batch_size = batch_size

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        """The full and the empty text, then rounds of splits until the budget is used up."""
        if self.batch_size < 1:
            raise InvalidInput(f"partition-shap: batch_size {self.batch_size}; at least 1")
        ends = np.stack(
            [np.ones(len(sample), np.bool_), np.zeros(len(sample), np.bool_)][: 1 + classifier.empty_allowed]
        )
        require_budget("partition-shap", budget, len(ends), "the full text and, where it is legal, the empty one")
        full, empty = np.append(classifier.masked_log_odds(sample, ends), 0.0)[:2]
        tree = token_tree(segments(classifier.tokens, sample))
        found = owen_values(
            lambda keep: classifier.masked_log_odds(sample, keep),
            tree,
            empty,
            full,
            budget - len(ends),
            self.batch_size,
        )
        return Explanation(
            {"attribution": found.values},
            "attribution",
            classifier.target,
            surrogate=LinearSurrogate(found.values, empty),
            diagnostics={"base": float(empty), "evaluations": found.evaluations, "exact": found.exact},
        )
