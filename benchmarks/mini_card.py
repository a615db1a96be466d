"""The card of a shipped mini: what `train --out` wrote, measured as shipped, in card.json and README.md beside it.

    slalom-bench train --task imdb --model mini-bert --out slalom_bench/models/mini/mini-bert --out-dtype float16
    python benchmarks/mini_card.py slalom_bench/models/mini/mini-bert

The card takes the place of training.json. Needs both official splits of IMDB in SLALOM_BENCH_DATA.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from slalom_bench.backends.hf_files import load_backend
from slalom_bench.core.context import Context
from slalom_bench.core.options import ModelOptions
from slalom_bench.core.types import Explanation, TaskData
from slalom_bench.data.loading import data_directory, load_task
from slalom_bench.data.splits import is_held_out
from slalom_bench.handle.classifier import Classifier
from slalom_bench.metrics.position_shift import PositionShift
from slalom_bench.models.training import evaluate, labelled

SHIFT_TEXTS = 20
DATA = (
    "Large Movie Review Dataset (Maas et al. 2011), research use; cite Maas et al. 2011, Learning Word Vectors for "
    "Sentiment Analysis, ACL. No review is part of these files; the vocabulary was learned from the training reviews."
)
RULE = (
    "official training reviews whose normalised text hash is not 0 modulo 5 (slalom_bench.data.splits.is_held_out); "
    "these weights were fitted to neither the official test reviews nor the held-out ones"
)


def accuracies(backend: Any, task: TaskData, test: int) -> dict[str, float]:
    """On the official test reviews, and on those that the hash split holds out of the training ones."""
    held_out = [example for example in task.train if is_held_out(example.text)]
    asked = {
        "official test, 256 tokens": (task.evaluation[: test or None], 256),
        "held out of the official training split, 256 tokens": (held_out, 256),
        "5,000 of the official test, 510 tokens": (task.evaluation[:5000], 510),
    }
    return {
        name: round(evaluate(backend, labelled(backend.tokens, list(examples), limit))[0], 4)
        for name, (examples, limit) in asked.items()
    }


def position_shift(backend: Any, task: TaskData) -> dict[str, Any]:
    """Metric `position-shift` on the first evaluation texts, cut at 256 tokens."""
    classifier, context = Classifier(backend), Context(task)
    shares = []
    for example in task.evaluation[:SHIFT_TEXTS]:
        sample = classifier.encode(example, 256)
        nothing = Explanation({"x": np.zeros(len(sample))}, "x", 1)
        shares.append(PositionShift().score(classifier, sample, nothing, context).values.get("shift"))
    found = [share for share in shares if share is not None]
    return {
        "share of the mean square change under deletion, 256 tokens": round(float(np.mean(found)), 4),
        "median": round(float(np.median(found)), 4),
        "largest": round(float(np.max(found)), 4),
        "texts": len(found),
        "how": f"metric position-shift on the first {SHIFT_TEXTS} evaluation texts of task imdb",
    }


def card(directory: Path, test: int, machine: str) -> dict[str, Any]:
    """Everything a reader needs to know of the weights in a directory."""
    record = json.loads((directory / "training.json").read_text())
    config = json.loads((directory / "config.json").read_text())
    identity, name = record["identity"], record["identity"]["model"]
    options = ModelOptions(device="cpu", data_dir=data_directory(None))
    task = load_task("imdb", {}, options.data_dir)
    backend = load_backend(directory, name, options)
    seed = identity["recipe"]["seed"]
    return {
        "model": name,
        "version": identity["version"],
        "architecture": config["architectures"][0],
        "layers": identity["start"]["layers"],
        "width": identity["start"]["width"],
        "vocabulary": config["vocab_size"],
        "parameters": sum(parameter.numel() for parameter in backend.module.parameters()),
        "command": f"slalom-bench train --task imdb --model {name} --out slalom_bench/models/mini/{name} "
        "--out-dtype float16" + (f" --seed {seed}" if seed else ""),
        "seed": seed,
        "recipe": identity["recipe"],
        "split": {
            "rule": RULE,
            "training content sha256": identity["content"],
            "texts": sum(not is_held_out(example.text) for example in task.train),
            "of these for choosing the epoch": record["validation"]["texts"],
            "held out": sum(is_held_out(example.text) for example in task.train),
        },
        "accuracy": accuracies(backend, task, test),
        "test texts": f"{len(task.evaluation[: test or None]):,} official test reviews that the task keeps",
        "position shift": position_shift(backend, task),
        "validation accuracy": round(record["validation"]["accuracy"], 4),
        "best epoch": record["validation"]["epoch"],
        "training seconds": round(record["seconds"]),
        "machine": machine,
        "weights sha256": hashlib.sha256((directory / "model.safetensors").read_bytes()).hexdigest(),
        "data": DATA,
        "licence": "MIT for the weights, as the package",
        "history": record["history"],
    }


def readme(said: dict[str, Any]) -> str:
    """The card in words."""
    recipe, split, shift = said["recipe"], said["split"], said["position shift"]
    figures = "\n".join(f"| {name} | {value:.4f} |" for name, value in said["accuracy"].items())
    share, chosen = shift["share of the mean square change under deletion, 256 tokens"], said["validation accuracy"]
    parts = [
        f"# {said['model']}",
        f"A {said['architecture']} of {said['layers']} layers, {said['width']} wide, {said['parameters']:,} "
        f"parameters, with a lower-case vocabulary\nof {said['vocabulary']:,} of its own, trained from scratch on IMDB "
        "reviews. Weights in fp16, computed in float32.",
        f"| reviews | accuracy |\n|---|---|\n{figures}",
        "Made by, from the full data set in the data directory:",
        f"    {said['command']}",
        f"Seed {said['seed']}; {split['texts']:,} official training reviews (those that the hash split does not hold "
        f"out), {split['of these for choosing the epoch']} of them for choosing\nthe epoch (kept: {said['best epoch']} "
        f"of {recipe['epochs']}, validation accuracy {chosen:.4f}; it shares films with the training reviews and is\n"
        f"optimistic). These weights were fitted to neither the official test reviews nor the {split['held out']:,} "
        f"held-out ones.\nTested on {said['test texts']}. Training took {said['training seconds'] / 60:.0f} minutes\n"
        f"({said['machine']}).",
        said["recipe choice"],
        f"Positions: {said['positions']}\nPosition shift (metric `position-shift`, {shift['texts']} texts, 256 tokens) "
        f"{share:.4f} on average, median {shift['median']:.4f}, largest {shift['largest']:.4f}.",
        "All hyper-parameters and the course of the training: `card.json`.",
        f"Data: {said['data']}\nLicence of the weights: MIT, as the package. Not meant for anything but benchmarking "
        "explanations.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def main() -> None:
    """Write the card of one directory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--test", type=int, default=0, help="official test reviews; 0 means all")
    parser.add_argument("--machine", default="one thread of two shared CPU cores, float32; other work ran beside it")
    parser.add_argument("--choice", default="", help="how the recipe was chosen")
    parser.add_argument("--positions", default="", help="what was done about positions")
    given = parser.parse_args()
    said = card(given.directory, given.test, given.machine)
    said |= {"recipe choice": given.choice, "positions": given.positions}
    (given.directory / "card.json").write_text(json.dumps(said, indent=2) + "\n")
    (given.directory / "README.md").write_text(readme(said))
    (given.directory / "training.json").unlink()


if __name__ == "__main__":
    main()
