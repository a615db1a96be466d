"""What the scores of an explanation mean and how good its fit is, in words that hold for the method at hand."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from slalom_bench.core.types import Explanation
from slalom_bench.results.diagnostics import average
from slalom_bench.showing.wording import number
from slalom_bench.surrogates.mask_process import MaskProcess
from slalom_bench.surrogates.slalom import SlalomSurrogate

_HALVES = 32
"""Halves of a text that a process is asked about."""
_LITTLE = 0.1
"""Share of what a process foretells below which the part that foretells it says little."""
_NEAR = 0.05
"""Log-odds by which a surrogate may miss the whole text and need not say so."""
_QUALITY: dict[str, Callable[[float], str]] = {
    "mse": lambda v: f"off by {number(math.sqrt(v))} log-odds on its own queries (root mean square)",
    "r2": lambda v: f"{100 * v:.0f} % of the variance of its own queries explained, as it weighs them",
    "standard_error": lambda v: f"the scores are known to {number(v)} log-odds (standard error, mean over tokens)",
    "completeness_gap": lambda v: f"the scores miss the sum that they should have by {number(v)} log-odds",
    "relative_gap": lambda v: f"that is {number(100 * v)} % of it",
    "conservation_gap": lambda v: f"the scores miss the log-odds by {number(v)}",
    "converged": lambda v: "" if v else "it did not converge",
    "exact": lambda v: "exact, all coalitions were asked" if v else "",
    "cancelled": lambda v: "the scores cancel, what is left is rounding" if v else "",
}


def meanings(explanation: Explanation) -> dict[str, str]:
    """Of SLALOM's scores, by name; of any other none.

    >>> meanings(Explanation({"attribution": [1.0]}, "attribution", 1))
    {}
    """
    if not {"value", "importance"} <= explanation.scores.keys():
        return {}
    fitted, mean = "the fitted SLALOM", "the weighted mean of the text"
    if isinstance(explanation.surrogate, MaskProcess):
        fitted = "the fitted process (without what moving the others does)"
        mean = "the weighted mean of text and anchor, in the SLALOM inside the process,"
    elif isinstance(explanation.surrogate, SlalomSurrogate) and explanation.surrogate.anchor is not None:
        mean = "the weighted mean of text and anchor"
    said = {
        "removal": f"the log-odds that go when the token does, as {fitted} has it",
        "value": f"the log-odds that the token pulls {mean} towards",
        "importance": "the logarithm of its weight in that mean, 0 on average",
    }
    return {name: words for name, words in said.items() if name in explanation.scores}


def quality(explanation: Explanation, log_odds: float | None = None) -> str:
    """How good the fit, or whatever the method computes, is by its own account; empty where it says nothing.

    A process passes through what it asked, so that its error there says nothing: it knows how unsure it is instead.
    A surrogate that was not made to agree with the model on the whole text (`log_odds`) says by how much it does not.
    """
    found = average([explanation.diagnostics])
    parts = []
    if isinstance(explanation.surrogate, MaskProcess):
        del found["mse"]
        n = len(explanation)
        half = np.random.default_rng(0).random((_HALVES, n)).argsort(axis=1) >= n / 2
        one, many = (float(explanation.surrogate.predict_std(keep).mean()) for keep in (~np.eye(n, dtype=bool), half))
        parts.append(
            f"by its own account off by {number(one)} log-odds where a token goes, by {number(many)} where half of the "
            "text does (one standard deviation)"
        )
        if "parts" in explanation.diagnostics:
            share = explanation.diagnostics["parts"].get("slalom", 0.0)
            little = "" if share >= _LITTLE else ", so value and importance say little here"
            parts.append(f"what its SLALOM foretells has {number(100 * share)} % of the mean square of it all{little}")
    parts += [words(found[name]) for name, words in _QUALITY.items() if name in found]
    if explanation.surrogate is not None and log_odds is not None:
        whole = float(explanation.surrogate.predict(np.ones((1, len(explanation)), dtype=bool))[0])
        if abs(whole - log_odds) > _NEAR:
            parts.append(f"of the whole text it says {whole:+.2f}, the model {log_odds:+.2f}")
    return "; ".join(part for part in parts if part)
