"""`slalom-bench global`: one value and one importance for every word of a task's texts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def global_command(
    task: Annotated[str, typer.Option(help="NAME[:key=value,...] or text:FILE.")],
    model: Annotated[str, typer.Option(help="NAME[:key=value,...] or hf:DIR_OR_ID.")] = "mini-bert",
    samples: Annotated[int, typer.Option(min=1, help="Texts whose words are fitted.")] = 200,
    budget: Annotated[int, typer.Option(min=1, help="Model queries in all.")] = 5000,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="Cut texts to so many content tokens; whole unless given.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Words shown, the ones whose value weighs most.")] = 20,
    target: Annotated[
        str | None,
        typer.Option(help="The class to explain, by name or number; else class 1 of two, of more it must be given."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the queries.")] = 0,
    out: Annotated[Path | None, typer.Option(help="A CSV file for all words; none unless given.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N, mps or auto.")] = "auto",
    data_dir: Annotated[Path | None, typer.Option(help="Folder with the data; else SLALOM_BENCH_DATA.")] = None,
) -> None:
    """Fit one SLALOM to a model over many texts, and show every word's value and importance (Fig. 4).

    Queries keep a random number of a random text's tokens, in order. The fit's error is the mean square of what is left
    of the log-odds; where it is large, one value and importance a word do not describe the model.

    Examples:

      slalom-bench global --task synthetic-slalom --model slalom-transformer

      slalom-bench global --task imdb --model mini-bert --samples 100 --max-tokens 64 --out words.csv
    """
    import numpy as np
    import pandas as pd
    from tabulate import tabulate

    from slalom_bench.core.options import ModelOptions
    from slalom_bench.core.references import Ref
    from slalom_bench.core.safe_text import line
    from slalom_bench.core.seeds import generator
    from slalom_bench.errors import InvalidInput
    from slalom_bench.numerics.global_slalom import fit_global
    from slalom_bench.running.loading import Loader
    from slalom_bench.running.progress import Reporter

    loader = Loader(ModelOptions(device=device, data_dir=data_dir), Reporter(show=True))
    subject = loader.model(str(Ref.parse(task)), model, "delete", target)
    names = subject.classifier.class_names
    if target is None and len(names) > 2:
        raise InvalidInput(
            f"{model} tells {len(names)} classes apart; give one of them as --target: {', '.join(names)}"
        )
    classifier = subject.classifier.targeting(1 if target is None else subject.classifier.class_number(target))
    texts = [subject.sample(example, max_tokens) for example in subject.task.data.evaluation[:samples]]
    found = fit_global(classifier, [text for text in texts if len(text)], budget, generator(seed, "global"))
    frame = pd.DataFrame(
        {
            "word": [line(word.strip()) for word in classifier.tokens.words(found.ids)],
            "value": found.value,
            "importance": found.importance,
        }
    )
    # by exp(importance) times the size of the value
    frame = frame.iloc[np.argsort(-found.importance - np.log(np.abs(found.value) + 1e-300), kind="stable")]
    if out is not None:
        frame.to_csv(out, index=False)
    typer.echo(tabulate(frame.head(top).values.tolist(), ["word", "value", "importance"], "simple", floatfmt=".3f"))
    typer.echo(f"{len(frame)} words, {budget} queries; mean squared error of the fit {found.fit.mse:.4g}")
    if out is not None:
        typer.echo(f"all words: {out}")
