"""Backends over torch modules: queries of any, gradients of those with embeddings, transformers classifiers."""

from __future__ import annotations

import copy
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from slalom_bench.backends.architectures import architecture_of
from slalom_bench.backends.modules import cascade, twin
from slalom_bench.backends.pruned_forward import PrunedForward, pruned_forward
from slalom_bench.core.removal import HIDDEN
from slalom_bench.core.sequences import Ragged
from slalom_bench.core.tokens import Tokens
from slalom_bench.core.types import Ints
from slalom_bench.errors import InvalidInput, Unsupported
from slalom_bench.handle import packing
from slalom_bench.handle.backend import OutOfMemory

TOKEN_BUDGETS = {"cpu": 4096, "mps": 16384, "cuda": 65536}
SHARED = 16384
"""Tokens, at least, that share the pruned pass's table of (token, position) pairs."""


def pick_device(name: str = "auto") -> torch.device:
    """cpu, cuda, cuda:N, mps, or auto: the best there is."""
    if name == "auto":
        has_mps = torch.backends.mps.is_available()
        return torch.device("cuda" if torch.cuda.is_available() else "mps" if has_mps else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InvalidInput(f"unknown device {name!r}; one of cpu, cuda, cuda:N, mps, auto") from error
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise InvalidInput(f"device {name!r} is not here ({torch.cuda.device_count()} CUDA devices); use cpu or auto")
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise InvalidInput("device 'mps' is not here; use cpu or auto")
    if device.type not in TOKEN_BUDGETS:
        raise InvalidInput(f"device {name!r} is not supported; one of cpu, cuda, cuda:N, mps, auto")
    return device


def weights_hash(module: nn.Module, *more: str) -> str:
    """SHA-256 over every parameter and buffer, their names, and what else shapes the answers."""
    sha = hashlib.sha256()
    for text in more:
        sha.update(text.encode())
    for name, tensor in sorted(module.state_dict().items()):
        sha.update(f"{name}:{tuple(tensor.shape)}:{tensor.dtype}".encode())
        flat = tensor.detach().cpu().contiguous().flatten()
        sha.update(flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b"")
    return sha.hexdigest()


@contextmanager
def memory_errors() -> Iterator[None]:
    """Turn every device's way of saying out-of-memory into one exception."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise OutOfMemory(str(error)) from error
    except RuntimeError as error:
        if "out of memory" in str(error) or "can't allocate memory" in str(error):
            raise OutOfMemory(str(error)) from error
        raise


def pad_batch(sequences: Sequence[Ints], pad_id: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Right-padded ids and attention mask; hidden positions become padding where they stand."""
    laid = Ragged.of(sequences)
    ids = _rectangle(laid.ids, laid.lengths, HIDDEN)
    attended = ids != HIDDEN
    return np.where(attended, ids, pad_id), attended.astype(np.int64)


def _rectangle(values: Ints, lengths: Ints, fill: int) -> NDArray[np.int64]:
    """Values that lie end to end as rows, filled up on the right."""
    shape = len(lengths), int(lengths.max())
    if lengths.min() == shape[1]:
        return values.reshape(shape)
    rows = np.full(shape, fill, np.int64)
    rows[np.arange(shape[1]) < lengths[:, None]] = values
    return rows


class TorchBackend(ABC):
    """A torch module that classifies padded id batches; a subclass says how to call it. Queries only.

    Args:
        module: in evaluation mode, on its device; never changed.
        tokens: its tokenizer.
        name: for messages and results.
        class_names: one for each class; two for a one-logit module.
        max_length: the most tokens of a sequence, special ones included, or None.
    """

    capabilities = frozenset({"queries"})
    pads = True

    def __init__(
        self,
        module: nn.Module,
        tokens: Tokens,
        *,
        name: str,
        class_names: Sequence[str],
        max_length: int | None,
    ) -> None:
        if module.training:
            raise InvalidInput(f"model {name} is in training mode; call .eval() before wrapping it")
        self.module = self.asked = module
        """`asked` answers queries: the module itself, or a twin that an architecture puts in its place."""
        self.tokens = tokens
        self.name = name
        self.class_names = tuple(class_names)
        self.max_length = max_length
        parameter = next(module.parameters())
        self._device = parameter.device
        self.device = str(parameter.device)
        self.dtype = str(parameter.dtype).removeprefix("torch.")
        self.token_budget = TOKEN_BUDGETS.get(parameter.device.type, TOKEN_BUDGETS["cpu"])
        self._cascade: tuple[int, list[nn.Module]] | None = None

    def settings(self) -> str:
        """What shapes the answers beside weights and tokenizer, as a string for the identity."""
        return type(self.module).__name__

    def identity(self) -> str:
        """A hash of weights, settings, tokenizer, dtype and the way batches are made."""
        more = (type(self).__name__, self.settings(), self.tokens.identity(), self.dtype, packing.VERSION)
        return weights_hash(self.module, *more)

    @abstractmethod
    def forward(self, module: nn.Module, mask: torch.Tensor | None, **inputs: torch.Tensor) -> torch.Tensor:
        """Logits (batch x outputs) of `module`, which is the backend's own or a twin of it.

        Args:
            module: what to call.
            mask: attention mask (batch x length), 0 where a position is padding or hidden; None for none of these.
            inputs: `input_ids` (batch x length) or, of a model with embeddings, `inputs_embeds` (x width); and what
                `more_inputs` gives.
        """

    def more_inputs(self, laid: Ragged) -> dict[str, NDArray[np.int64]]:
        """What `forward` is given beside mask and ids: nothing."""
        return {}

    def position_table(self) -> torch.Tensor | None:
        """The learned embeddings of absolute positions, one row each, where it is known that there are any."""
        return None

    def logits(self, sequences: Sequence[Ints]) -> NDArray[np.floating]:
        """Logits (batch x classes) of whole sequences, padded to the longest."""
        laid = Ragged.of(sequences)
        ids, mask = pad_batch(laid, self.tokens.pad_id)
        more = self.more_inputs(laid)
        with torch.inference_mode(), memory_errors():
            # without a mask transformers takes a gap in the position ids for the border of two packed sequences
            attended = None if mask.all() and not more else torch.from_numpy(mask).to(self._device)
            arrays = {"input_ids": ids, **more}
            inputs = {name: torch.from_numpy(array).to(self._device) for name, array in arrays.items()}
            out = self.forward(self.asked, attended, **inputs)
            return two_columns(out.float()).cpu().numpy()

    def with_module(self, module: nn.Module) -> Self:
        """The same backend over another module of the same shape."""
        made = copy.copy(self)
        made.module = made.asked = module
        made._cascade = None
        return made

    def cascade(self, seed: int) -> Sequence[Self]:
        """Copies with parameters drawn anew from the top down (`modules.cascade`), drawn once."""
        if self._cascade is None or self._cascade[0] != seed:
            self._cascade = seed, list(cascade(self.module, seed))
        return [self.with_module(module) for module in self._cascade[1]]


class DifferentiableBackend(TorchBackend):
    """A torch module with word embeddings, so that gradients with respect to them can be taken."""

    capabilities = frozenset({"queries", "gradients"})

    def __init__(
        self, module: nn.Module, tokens: Tokens, *, name: str, class_names: Sequence[str], max_length: int | None
    ) -> None:
        super().__init__(module, tokens, name=name, class_names=class_names, max_length=max_length)
        self.gradient_budget = self.token_budget

    @abstractmethod
    def word_embeddings(self) -> nn.Module:
        """The module that turns ids into word embeddings."""

    def embed(self, sequence: Ints) -> torch.Tensor:
        """Word embeddings (length x width) of a whole sequence, as a new tensor without gradient."""
        with torch.no_grad():
            return self.word_embeddings()(torch.from_numpy(np.asarray(sequence)).to(self._device)).detach().clone()

    def vocabulary(self) -> torch.Tensor:
        """The table of word embeddings (words x width), a row for each id."""
        weight: torch.Tensor = self.word_embeddings().weight  # type: ignore[assignment]
        return weight.detach()

    def logits_from_embeddings(self, words: torch.Tensor) -> torch.Tensor:
        """Differentiable logits (batch x classes) of word embeddings (batch x length x width)."""
        with memory_errors():
            return two_columns(self.forward(self.module, None, inputs_embeds=words.to(self._device)))


def two_columns(logits: torch.Tensor) -> torch.Tensor:
    """A one-logit model as a two-class one: logits 0 and l, whose log-odds are l."""
    return torch.cat([torch.zeros_like(logits), logits], dim=1) if logits.shape[1] == 1 else logits


class HFBackend(DifferentiableBackend):
    """A transformers sequence classifier. Decoder heads are read at the last attended position, never by pad id.

    Args:
        module: in evaluation mode, on its device; never changed.
        tokens: its tokenizer.
        name: for messages and results.
        class_names: one for each class; two for a one-logit module.
        pruned: whether to use the pruned forward pass where the architecture has one.
    """

    def __init__(
        self, module: nn.Module, tokens: Tokens, *, name: str, class_names: Sequence[str], pruned: bool = True
    ) -> None:
        config: Any = module.config
        if getattr(config, "is_encoder_decoder", False):
            raise InvalidInput(f"model {name}: encoder-decoder classifiers are not supported")
        architecture = architecture_of(config)
        limit = architecture.max_length(config)
        super().__init__(module, tokens, name=name, class_names=class_names, max_length=limit)
        self.capabilities = architecture.capabilities(config)
        self.first_position = architecture.first_position(config)
        self.reads_last = architecture.reads_last(module)
        self.spreads = architecture.spreads(config)
        self._position_table = architecture.position_table
        self._choose_pass(pruned)
        if self.pruned is not None:
            self.token_budget = max(self.token_budget, SHARED)

    def _choose_pass(self, pruned: bool) -> None:
        self._eager: nn.Module | None = None
        self.asked = architecture_of(self.module.config).keeping_places(self.module)
        self.pruned = self._probed() if pruned else None
        """The pruned pass, if this model has one."""
        self.pads = self.pruned is None

    def with_module(self, module: nn.Module) -> Self:
        """The same backend over another module, by the pruned pass where this one has it and the module allows it."""
        made = super().with_module(module)
        made._choose_pass(self.pruned is not None)
        return made

    def settings(self) -> str:
        """The configuration, but for what varies from file to file, and which forward pass answers."""
        config: Any = self.module.config
        volatile = ("_name_or_path", "transformers_version", "torch_dtype", "dtype", "_attn_implementation")
        kept = {k: v for k, v in config.to_dict().items() if k not in volatile}
        if self.pruned is not None:
            kept["slalom_bench_pass"] = self.pruned.version  # its last bits are its own
        if self.asked is not self.module:
            kept["slalom_bench_places"] = 1  # hidden ones count
        return json.dumps(kept, sort_keys=True, default=str)

    def forward(self, module: nn.Module, mask: torch.Tensor | None, **inputs: torch.Tensor) -> torch.Tensor:
        """Logits (batch x outputs) by the model's own forward pass: see `TorchBackend.forward`."""
        model: Any = module
        if not self.reads_last:
            return model(attention_mask=mask, **inputs).logits
        hidden = model.base_model(attention_mask=mask, use_cache=False, **inputs)[0].to(model.score.weight.dtype)
        if mask is None:
            return model.score(hidden[:, -1])
        places = torch.arange(mask.shape[1], device=mask.device)
        last = (places * mask).argmax(dim=1)
        return model.score(hidden[torch.arange(len(hidden), device=hidden.device), last])

    def more_inputs(self, laid: Ragged) -> dict[str, NDArray[np.int64]]:
        """Position ids, where tokens say their positions or some are hidden: RoBERTa would not count padding."""
        if self.first_position is None or (laid.places is None and (laid.ids != HIDDEN).all()):
            return {}
        return {"position_ids": _rectangle(laid.positions() + self.first_position, laid.lengths, self.first_position)}

    def position_table(self) -> torch.Tensor | None:
        """The table of positions, where the architecture says which module it is."""
        base: Any = self.module.base_model
        return base.get_submodule(self._position_table).weight if self._position_table else None

    def _probed(self) -> PrunedForward | None:
        """The pruned pass, if there is one and it answers a probe as the model does: changed modules may not."""
        pruned = pruned_forward(self.module, self.tokens.pad_id)
        if pruned is None:
            return None
        vocabulary: Any = self.word_embeddings()
        probe = np.arange(min(8, len(vocabulary.weight), self.max_length or 8))
        ids = torch.from_numpy(probe)[None].to(self._device)
        with torch.inference_mode():
            own = self.forward(self.module, torch.ones_like(ids), input_ids=ids).float()
            try:
                found = pruned.logits([probe]).float()
            except (AttributeError, IndexError, RuntimeError, TypeError):  # other parts than this version knows
                return None
        near = max(1e-4, 16 * torch.finfo(next(self.module.parameters()).dtype).eps)
        return pruned if found.shape == own.shape and torch.allclose(found, own, rtol=near, atol=near) else None

    def logits(self, sequences: Sequence[Ints]) -> NDArray[np.floating]:
        """Logits (batch x classes) of whole sequences, by the pruned pass where there is one."""
        if self.spreads:
            sequences = Ragged.of(sequences).spread(HIDDEN)
        if self.pruned is None:
            return super().logits(sequences)
        with torch.inference_mode(), memory_errors():
            return two_columns(self.pruned.logits(sequences).float()).cpu().numpy()

    def logits_from_embeddings(self, words: torch.Tensor) -> torch.Tensor:
        """Differentiable logits (batch x classes), by the pruned pass where there is one."""
        if self.pruned is None:
            return super().logits_from_embeddings(words)
        with memory_errors():
            return two_columns(self.pruned.logits_from_words(words.to(self._device)))

    def word_embeddings(self) -> nn.Module:
        """The model's table of words."""
        return self.module.get_input_embeddings()  # type: ignore[operator]

    def attended_logits(self, words: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Differentiable logits and each layer's attention maps, from a twin that computes them (SDPA does not)."""
        if self._eager is None:
            self._eager = twin(self.module)
            self._eager.set_attn_implementation("eager")  # type: ignore[operator]
        model: Any = self._eager
        inputs = {"inputs_embeds": words.to(self._device), "output_attentions": True}
        with memory_errors():
            out = model.base_model(use_cache=False, **inputs) if self.reads_last else model(**inputs)
        if not out.attentions:
            raise Unsupported(f"model {self.name} has no attention maps")
        logits = model.score(out[0][:, -1].to(model.score.weight.dtype)) if self.reads_last else out.logits
        return two_columns(logits), list(out.attentions)

    def attentions(self, sequence: Ints) -> NDArray[np.floating]:
        """Attention maps (layers x heads x length x length) of one sequence."""
        with torch.inference_mode():
            _, maps = self.attended_logits(self.embed(sequence)[None])
        return torch.stack([layer[0] for layer in maps]).float().cpu().numpy()

    def read_position(self, length: int) -> int:
        """The last position of a decoder, else the first."""
        return length - 1 if self.reads_last else 0
