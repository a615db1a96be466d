"""Transformers checkpoints as backends: safe loading from a directory or the hub, and saving without pickles."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from slalom_bench.backends.architectures import architecture_of
from slalom_bench.backends.torch_backend import HFBackend, TorchBackend, pick_device
from slalom_bench.core.json_text import parse_json
from slalom_bench.core.tokens import HFTokens, Tokens, WordTokens
from slalom_bench.errors import InvalidInput

if TYPE_CHECKING:
    from slalom_bench.core.options import ModelOptions

WORDS = "vocabulary.json"
"""The word list beside a checkpoint whose tokenizer is ours."""
BUFFERS = ("position_ids", "token_type_ids", "inv_freq", ".attn.bias", ".attn.masked_bias")
"""What older checkpoints saved although it follows from the configuration."""
MOST = {**dict.fromkeys(("num_hidden_layers", "num_layers", "n_layers", "n_layer"), 1000), "num_labels": 100_000}
"""How many of each a checkpoint may say it has: they are made one by one before any weight is looked at."""


@contextmanager
def quiet() -> Iterator[None]:
    """No bars and no advice from transformers: what matters of it is said in our own errors."""
    from transformers.utils import logging

    before, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()


def pick_dtype(name: str) -> torch.dtype:
    """A floating-point dtype by its name in torch."""
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise InvalidInput(f"unknown dtype {name!r}; one of float32, float16, bfloat16, float64")
    return dtype


def where(source: str | Path) -> str:
    """How messages name a checkpoint."""
    return f"directory {source}" if Path(source).is_dir() else f"{source} on the hub"


def load_tokens(source: str | Path, options: ModelOptions, revision: str | None = None) -> Tokens:
    """The tokenizer beside a checkpoint: a word list of ours, or a transformers fast tokenizer."""
    words = Path(source) / WORDS
    if words.is_file():
        try:
            saved = parse_json(words.read_text(encoding="utf-8"))
            return WordTokens(saved["words"], prefix=saved["prefix"], suffix=saved["suffix"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidInput(f"no usable words in {words}: {_first_line(error)}") from error
    from transformers import AutoTokenizer

    check_counts(source)
    names = ("tokenizer.json", "vocab.txt", "vocab.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model")
    if Path(source).is_dir() and not any((Path(source) / name).is_file() for name in names):
        raise InvalidInput(f"{where(source)} has no tokenizer; save the model's beside it (tokenizer.json)")
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            str(source), revision=revision, trust_remote_code=options.trust_remote_code
        )
    except Exception as error:  # tokenizers raise plain ones
        raise InvalidInput(f"no usable tokenizer in {where(source)}: {_first_line(error)}") from error
    return HFTokens(tokenizer)


def save_tokens(tokens: Tokens, directory: Path) -> None:
    """A tokenizer beside a checkpoint, as `load_tokens` finds it."""
    if isinstance(tokens, HFTokens):
        tokens.tokenizer.save_pretrained(directory)
        return
    if not isinstance(tokens, WordTokens):
        raise InvalidInput(f"{type(tokens).__name__} cannot be saved beside a model")
    ends = {"prefix": [tokens.strings[i] for i in tokens.prefix], "suffix": [tokens.strings[i] for i in tokens.suffix]}
    specials = {"[PAD]", "[UNK]", "[MASK]", *ends["prefix"], *ends["suffix"]}
    saved = {"words": [word for word in tokens.strings if word not in specials], **ends}
    (directory / WORDS).write_text(json.dumps(saved))


def save_backend(backend: TorchBackend, directory: Path) -> None:
    """Configuration, safetensors weights and tokenizer."""
    module: Any = backend.module
    with quiet():
        module.save_pretrained(directory)
    save_tokens(backend.tokens, directory)


def load_module(source: str | Path, options: ModelOptions, revision: str | None = None, **config: Any) -> Any:
    """A sequence classifier in evaluation mode; pickles, corrupt files and untrained heads are refused.

    `config` changes the configuration (depth, classes): only then may the head be new, to be trained.
    """
    import transformers as hf

    check_counts(source)
    placement: dict[str, Any] = {"device_map": options.device_map} if options.device_map else {}
    shared: dict[str, Any] = {"revision": revision, "trust_remote_code": options.trust_remote_code}
    try:
        with quiet():
            settings = hf.AutoConfig.from_pretrained(str(source), **shared, **config)
            architecture_of(settings).register()
            module, info = hf.AutoModelForSequenceClassification.from_pretrained(
                str(source),
                config=settings,
                dtype=pick_dtype(options.dtype),
                use_safetensors=True,
                output_loading_info=True,
                **shared,
                **placement,
            )
    except Exception as error:
        raise InvalidInput(_explain(source, error)) from error
    if info["missing_keys"] and not config:
        raise InvalidInput(
            f"{where(source)} is not a trained sequence classifier: the checkpoint has no "
            f"{', '.join(sorted(info['missing_keys'])[:3])}; fine-tune it first"
        )
    surplus = sorted(key for key in info["unexpected_keys"] if not key.endswith(BUFFERS))
    if surplus and not config:
        raise InvalidInput(
            f"{where(source)} has weights for which its config.json has no place: {', '.join(surplus[:3])}"
            f"{f' and {len(surplus) - 3} more' if len(surplus) > 3 else ''}; mend the configuration (its number of "
            "layers, say), or what is loaded is another model"
        )
    if not placement:
        module.to(pick_device(options.device))
    return module.eval()


def check_counts(source: str | Path) -> None:
    """Refuse a directory whose configuration would keep this machine busy; what else is wrong with it is said later."""
    try:
        said = parse_json((Path(source) / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    for name, most in MOST.items():
        if isinstance(said, dict) and isinstance(said.get(name), int) and said[name] > most:
            raise InvalidInput(f"{where(source)} has more than {most:,} {name}; mend its config.json")


def load_backend(source: str | Path, name: str, options: ModelOptions, revision: str | None = None) -> HFBackend:
    """A checkpoint and its tokenizer; the classes are those of its configuration."""
    tokens = load_tokens(source, options, revision)
    module = load_module(source, options, revision)
    return HFBackend(module, tokens, name=name, class_names=class_names(module.config))


def class_names(config: Any) -> tuple[str, ...]:
    """One name a class from `id2label`; a one-logit model has the classes 0 and 1."""
    labels = {int(key): str(value) for key, value in (config.id2label or {}).items()}
    if config.num_labels == 1:
        return (f"not {labels.get(0, '1')}", labels.get(0, "1"))
    return tuple(labels.get(i, f"class {i}") for i in range(config.num_labels))


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {(str(error).strip() or 'no message').splitlines()[0][:200]}"


def _explain(source: str | Path, error: Exception) -> str:
    """Why a checkpoint did not load, with the remedy for the usual causes."""
    text = str(error)
    directory = Path(source)
    if type(error).__name__ == "SafetensorError":
        return f"the weights in {where(source)} are corrupt ({_first_line(error)}); download or save them again"
    pickled = directory.is_dir() and any(directory.glob("*.bin")) and not any(directory.glob("*.safetensors"))
    if pickled or "does not appear to have a file named model.safetensors" in text:
        return (
            f"{where(source)} has no safetensors weights, and pickled ones are never loaded because they can run code; "
            "convert them with save_pretrained(..., safe_serialization=True)"
        )
    if "Unrecognized configuration class" in text:
        return f"{where(source)} is not a sequence classifier that transformers knows: {_first_line(error)}"
    if "accelerate" in text:
        return f"a device map needs the package accelerate (pip install accelerate): {_first_line(error)}"
    if "trust_remote_code" in text:
        return f"{where(source)} needs code of its own to run; it is only loaded with trust_remote_code"
    return f"cannot load {where(source)}: {_first_line(error)}"
