"""What a mask law is: which parts of a text are removed, by chance, to test a surrogate or to fit one."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from slalom_bench.core.types import Bools, Floats, Sample
from slalom_bench.errors import InvalidInput

_FULL_SHARE = 1 / 6
"""The full text's share of the weight of a fit: that of Algorithm 2, where k ~ Uniform{0..5} positions are deleted."""


@runtime_checkable
class MaskLaw(Protocol):
    """A mask law: one file, registered with `slalom_bench.law`."""

    ranked: bool
    """Whether it draws among the tokens that matter, and must be given the effect of each."""

    def undefined(self, sample: Sample) -> str | None:
        """Why the law has no masks for a sample (a reason of `slalom_bench.core.undefined`), or None where it has."""
        ...

    def draw(self, sample: Sample, count: int, rng: np.random.Generator, effects: Floats | None = None) -> Bools:
        """Draw keep-masks of a sample for which the law is defined.

        Args:
            sample: the text in the model's content tokens.
            count: how many masks; a law that has fewer for this text gives all that it has.
            rng: the only source of randomness.
            effects: what each token does to the model's output, without sign (n); for laws that are `ranked`.

        Returns:
            Masks (at most count x n), True where a token is kept; each removes a token at least, and keeps one.
        """
        ...


def fitting_masks(
    name: str, law: MaskLaw, sample: Sample, count: int, rng: np.random.Generator
) -> tuple[Bools, Floats]:
    """What a regression is fitted to under a mask law: the full text first, then masks of the law, and weights.

    The full text has a sixth of the weight, as in Algorithm 2 of Leemann et al.: every change is measured from it.
    Explainers that draw from here first, with one seed, fit the same masks.

    Args:
        name: of the law, for messages.
        law: the law; one that is `ranked` is refused, for a fit knows no effects yet.
        sample: the text.
        count: how many rows, the full text among them.
        rng: the generator.

    Returns:
        Masks (at most count x n), and weights whose sum is their number.
    """
    if law.ranked:
        raise InvalidInput(f"law {name} draws among the tokens that matter: nothing can be fitted to it beforehand")
    if reason := law.undefined(sample):
        raise InvalidInput(f"sample {sample.id}: law {name} has no masks for it: {reason}")
    drawn = law.draw(sample, count - 1, rng)
    # in a random order: a fit that chooses something by the first rows must see a fair part
    keep = np.vstack([np.ones((1, len(sample)), np.bool_), drawn[rng.permutation(len(drawn))]])
    if not len(drawn):
        return keep, np.ones(1)
    weights = np.full(len(keep), (1 - _FULL_SHARE) * len(keep) / len(drawn))
    weights[0] = _FULL_SHARE * len(keep)
    return keep, weights
