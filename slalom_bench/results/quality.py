"""How good a metric is here: does it tell methods apart, would other texts say the same, does it say anything new."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import TypeVar

import numpy as np

from slalom_bench.core import undefined
from slalom_bench.core.types import Floats
from slalom_bench.numerics.correlation import pearson_rows, spearman
from slalom_bench.results.ranking import Ranking, Scale, paired, turn
from slalom_bench.results.separation import Pairwise, too_few
from slalom_bench.results.statistics import Scores

POWER = 0.8
SPLITS = 500
LEAST_METHODS = 3
"""A correlation over fewer methods is +-1 whatever they are."""
LEAST_TEXTS = 4
MOST_TEXTS = 1_000_000
K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class MetricQuality:
    """What a metric can do on one board. None: not defined for so few methods or texts.

    Baselines (`random`, `zero`) are no methods: that a metric tells them from the rest is the least to be asked of it.
    """

    methods: int
    texts: int
    """That all ranked methods define."""
    told_apart: float | None
    """Discriminability: share of pairs of which one wins significantly more texts, by what could matter."""
    reliability: float | None
    """Correlation to be expected with the methods' means on as many other texts."""
    mask_stability: float | None
    """Rank correlation over methods between two halves of the masks; None also for a metric that draws none."""
    tied: int
    """Methods that are the best, or that none is significantly better than by what could matter."""
    top: tuple[str, str] | None
    """Best and second, by their means."""
    top_matters: bool
    """Whether these two differ, as found, by what matters."""
    texts_needed: int | None
    """To separate these two in four of five runs; None where they do not differ, or more than a million."""

    @property
    def separates(self) -> bool:
        """Whether any two methods are told apart; if none are, nothing is marked."""
        return bool(self.told_apart)


def metric_quality(ranking: Ranking, halves: Sequence[Mapping[str, Scores]] = (), seed: int = 0) -> MetricQuality:
    """The quality of a metric.

    Args:
        ranking: of the methods by it.
        halves: where it draws masks, the scores of every method on either half of them.
        seed: of the halves of texts.

    Returns:
        What it can do here.
    """
    chosen = ranking.methods
    m, names = len(chosen), {ranking.names[i] for i in chosen}
    share = float(ranking.apart.sum()) / (m * (m - 1) / 2) if m > 1 else None
    tied = sum(row.tied_with_best for row in ranking.rows if row.name in names)
    top = (ranking.rows[0].name, ranking.rows[1].name) if len(ranking.names) > 1 else None
    needed, matters = _top_two(ranking)
    ranked = [{name: row for name, row in half.items() if name in names} for half in halves]
    stable = mask_stability(ranked, ranking.scale)
    again = reliability(ranking.scores[:, chosen], seed)
    return MetricQuality(m, ranking.pairs.n, share, again, stable, tied, top, matters, needed)


def reliability(scores: Floats, seed: int = 0, splits: int = SPLITS) -> float | None:
    """Split-half reliability of the columns' means, stepped up to all rows.

    The texts are halved at random `splits` times; r is the mean Pearson correlation, over methods, between the means of
    the two halves, and 2r / (1 + r) the reliability of all texts (Spearman-Brown); zero where r is not positive. Splits
    in which a half gives all methods the same mean are left out.

    Args:
        scores: texts x methods, on the compared scale.
        seed: of the halves.
        splits: how many.

    Returns:
        From 0 to 1, or None for fewer than three methods or four texts, and where no split has a correlation.
    """
    n, m = scores.shape
    if m < LEAST_METHODS or n < LEAST_TEXTS:
        return None
    one = _halvings(n, splits, seed, m)
    halves = one @ scores, (1 - one) @ scores
    defined = ~(undefined.constant_rows(halves[0]) | undefined.constant_rows(halves[1]))
    if not defined.any():
        return None
    r = max(0.0, float(pearson_rows(*(half[defined] for half in halves)).mean()))
    return 2 * r / (1 + r)


@lru_cache(maxsize=8)
def _halvings(n: int, splits: int, seed: int, m: int) -> Floats:
    """splits x n: 1 for the texts of a half at random."""
    rng = np.random.default_rng([seed, n, m])
    one = np.zeros((splits, n))
    for row in one:
        row[rng.permutation(n)[: n // 2]] = 1
    one.setflags(write=False)
    return one


def mask_stability(halves: Sequence[Mapping[str, Scores]], scale: Scale = "linear") -> float | None:
    """Spearman correlation, over methods, between their means from the one and from the other half of the masks.

    How far the order of the methods hangs on the masks that were drawn: another draw of as many masks as a half has
    would agree with one half as far as the other half does, and one of all of them further.

    Args:
        halves: two tables, sample id to score for each method; none where no masks are drawn.
        scale: on which means are compared.

    Returns:
        From -1 to 1, over the texts that all methods define in both halves; None for fewer than three methods.
    """
    names, scores = paired({(name, i): row for i, half in enumerate(halves) for name, row in half.items()})
    both = [name for name, i in names if i == 0 and (name, 1) in names]
    if len(both) < LEAST_METHODS:
        return None
    means = dict(zip(names, turn(scores, "lower", scale).mean(axis=0), strict=True))
    one, other = (np.array([means[name, i] for name in both]) for i in (0, 1))
    return None if undefined.correlation(one, other) else spearman(one, other)


def pair_level(pairs: Pairwise) -> float:
    """The two-sided level of one pair's sign test that the simultaneous critical value amounts to.

    Where there are too few texts for a critical value, Bonferroni's: the level over the number of pairs.
    """
    from scipy.special import ndtr

    if not np.isfinite(pairs.critical):
        m = len(pairs.difference)
        return pairs.level / max(1.0, m * (m - 1) / 2)
    return min(pairs.level, float(2 * ndtr(-pairs.critical)))


def texts_needed(wins: float, level: float, power: float = POWER) -> int | None:
    """The fewest texts with which a sign test at this two-sided level finds a difference with this power.

    Args:
        wins: on what share of the texts that are no ties the one method is better.
        level: of the test, two-sided.
        power: how often the difference is to be found.

    Returns:
        By the normal approximation, corrected for continuity; at least what a board needs to separate anything (six)
        and what the test needs if all texts say the same. None where each wins half of the texts, or a million
        texts are too few.

    >>> texts_needed(0.75, 0.05)
    31
    """
    from scipy.special import ndtri

    if wins == 0.5:
        return None
    spread = ndtri(1 - level / 2) / 2 + ndtri(power) * np.sqrt(wins * (1 - wins))
    apart = abs(wins - 0.5)
    smooth = (spread / apart) ** 2
    found = smooth / 4 * (1 + np.sqrt(1 + 1 / (smooth * apart))) ** 2  # counts are whole numbers
    least = max(np.log2(2 / level), next(n for n in range(2, 100) if not too_few(n)))
    return int(np.ceil(max(least, found))) if found <= MOST_TEXTS else None


def wins_at(differences: Floats, shift: float) -> float:
    """The share of the texts that the one of two wins, ties left out, where their differences are moved by a shift."""
    moved = differences + shift
    won, lost = int((moved > 0).sum()), int((moved < 0).sum())
    return won / (won + lost) if won + lost else 0.5


def _top_two(ranking: Ranking) -> tuple[int | None, bool]:
    """Texts to separate best and second at the level of the board, and whether their difference matters."""
    level = pair_level(ranking.pairs)
    if len(ranking.names) < 2:
        return None, False
    i, j = (list(ranking.names).index(row.name) for row in ranking.rows[:2])
    apart = abs(float(ranking.pairs.difference[i, j]))
    matters = apart > 0 if ranking.relevant is None else apart >= ranking.relevant
    share = wins_at(ranking.scores[:, j] - ranking.scores[:, i], 0.0)
    return texts_needed(share, level), bool(matters)


def metric_agreement(means: Mapping[K, Mapping[str, float]]) -> dict[tuple[K, K], float]:
    """Spearman correlation of every two metrics over the methods that both rank; +1: the same order, best to worst.

    Given are the means of the methods by every metric, turned so that smaller is better (`Ranking.means`). Left out
    where fewer than three methods are ranked by both, or one gives them all the same mean.
    """
    found = {}
    for one, other in combinations(means, 2):
        common = [name for name in means[one] if name in means[other]]
        x, y = (np.array([means[label][name] for name in common]) for label in (one, other))
        if len(common) >= LEAST_METHODS and not undefined.correlation(x, y):
            found[one, other] = spearman(x, y)
    return found
