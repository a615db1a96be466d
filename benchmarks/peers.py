"""The packages we are measured against, called as their users call them, on the same model, text and budget.

Where a package leaves the choice of a batch, it gets the one that is fastest here (its SLALOM-eff leaves none: 16).
"""

from __future__ import annotations

import contextlib
import io
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from slalom_bench.backends.torch_backend import HFBackend, pad_batch
from slalom_bench.core.types import Bools, Floats, Ints, Sample
from slalom_bench.explainers.partition_shap import Tree

BATCHES = (8, 16, 32, 64)


def fastest(choices: Sequence[int], run: Callable[[int], Any]) -> int:
    """The choice with the shortest of two runs, after one that does not count."""
    run(choices[0])
    seconds = dict.fromkeys(choices, np.inf)
    for choice in (*choices, *choices):
        start = time.perf_counter()
        run(choice)
        seconds[choice] = min(seconds[choice], time.perf_counter() - start)
    return min(choices, key=lambda choice: seconds[choice])


class Predictor:
    """What a user writes for a package that wants a function: batches in the order given, padded, without gradients."""

    def __init__(self, backend: HFBackend, sample: Sample, batch: int = 16) -> None:
        self.backend, self.sample, self.ids, self.batch = backend, sample, sample.ids, batch

    def log_odds(self, sequences: Sequence[Ints]) -> Floats:
        tokens, module = self.backend.tokens, self.backend.module
        whole = [np.concatenate([tokens.prefix, ids, tokens.suffix]).astype(np.int64) for ids in sequences]
        out = []
        for start in range(0, len(whole), self.batch):
            ids, mask = pad_batch(whole[start : start + self.batch], tokens.pad_id)
            with torch.no_grad():
                logits = module(input_ids=torch.from_numpy(ids), attention_mask=torch.from_numpy(mask)).logits
            out.append((logits[:, 1] - logits[:, 0]).double().numpy())
        return np.concatenate(out)

    def masked(self, keep: Bools) -> Floats:
        return self.log_odds([self.ids[row] for row in np.asarray(keep, np.bool_)])

    def tuned(self, keep: Bools) -> Predictor:
        """With the batch size that answers these masks fastest."""
        self.batch = fastest(BATCHES, lambda batch: Predictor(self.backend, self.sample, batch).masked(keep))
        return self


def lime(predictor: Predictor, budget: int) -> Any:
    """LimeTextExplainer on a text of one word a position; the function turns words into ids without a tokenizer."""
    from lime.lime_text import LimeTextExplainer

    def probabilities(texts: list[str]) -> Floats:
        kept = [[int(number) for number in re.findall(r"\d+", text)] for text in texts]
        p = 1 / (1 + np.exp(-predictor.log_odds([predictor.ids[places] for places in kept])))
        return np.stack([1 - p, p], axis=1)

    text = " ".join(f"w{i}" for i in range(len(predictor.ids)))
    explainer = LimeTextExplainer(random_state=0)
    return explainer.explain_instance(text, probabilities, num_features=len(predictor.ids), num_samples=budget)


def kernel_shap(predictor: Predictor, budget: int) -> Any:
    """shap.KernelExplainer with the empty text as background and no feature selection."""
    import shap

    n = len(predictor.ids)
    with contextlib.redirect_stderr(io.StringIO()):
        explainer = shap.KernelExplainer(predictor.masked, np.zeros((1, n)))
        return explainer.shap_values(np.ones(n), nsamples=budget, l1_reg=0, silent=True)


def _positions(n: int, tree: Tree | None) -> Any:
    """A masker of shap's whose masks are keep-masks of positions, with our tree of tokens for its clustering."""
    import shap

    class Positions(shap.maskers.Masker):
        shape, data = (1, n), None

        def __call__(self, mask: Bools, row: Floats) -> Bools:
            return mask.reshape(1, -1)

    masker = Positions()
    if tree is not None:
        sizes = tree.members.sum(axis=1)[n:]
        masker.clustering = np.column_stack([tree.children, sizes / sizes.max(), sizes]).astype(np.float64)
    return masker


def partition_shap(predictor: Predictor, tree: Tree, budget: int) -> Any:
    """shap.PartitionExplainer on the tree of its text masker, with its own batch of 10 coalitions."""
    import shap

    n = len(predictor.ids)
    explainer = shap.PartitionExplainer(predictor.masked, _positions(n, tree))
    return explainer(np.ones((1, n)), max_evals=budget, silent=True)


def permutation_shap(predictor: Predictor, budget: int) -> Any:
    """shap.PermutationExplainer, as many whole pairs of orders (2n + 1 evaluations each) as the budget pays for."""
    import shap

    n = len(predictor.ids)
    explainer = shap.PermutationExplainer(predictor.masked, _positions(n, None))
    return explainer(np.ones((1, n)), max_evals=budget, silent=True)


def integrated_gradients(backend: HFBackend, sample: Sample, steps: int, batch: int) -> Any:
    """captum on the model itself, zero baseline between the special tokens."""
    from captum.attr import IntegratedGradients

    tokens, module = backend.tokens, backend.module
    whole = torch.tensor([[*tokens.prefix, *sample.ids, *tokens.suffix]])
    words = module.get_input_embeddings()(whole).detach()  # type: ignore[operator]
    origin = words.clone()
    origin[:, len(tokens.prefix) : words.shape[1] - len(tokens.suffix)] = 0.0

    def forward(embeddings: torch.Tensor) -> torch.Tensor:
        logits = module(inputs_embeds=embeddings).logits
        return logits[:, 1] - logits[:, 0]

    method = IntegratedGradients(forward)
    return method.attribute(words, baselines=origin, n_steps=steps, internal_batch_size=batch)


OFFSET = 1000
"""slalom-explanations writes the ids 101 and 102 where special tokens belong. A text's own ids must stay clear of them:
it is given them higher by this."""


class Templated(torch.nn.Module):
    """A model for slalom-explanations: the text's ids as they were, inside the model's own template."""

    def __init__(self, backend: HFBackend) -> None:
        super().__init__()
        self.module, self.pad = backend.module, backend.tokens.pad_id
        (self.first,), (self.last,) = backend.tokens.prefix, backend.tokens.suffix

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> dict[str, torch.Tensor]:
        ids = torch.where(attention_mask > 0, input_ids - OFFSET, self.pad)
        ids[:, 0] = self.first
        ids[torch.arange(len(ids)), attention_mask.sum(dim=1) - 1] = self.last
        return {"logits": self.module(input_ids=ids, attention_mask=attention_mask).logits}


def _slalom(fit: Callable[..., Any], backend: HFBackend, sample: Sample, **options: Any) -> tuple[Floats, Floats]:
    """Value and importance of each distinct token from one of the package's fitting functions."""
    from slalom_explanations import slalom_helpers as package

    ids = torch.from_numpy(sample.ids + OFFSET)
    vocabulary = ids.unique()
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        model = package.MyLittleSLALOM(vocabulary, pad_token_id=backend.tokens.pad_id)
        value, importance, _ = fit(
            model, Templated(backend), vocabulary, ids, use_cls=True, pad_token_id=backend.tokens.pad_id, **options
        )
    return value.double().numpy(), importance.double().numpy()


def slalom_eff(backend: HFBackend, sample: Sample, budget: int, seed: int = 0) -> tuple[Floats, Floats]:
    """fit_sgd_rand as the package's explainer calls it, but with two tokens a sequence, as published (not three)."""
    from slalom_explanations import slalom_helpers as package

    torch.manual_seed(seed)
    return _slalom(
        package.fit_sgd_rand, backend, sample, num_eps=60, lr=5e-3, batch_size=128, seq_len=2, offline_ds_size=budget
    )


def slalom_fidel(
    backend: HFBackend, sample: Sample, budget: int, seed: int = 0, batch: int = 16
) -> tuple[Floats, Floats]:
    """fit_iter_rand, the inner fit (the package's own call of it fails)."""
    from slalom_explanations import slalom_helpers as package

    torch.manual_seed(seed)
    return _slalom(
        package.fit_iter_rand, backend, sample, mode="deletion", offline_ds_size=budget, batch_size_sample=batch
    )
