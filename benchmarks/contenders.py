"""The pairs that are timed side by side: for each row of the table ours and the peer, ready to be called."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np
import peers
import torch
from subjects import Subject, subject

from slalom_bench.backends import pruned_forward
from slalom_bench.core.seeds import generator
from slalom_bench.core.types import Bools
from slalom_bench.explainers.kernel_shap import coalitions
from slalom_bench.explainers.lime import lime_masks
from slalom_bench.explainers.partition_shap import segments, token_tree
from slalom_bench.handle.classifier import Classifier
from slalom_bench.numerics.masks import small_deletions

STEPS = 50
MIXED = {"mini-bert": 5000, "bert-768": 1000, "bert-384": 100, "bert-12": 48}
"""Mixed-length deletions of the handle row; on wide and deep models fewer of them say the same."""
HANDLE_ONLY = ("bert-384", "bert-12")
"""Models with the handle row alone."""

Pair = dict[str, Callable[[], Any]]


@cache
def pairs(model: str) -> dict[str, Pair]:
    """Row to {"ours", "peer"}; the handle row has the handle with the model's own pass as a third."""
    one = subject(model)
    if model == "mini-gpt2":
        return {"prefixes": prefixes(one)}
    n, keep = len(one.sample), mixed(model)
    handle: Pair = {
        "ours": lambda: one.handle().masked_log_odds(one.sample, keep),
        "peer": ideal(one, keep),
        "own pass": lambda: Classifier(one.plain()).masked_log_odds(one.sample, keep),
    }
    if model in HANDLE_ONLY:
        return {"handle": handle}
    for_lime = peers.Predictor(one.backend, one.sample).tuned(lime_masks(n, 64, True, generator(1)))
    for_shap = peers.Predictor(one.backend, one.sample).tuned(coalitions(n, 998, generator(1))[0][-64:])
    fidel = peers.fastest((16, 32, 64), lambda batch: peers.slalom_fidel(one.backend, one.sample, 64, 0, batch))
    captum = peers.fastest(
        (2, 4, 8, 16, 50), lambda batch: peers.integrated_gradients(one.backend, one.sample, STEPS, batch)
    )
    tree = token_tree(segments(one.backend.tokens, one.sample))
    orders = 2 * (2 * n + 1)
    return {
        "slalom-eff": {
            "ours": lambda: one.explain("slalom-eff", 5000),
            "peer": lambda: peers.slalom_eff(one.backend, one.sample, 5000),
        },
        "slalom-fidel": {
            "ours": lambda: one.explain("slalom-fidel", 1000),
            "peer": lambda: peers.slalom_fidel(one.backend, one.sample, 1000, 0, fidel),
        },
        "lime": {"ours": lambda: one.explain("lime", 1000), "peer": lambda: peers.lime(for_lime, 1000)},
        "kernel-shap": {
            "ours": lambda: one.explain("kernel-shap", 1000),
            "peer": lambda: peers.kernel_shap(for_shap, 1000),
        },
        "integrated-gradients": {
            "ours": lambda: one.explain("integrated-gradients", STEPS + 2),
            "peer": lambda: peers.integrated_gradients(one.backend, one.sample, STEPS, captum),
        },
        "partition-shap": {
            "ours": lambda: one.explain("partition-shap", 1000),
            "peer": lambda: peers.partition_shap(for_shap, tree, 1000),
        },
        "permutation-shap": {
            "ours": lambda: one.explain("permutation-shap", orders),
            "peer": lambda: peers.permutation_shap(for_shap, orders),
        },
        "handle": handle,
    }


def mixed(model: str) -> Bools:
    """The handle row's masks: lengths from nothing to the whole text."""
    return lime_masks(len(subject(model).sample), MIXED[model], True, generator(2))


def prefixes(one: Subject) -> Pair:
    """Small deletions with shared beginnings computed once, and the same pass with every one computed."""
    keep = small_deletions(len(one.sample), 300, generator(0))[0]

    def ours() -> None:
        one.handle().masked_log_odds(one.sample, keep)

    def peer() -> None:
        with patch.object(pruned_forward._Beginnings, "found", return_value=None):
            ours()

    return {"ours": ours, "peer": peer}


def ideal(one: Subject, keep: Bools) -> Callable[[], None]:
    """The model's own pass over as many real tokens, all sequences equally long, in the best of three batch sizes."""
    tokens = one.backend.tokens
    around = len(tokens.prefix) + len(tokens.suffix)
    length = round(float(keep.sum(axis=1).mean())) + around
    count = round((keep.sum() + around * len(keep)) / length)
    ids = torch.from_numpy(np.resize(one.sample.ids, (count, length)))

    def run(rows: int, ids: torch.Tensor = ids) -> None:
        with torch.inference_mode():
            for part in ids.split(rows):
                one.backend.module(input_ids=part, attention_mask=None)

    best = peers.fastest((1024 // length, 2048 // length, 4096 // length), lambda rows: run(rows, ids[:100]))
    return lambda: run(best)


def lengths(model: str, row: str) -> np.ndarray:
    """How long the sequences of a row's query set are: for the arithmetic that the model's own pass would take."""
    n = len(subject(model).sample)
    if row == "slalom-fidel":
        kept = small_deletions(n, 1000, generator(0))[0].sum(axis=1)
    elif row == "lime":
        kept = lime_masks(n, 1000, True, generator(0)).sum(axis=1)
    elif row == "kernel-shap":
        kept = coalitions(n, 998, generator(0))[0].sum(axis=1)
    else:
        kept = np.full(5000, 2)
    return kept + 2.0
