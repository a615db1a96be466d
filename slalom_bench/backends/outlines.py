"""What a checkpoint says of itself without its weights: configuration and tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slalom_bench.backends.architectures import architecture_of
from slalom_bench.backends.hf_files import check_counts, load_tokens, quiet, where
from slalom_bench.core.options import ModelOptions, Outline
from slalom_bench.errors import InvalidInput


def checkpoint_outline(source: str | Path, options: ModelOptions, revision: str | None = None) -> Outline:
    """The outline of a checkpoint's directory or hub id; no weights are looked for."""
    from transformers import AutoConfig

    check_counts(source)
    try:
        with quiet():
            config: Any = AutoConfig.from_pretrained(
                str(source), revision=revision, trust_remote_code=options.trust_remote_code
            )
    except Exception as error:
        first = (str(error).strip() or "no message").splitlines()[0][:200]
        raise InvalidInput(f"no usable configuration in {where(source)}: {type(error).__name__}: {first}") from error
    tokens = load_tokens(source, options, revision)
    architecture = architecture_of(config)
    return Outline(architecture.capabilities(config), tokens, architecture.max_length(config))
