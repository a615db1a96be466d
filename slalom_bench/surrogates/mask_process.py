"""The surrogate of slalom-anchor: a Gaussian process over removals, whose kernel is made of a few readable parts.

A prediction is F(full) + sum over stored masks Z_j of a_j k(R, Z_j), R what a mask removes. Every part of k vanishes
where nothing is removed, so that the full text is predicted exactly. The parts, each with a variance of its own:

    gone     each token's own effect, additive
    hint     additive effects in proportion to what one backward pass says (gradient x input, directions of gradients)
    shift    what moving a token does: u_j . (p_q - p_j), u its carriers, p a position (where gaps close)
    curve    z and t bend: t, t^2, z t, z^2, z t^2, z^2 t; z the summed effects of R, t the share removed
    slalom   what SLALOM says changes
    rest     interactions of any order: exp(-2 d), d the share of all effect (without sign) in which two removals differ
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from slalom_bench.core.surrogate import checked_masks, checked_vector
from slalom_bench.core.types import Bools, Floats
from slalom_bench.errors import InvalidInput
from slalom_bench.registry import surrogate
from slalom_bench.surrogates.slalom import SlalomSurrogate

PARTS = ("gone", "hint", "shift", "curve", "slalom", "rest")
BLOCK = 1024
"""Rows that are worked on together: memory does not grow with their number."""
_RATE = 2.0
"""How fast interactions fade as removals differ."""


def shift_features(removed: Bools, carriers: Floats) -> Floats:
    """What each place carries, less what it carries in the full text (m x r (n+1)), the r carriers one after the other.

    Place q carries the u_j of the token that is read there; the anchor comes behind the last token. A token that moves
    from j to q counts at q and is taken away at j; one that is removed counts nowhere.

    >>> shift_features(np.array([[True, False]]), np.array([[5.0], [7.0], [1.0]])).tolist()
    [[7.0, -6.0, -1.0]]
    """
    m, n = removed.shape
    kept = np.hstack([~removed, np.ones((m, 1), np.bool_)])
    row, source = np.nonzero(kept)
    place = (kept.cumsum(axis=1) - 1)[row, source]
    out = np.zeros((m, carriers.shape[1], n + 1))
    for r, carrier in enumerate(carriers.T):
        out[row, r, place] = carrier[source]
        out[:, r] -= kept * carrier
    return out.reshape(m, -1)


@dataclass(frozen=True)
class MaskKernel:
    """How alike two removals are: the sum of parts that each have a variance; a part without one is left out.

    Args:
        effects: what each token is held to do, for curve and rest (n).
        hints: columns in proportion to which effects may lie (n x h).
        carriers: u of each token, and last the anchor (n+1 x r).
        slalom: the SLALOM whose changes are a part.
        variances: of the parts by name, out of `PARTS`.
    """

    effects: Floats
    hints: Floats
    carriers: Floats
    slalom: SlalomSurrogate | None
    variances: Mapping[str, float]

    def features(self, part: str, removed: Bools) -> Floats:
        """The columns (m x f) whose inner products a part is; of all parts but `rest`."""
        n = len(self.effects)
        if part == "gone":
            return removed.astype(np.float64)
        if part == "hint":
            return np.asarray(removed @ self.hints, np.float64)
        if part == "shift":
            return shift_features(removed, self.carriers)
        if part == "slalom":
            if self.slalom is None:
                raise InvalidInput("the part slalom needs a SLALOM")
            said = self.slalom.predict(~np.vstack([np.zeros((1, n), np.bool_), removed]))
            return (said[1:] - said[0])[:, None]
        z = (removed @ self.effects) / (np.sqrt(n) * max(float(np.linalg.norm(self.effects)), 1e-300))
        t = removed.sum(axis=1) / n
        return np.stack([t, t * t, z * t, z * z, z * t * t, z * z * t], axis=1)

    def stacked(self, removed: Bools) -> Floats:
        """The columns of all parts but `rest`, each times its standard deviation: their inner products are k."""
        columns = [np.sqrt(v) * self.features(part, removed) for part, v in self.variances.items() if part != "rest"]
        return np.hstack(columns) if columns else np.zeros((len(removed), 1))

    def shares(self) -> Floats:
        """Each token's share of all effects without sign (n); equal ones where there are no effects."""
        sizes = np.abs(self.effects)
        total = float(sizes.sum())
        return sizes / total if total else np.full(len(sizes), 1 / len(sizes))

    def rest(self, a: Bools, b: Bools) -> Floats:
        """exp(-2 d) of each pair, d the share of the effects in which they differ, made 0 where nothing is removed."""
        weights = self.shares()
        of_a, of_b = a @ weights, b @ weights
        both = (a * weights) @ b.T
        near = np.exp(-_RATE * (of_a[:, None] + of_b - 2 * both))
        return near - np.exp(-_RATE * of_a)[:, None] - np.exp(-_RATE * of_b) + 1

    def unsure(self, removed: Bools) -> Floats:
        """How the variance of an error grows with what is removed (m): max(w, t)^1.5 / t, 0 where nothing is.

        w is a removal's share of all effects, t that of the tokens. What no part follows grows with what goes, and most
        where few tokens with much effect go together: few masks that a process is fitted to are such.
        """
        share = removed.mean(axis=1)
        most = np.maximum(removed @ self.shares(), share)
        return np.divide(most**1.5, share, out=np.zeros(len(removed)), where=share > 0)

    def between(self, a: Bools, b: Bools) -> Floats:
        """k of each pair of removals (m x l)."""
        out = self.stacked(a) @ self.stacked(b).T
        if self.variances.get("rest"):
            out += self.variances["rest"] * self.rest(a, b)
        return out

    def own(self, a: Bools) -> Floats:
        """k of each removal and itself (m)."""
        rest = self.variances.get("rest", 0.0) * (2 - 2 * np.exp(-_RATE * (a @ self.shares())))
        return np.asarray(np.sum(self.stacked(a) ** 2, axis=1) + rest)


@surrogate("mask-process", version=1)
class MaskProcess:
    """A Gaussian process over removals: F(S) = F(full) + sum_j a_j k(R, Z_j), with a standard deviation.

    The kernel k is a sum of readable parts (see the module). What it leaves of a removal is noise in proportion to the
    share of the tokens that is removed.

    Args:
        full: F of the full text.
        kernel: how alike removals are.
        masks: the removals Z that predictions are made of (l x n).
        weights: a (l).
        noise: the variance of what is left where all is removed.
        spread: what errors of masks left out are, in units of what the process says.

    Reference:
        This package's own; see `slalom_bench.explainers.slalom_anchor`. Rasmussen and Williams 2006, chapter 2.
    """

    kind = "mask-process"

    def __init__(
        self, full: float, kernel: MaskKernel, masks: Bools, weights: ArrayLike, noise: float, spread: float
    ) -> None:
        self.full, self.kernel, self.noise, self.spread = float(full), kernel, float(noise), float(spread)
        self.masks = checked_masks(masks, len(kernel.effects))
        self.weights = checked_vector("weights", weights)
        if len(self.weights) != len(self.masks) or not np.isfinite([full, noise, spread]).all():
            raise InvalidInput(f"{len(self.masks)} masks need as many weights; full, noise and spread must be finite")

    def __len__(self) -> int:
        return self.masks.shape[1]

    def predict(self, keep: np.ndarray) -> Floats:
        """Log-odds (m) of keep-masks (m x n)."""
        removed = ~checked_masks(keep, len(self))
        stored, out = self.kernel.stacked(self.masks), np.full(len(removed), self.full)
        linear, rest = stored.T @ self.weights, self.kernel.variances.get("rest", 0.0)
        for start in range(0, len(out), BLOCK):
            some = removed[start : start + BLOCK]
            out[start : start + BLOCK] += self.kernel.stacked(some) @ linear
            if rest:
                out[start : start + BLOCK] += rest * (self.kernel.rest(some, self.masks) @ self.weights)
        return out

    def shares(self, removed: Bools) -> dict[str, float]:
        """The mean square of what each part predicts of removals, over that of what all predict together."""
        change = self.predict(~removed) - self.full
        whole = max(float(np.mean(change**2)), 1e-300) if len(change) else 1.0
        lost = {part: change - self.without(part).predict(~removed) + self.full for part in self.kernel.variances}
        return {part: float(np.mean(by**2)) / whole if len(by) else 0.0 for part, by in lost.items()}

    def without(self, part: str) -> MaskProcess:
        """The same process less what one part of its kernel predicts."""
        left = {name: v for name, v in self.kernel.variances.items() if name != part}
        kernel = replace(self.kernel, variances=left)
        return MaskProcess(self.full, kernel, self.masks, self.weights, self.noise, self.spread)

    def predict_std(self, keep: np.ndarray) -> Floats:
        """By how much the predicted change of log-odds may be off (m): one standard deviation; 0 for the full text.

        That of the process times `spread`, its variance in proportion to how `unsure` the kernel is of such removals
        (1 on average over the masks it is made of).
        """
        from scipy.linalg import cho_factor, solve_triangular

        removed = ~checked_masks(keep, len(self))
        share = removed.mean(axis=1)
        if not self.noise:
            return np.zeros(len(removed))
        among = self.kernel.between(self.masks, self.masks)
        among[np.diag_indices(len(among))] += self.noise * self.masks.mean(axis=1)
        lower = cho_factor(among, lower=True, check_finite=False)[0]
        known = solve_triangular(lower, self.kernel.between(self.masks, removed), lower=True, check_finite=False)
        variance = np.maximum(self.kernel.own(removed) - np.sum(known**2, axis=0), 0.0) + self.noise * share
        wider = self.kernel.unsure(removed) / max(float(self.kernel.unsure(self.masks).mean()), 1e-300)
        return np.asarray(self.spread * np.sqrt(variance * wider))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; masks as bits and weights as doubles, in base 64."""
        k = self.kernel
        return {
            "kind": self.kind,
            "full": self.full,
            "noise": self.noise,
            "spread": self.spread,
            "effects": k.effects.tolist(),
            "hints": k.hints.tolist(),
            "carriers": k.carriers.tolist(),
            "slalom": None if k.slalom is None else k.slalom.to_dict(),
            "variances": dict(k.variances),
            "masks": base64.b64encode(np.packbits(self.masks, axis=1).tobytes()).decode(),
            "weights": base64.b64encode(self.weights.astype("<f8").tobytes()).decode(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> MaskProcess:
        """The inverse of `to_dict`."""
        effects = np.array(data["effects"], np.float64)
        n = len(effects)
        weights = np.frombuffer(base64.b64decode(data["weights"]), "<f8")
        bits = np.frombuffer(base64.b64decode(data["masks"]), np.uint8).reshape(len(weights), -1)
        slalom = None if data["slalom"] is None else SlalomSurrogate.from_dict(data["slalom"])
        hints, carriers = (np.array(data[name], np.float64) for name in ("hints", "carriers"))
        kernel = MaskKernel(effects, hints.reshape(n, -1), carriers.reshape(n + 1, -1), slalom, data["variances"])
        masks = np.unpackbits(bits, axis=1, count=n).view(np.bool_)
        return cls(data["full"], kernel, masks, weights, data["noise"], data["spread"])
