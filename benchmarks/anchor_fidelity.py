"""Strict fidelity of slalom-anchor beside its rivals: mean squared error at k = 1..10 deletions, paired over reviews.

    SLALOM_BENCH_DATA=... python benchmarks/anchor_fidelity.py --model mini-bert --budget 1000 --samples 20

Below the table: by how much each rival's error exceeds slalom-anchor's, in paired standard errors. slalom-anchor is
best or tied at a k where no rival is below it by more than two of them.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from slalom_bench import registry
from slalom_bench.core.context import Context
from slalom_bench.core.options import ModelOptions
from slalom_bench.core.seeds import generator
from slalom_bench.core.types import Floats, Sample, TaskData
from slalom_bench.data.loading import data_directory, load_task
from slalom_bench.handle.classifier import Classifier
from slalom_bench.models.loading import load_model

RIVALS = ("linear-deletion", "slalom-fidel", "leave-one-out", "lime", "kernel-shap", "zero")
OURS = "slalom-anchor"
STEPS = range(1, 11)


def reviews(task: TaskData, handle: Classifier, count: int, shortest: int, longest: int) -> list[Sample]:
    """The first reviews of the evaluation order whose length is in range."""
    found: list[Sample] = []
    for example in task.evaluation:
        sample = handle.encode(example)
        if shortest <= len(sample) <= longest and not sample.truncated:
            found.append(sample)
        if len(found) == count:
            break
    return found


def measure(name: str, handle: Classifier, samples: list[Sample], context: Context, budget: int, masks: int) -> Floats:
    """Error at each k (samples x 10) of one explainer, and its seconds outside the model."""
    explainer = registry.explainers.get(name).build()
    metric = registry.metrics.get("strict-fidelity").build({"masks": masks})
    rows = []
    for sample in samples:
        with handle.work(budget) as cost:
            rng = generator(context.seed, "explain", sample.id)
            explanation = explainer.explain(handle, sample, budget, rng)
        score = metric.score(handle, sample, explanation, context)
        rows.append([*(score.values[f"k{k}"] for k in STEPS), cost.seconds - cost.model_seconds])
    return np.array(rows)


def report(errors: dict[str, Floats]) -> bool:
    """Print the table; whether slalom-anchor is best or tied at every k."""
    print(f"{'mean squared error':18s}" + "".join(f"{f'k={k}':>9s}" for k in STEPS) + "     mean  overhead s")
    for name, rows in errors.items():
        cells = "".join(f"{value:9.5f}" for value in [*rows[:, :10].mean(axis=0), rows[:, :10].mean()])
        print(f"{name:18s}{cells}{rows[:, 10].mean():12.3f}")
    print(f"{'excess / std. err.':18s}")
    tied = np.ones(10, np.bool_)
    for name in [name for name in errors if name != OURS]:
        excess = (errors[name] - errors[OURS])[:, :10]
        error = excess.std(axis=0, ddof=1) / np.sqrt(len(excess))
        ratio = np.where(np.abs(excess.mean(axis=0)) < 1e-12, 0.0, excess.mean(axis=0) / np.maximum(error, 1e-300))
        tied &= ratio > -2
        print(f"{name:18s}" + "".join(f"{value:9.1f}" for value in np.clip(ratio, -999, 999)))
    print(f"{OURS} best or tied at k = {[k for k, fine in zip(STEPS, tied, strict=True) if fine]}")
    return bool(tied.all())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="mini-bert")
    parser.add_argument("--budget", type=int, default=1000)
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--masks", type=int, default=50, help="random deletions for each k")
    parser.add_argument("--tokens", type=int, nargs=2, default=(150, 250), help="shortest and longest review")
    parser.add_argument("--explainers", nargs="*", default=list(RIVALS))
    parser.add_argument("--json", type=Path, help="also write the errors here")
    args = parser.parse_args()
    data = data_directory(None)
    task = load_task("imdb", data_dir=data)
    handle = Classifier(load_model(args.model, task, ModelOptions(data_dir=data, progress=False)))
    samples = reviews(task, handle, args.samples, *args.tokens)
    context = Context(task)
    print(f"{args.model}, b = {args.budget}, {len(samples)} IMDB reviews of {args.tokens[0]}-{args.tokens[1]} tokens")
    errors = {}
    for name in (OURS, *args.explainers):
        start = time.perf_counter()
        errors[name] = measure(name, handle, samples, context, args.budget, args.masks)
        print(f"  {name}: {time.perf_counter() - start:.0f} s", flush=True)
    report(errors)
    if args.json:
        args.json.write_text(json.dumps({name: rows.tolist() for name, rows in errors.items()}))


if __name__ == "__main__":
    main()
