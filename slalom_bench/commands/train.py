"""`slalom-bench train`: fine-tune or train a classifier for a task and keep it in the cache."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def train_command(
    model: Annotated[str, typer.Option(help="A trainable model, e.g. mini-bert, bert or bert:source=DIR.")],
    task: Annotated[str, typer.Option(help="The task whose training texts are used.")] = "imdb",
    layers: Annotated[int | None, typer.Option(help="Depth; the paper's for the task unless given.")] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Passes over the training texts; the recipe's unless given.")
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Peak rate of AdamW; the recipe's unless given.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Texts per step; the recipe's unless given.")] = None,
    max_tokens: Annotated[
        int | None, typer.Option(help="Content tokens of a text that are read; the recipe's unless given.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Of the start, the order of texts and dropout; the recipe's unless given.")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where data and models lie; else SLALOM_BENCH_DATA.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N, mps or auto.")] = "auto",
    test_samples: Annotated[int, typer.Option(help="Evaluation texts for the test accuracy; 0 means all.")] = 2000,
    out: Annotated[Path | None, typer.Option(help="Also write the model to this directory.")] = None,
    out_dtype: Annotated[str, typer.Option(help="The dtype of the weights in --out.")] = "float32",
) -> None:
    """Train a classifier for a task; `run` then finds it in the cache (SLALOM_BENCH_CACHE).

    Its state is saved every minute: a killed training goes on from there when the same command is given again.

    Examples:

      slalom-bench train --task imdb --model mini-bert

      slalom-bench train --task yelp-hat --model bert --layers 6 --epochs 2
    """
    from slalom_bench import registry
    from slalom_bench.core.options import ModelOptions
    from slalom_bench.core.references import Ref
    from slalom_bench.data.loading import data_directory, load_task
    from slalom_bench.errors import InvalidInput
    from slalom_bench.models.base import TrainedModel

    wanted, ref = Ref.parse(task), Ref.parse(model)
    given: dict[str, Any] = {
        "layers": layers,
        "epochs": epochs,
        "learning_rate": learning_rate,
        "batch_size": batch_size,
        "max_tokens": max_tokens,
        "seed": seed,
    }
    params = {**ref.params, **{key: value for key, value in given.items() if value is not None}}
    entry = registry.models.get(ref.name)
    factory = entry.factory
    if isinstance(factory, type) and issubclass(factory, TrainedModel) and factory.ships_weights:
        params["weights"] = "trained"
    built = entry.build(params)
    if not isinstance(built, TrainedModel):
        raise InvalidInput(f"model {ref.name} is not one that is trained")
    options = ModelOptions(device=device, data_dir=data_directory(data_dir))
    data = load_task(wanted.spec, wanted.params, options.data_dir)
    typer.echo(f"data: {data.source.kind} {data.source.name}, content {data.source.content_hash[:12]}")
    directory = built.train(data, options, test_samples)
    record = built.record(directory)
    typer.echo(f"validation accuracy {record['validation']['accuracy']:.4f} on {record['validation']['texts']} texts")
    test = record["test"]
    if test["texts"]:
        typer.echo(f"test accuracy {test['accuracy']:.4f} on {test['texts']} texts of {test['source']}")
    typer.echo(f"trained in {record['seconds'] / 60:.1f} minutes; cached as {directory.name}")
    typer.echo(f"use it as: --model {Ref(ref.name, ref.argument, params)}")
    if out is not None:
        built.export(directory, out, data, options, out_dtype)
        typer.echo(f"written to {out}")
