"""Which surrogate foretells removals best: normalised error by law, budget, removal rule and model, paired over texts.

    SLALOM_BENCH_DATA=... python benchmarks/surrogates.py measure --state rows.jsonl --models mini-bert mini-gpt2
    python benchmarks/surrogates.py write --state rows.jsonl    # benchmarks/surrogates.csv, figures, tables to stdout

`measure` appends a line for each text, model, rule, budget and method, and goes on where it stopped, on another machine
from `surrogates.jsonl.gz`, in which `write` keeps every line; texts are the outermost loop, so that every cell has as
many. Lines are of the model's weights and of the explainer's version: those of others count as not there.
Errors are those of the metrics `fidelity-LAW`. `write` compares slalom-anchor with each rival by the project's own
statistics, on the log scale, and prints every cell where it is not the best or not significantly so.

Each line also says what a method's error is made of. The parts of what slalom-anchor's surrogate predicts at the
largest budget (single effects, position shifts, bend, interactions) are projected out of the method's errors one after
the other; what each takes away is what the method misses of it. Wrong single effects: sampling noise, or another law.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import math
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from slalom_bench import registry
from slalom_bench.core.context import Context
from slalom_bench.core.options import ModelOptions
from slalom_bench.core.references import Ref
from slalom_bench.core.types import Bools, Floats, Sample
from slalom_bench.data.loading import data_directory, load_task
from slalom_bench.errors import InvalidInput
from slalom_bench.handle.classifier import Classifier
from slalom_bench.models.loading import load_model
from slalom_bench.results.separation import all_pairs
from slalom_bench.running.explaining import explain_sample
from slalom_bench.surrogates.mask_process import MaskProcess

HERE = Path(__file__).parent
KEPT = HERE / "surrogates.jsonl.gz"
OURS, LIKE = "slalom-anchor", "slalom-anchor:law=mixed"
METHODS = (
    OURS,
    LIKE,
    "pairwise-deletion:law=mixed",
    "linear-deletion:law=mixed",
    "slalom-fidel:law=mixed",
    "proxy-spex:law=mixed",
    "lime",
    "kernel-shap",
)
LAWS = ("few", "many", "spans", "sentences", "top")
PARTS = {"single": ("gone", "hint"), "shift": ("shift",), "bend": ("curve", "slalom"), "interaction": ("rest",)}
RULES = {"mini-gpt2": ("delete", "gap")}
ACROSS = 5
"""Panels in a row of a figure."""
NINETY = 1.645
"""Standard deviations to either side that hold 90 % of a normal law."""
Row = dict[str, Any]
KEY = ("model", "weights", "rule", "text")
"""What the lines of a text have in common."""


def texts(handle: Classifier, examples: Any, count: int, shortest: int, longest: int) -> list[Sample]:
    """The first texts of the evaluation order whose length is in range and that have two sentences."""
    law, found = registry.laws.build("sentences"), []
    for example in examples:
        sample = handle.encode(example)
        if shortest <= len(sample) <= longest and not sample.truncated and law.undefined(sample) is None:
            found.append(sample)
        if len(found) == count:
            break
    return found


def measured(state: Path) -> list[Row]:
    """The lines of a state, or where there is none of what is kept; of one that was cut off nothing."""
    if not state.exists() and KEPT.exists():
        state.write_bytes(gzip.decompress(KEPT.read_bytes()))
    text = state.read_text() if state.exists() else ""
    return current(text[: text.rfind("\n") + 1])


def current(lines: str) -> list[Row]:
    """Lines of the present versions and of the weights that a model was last measured with; numbers to five digits."""
    rows = [json.loads(line, parse_float=lambda x: float(f"{float(x):.5g}")) for line in lines.splitlines()]
    weights = {row["model"]: row["weights"] for row in rows}
    return [row for row in rows if row["version"] == version(row["method"]) and row["weights"] == weights[row["model"]]]


def version(method: str) -> int:
    """Of an explainer that is given as on the command line."""
    return registry.explainers.get(Ref.parse(method).name).version


def place(row: Row) -> tuple[Any, ...]:
    """What was measured, whatever came out."""
    return tuple(row[name] for name in (*KEY, "budget", "method"))


def budget_of(name: str, n: int) -> int:
    """`n/2` and `n` in tokens of the text, or a number."""
    return {"n/2": n // 2, "n": n}.get(name) or int(name)


def missed(errors: Floats, parts: dict[str, Floats]) -> dict[str, float]:
    """What projecting each part out of the errors takes away of their mean square, in order, and what is left."""
    out, rest, basis = {}, errors, np.zeros((len(errors), 0))
    for name, column in parts.items():
        if column.any():
            basis = np.hstack([basis, column[:, None]])
        left = errors - basis @ np.linalg.lstsq(basis, errors, rcond=None)[0] if basis.size else rest
        out[name] = float(np.mean(rest**2) - np.mean(left**2))
        rest = left
    return out | {"left": float(np.mean(rest**2))}


def parts_of(process: MaskProcess, keep: Bools) -> dict[str, Floats]:
    """What each part of the process predicts of keep-masks (m)."""
    whole = process.predict(keep)
    out = {}
    for name, kernels in PARTS.items():
        less = process
        for kernel in kernels:
            less = less.without(kernel)
        out[name] = whole - less.predict(keep)
    return out


def held(process: MaskProcess, keep: Bools, observed: Floats, counts: list[int]) -> dict[str, float]:
    """By law, the share of the observed changes (m) that the process's intervals of 90 % hold."""
    inside = np.abs(process.predict(keep) - process.full - observed) < NINETY * process.predict_std(keep)
    parts = np.split(inside, np.cumsum(counts)[:-1])
    return {law: float(part.mean()) for law, part in zip(LAWS, parts, strict=True)}


def of_text(
    handle: Classifier, sample: Sample, context: Context, budgets: list[str], methods: list[str], done: set[Any]
) -> Iterator[Row]:
    """One row a budget and method that is not done yet."""
    if all((budget, name) in done for budget in budgets for name in methods):
        return
    drawn, effects = [], None
    for name in LAWS:
        law = registry.laws.build(name)
        if law.ranked:
            n = len(sample)
            answers = handle.masked_log_odds(sample, np.vstack([np.ones((1, n), np.bool_), ~np.eye(n, dtype=np.bool_)]))
            effects = np.abs(answers[1:] - answers[0])
        drawn.append(law.draw(sample, 60, context.rng("parts", name, sample.id), effects))
    keep = np.vstack(drawn)
    full = handle.masked_log_odds(sample, np.ones((1, len(sample)), np.bool_))[0]
    observed = handle.masked_log_odds(sample, keep) - full
    parts: dict[str, Floats] | None = None
    for budget in sorted(budgets, key=lambda b: -budget_of(b, len(sample))):
        size = budget_of(budget, len(sample))
        for name in methods:
            if (budget, name) in done and not (parts is None and name == OURS):
                continue
            outcome = explain_sample(registry.explainers.build(name), handle, sample, budget=size, seed=context.seed)
            if outcome.explanation is None:
                print(f"  {name} at {size}: {outcome.error}", flush=True)
                yield {"budget": budget, "method": name, "version": version(name), "error": str(outcome.error)}
                continue
            surrogate = outcome.explanation.surrogate
            if surrogate is None:
                raise InvalidInput(f"{name} has no surrogate")
            if parts is None and isinstance(surrogate, MaskProcess):
                parts = parts_of(surrogate, keep)
            if (budget, name) in done:
                continue
            row: Row = {"budget": budget, "method": name, "version": version(name), "tokens": len(sample)}
            row["seconds"] = round(outcome.cost.seconds - outcome.cost.model_seconds, 4)
            for law_name in LAWS:
                metric = registry.metrics.build(f"fidelity-{law_name}")
                score = metric.score(handle, sample, outcome.explanation, context)
                row[law_name] = score.values.get("normalised")
                row[f"{law_name} raw"] = score.values.get("raw")
            if isinstance(surrogate, MaskProcess):
                row["held"] = held(surrogate, keep, observed, [len(part) for part in drawn])
            predicted = surrogate.predict(np.vstack([np.ones((1, len(sample)), np.bool_), keep]))
            row["missed"] = missed(observed - predicted[1:] + predicted[0], parts or {})
            row["square"] = float(np.mean(observed**2))
            yield row


def measure(args: argparse.Namespace) -> None:
    """Append what is not there yet."""
    data = data_directory(None)
    task = load_task("imdb", data_dir=data)
    there: dict[Any, set[Any]] = defaultdict(set)
    for row in measured(args.state):
        there[tuple(row[name] for name in KEY)].add((row["budget"], row["method"]))
    if args.state.exists() and not (text := args.state.read_text()).endswith("\n"):
        args.state.write_text(text[: text.rfind("\n") + 1])  # the last line was cut off
    handles = {
        name: Classifier(load_model(name, task, ModelOptions(data_dir=data, progress=False))) for name in args.models
    }
    chosen = {
        name: texts(h, task.evaluation, args.skip + args.texts, *args.tokens)[args.skip :]
        for name, h in handles.items()
    }
    for number in range(args.texts):
        for name, base in handles.items():
            if number >= len(chosen[name]):
                continue
            sample = chosen[name][number]
            for rule in [
                r for r in args.removals if r in RULES.get(name.rpartition("/")[2], ("delete", "gap", "mask"))
            ]:
                handle = base.under(registry.removals.build(rule))
                model = "minilm-6" if "minilm-6" in name else name
                key = {"model": model, "weights": base.identity()[:12], "rule": rule, "text": sample.id}
                for row in of_text(
                    handle, sample, Context(task), args.budgets, args.methods, there[tuple(key.values())]
                ):
                    with args.state.open("a") as file:
                        file.write(json.dumps(key | row) + "\n")
                print(number + 1, name, rule, sample.id, flush=True)


def cells(rows: list[Row]) -> dict[tuple[str, str, str, str], dict[str, dict[str, float]]]:
    """(model, rule, budget, law) -> method -> text -> normalised error; errors that are exactly 0 do not come up."""
    out: dict[tuple[str, str, str, str], dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        for law in LAWS:
            if row.get(law):
                out[row["model"], row["rule"], row["budget"], law][row["method"]][row["text"]] = row[law]
    return out


def summary(rows: list[Row]) -> list[Row]:
    """A line a cell and method: texts, geometric mean, how many times slalom-anchor's it is, and adjusted p of both.

    Paired over the texts that every method has. A method with less than four fifths of slalom-anchor's texts is set
    beside it on those, without a p. `like` is the same against slalom-anchor on the masks of the others.
    """
    out = []
    for (model, rule, budget, law), methods in cells(rows).items():
        present = [name for name in METHODS if methods.get(name)]
        if OURS not in present or LIKE not in present:
            continue
        names = [name for name in present if len(methods[name]) >= 0.8 * len(methods[OURS])]
        shared = sorted(set.intersection(*(set(methods[name]) for name in names)))
        logs = np.log([[methods[name][text] for name in names] for text in shared])
        ours = {"ours": names.index(OURS), "like": names.index(LIKE)}
        rivals = [i for i in range(len(names)) if i not in ours.values()]
        tests = {label: all_pairs(logs, among=[(one, i) for i in rivals]) for label, one in ours.items()}
        for name in present:
            common = shared if name in names else sorted(set(methods[name]) & set(methods[OURS]) & set(methods[LIKE]))
            if not common:
                continue
            level = {n: np.mean(np.log([methods[n][text] for text in common])) for n in (name, OURS, LIKE)}
            line: Row = {"model": model, "removal": rule, "budget": budget, "law": law, "method": name}
            line |= {"texts": len(common), "error": f"{math.exp(level[name]):.4g}"}
            for label, one in ours.items():
                i = names.index(name) if name in names else -1
                p = tests[label].p
                line[f"over_{label}"] = f"{math.exp(level[name] - level[names[one]]):.3g}"
                line[f"p_{label}_better"] = f"{p[one, i]:.2g}" if i in rivals else ""
                line[f"p_{label}_worse"] = f"{p[i, one]:.2g}" if i in rivals else ""
            out.append(line)
    return out


def not_reached(lines: list[Row], label: str) -> list[str]:
    """Cells where a rival is not significantly worse than slalom-anchor, with the nearest rival."""
    found: dict[Any, list[Row]] = defaultdict(list)
    for line in lines:
        if line[f"p_{label}_better"]:
            found[line["model"], line["removal"], line["budget"], line["law"]].append(line)
    out = []
    for cell, rivals in found.items():
        open_ = [r for r in rivals if float(r[f"p_{label}_better"]) > 0.05]
        if open_:
            near = min(open_, key=lambda r: float(r[f"over_{label}"]))
            times, p = float(near[f"over_{label}"]), near[f"p_{label}_better"]
            word = "ahead" if times < 1 else "not told apart"
            if float(near[f"p_{label}_worse"]) <= 0.05:
                word = "significantly ahead"
            out.append(
                f"{' '.join(cell)}: {near['method']} {word}, {times:.2f} times the error (p {p}, {near['texts']} texts)"
            )
    return out


def write(args: argparse.Namespace) -> None:
    """The summary as CSV, the cells that are not reached, and both figures."""
    every = measured(args.state)
    kept = current(gzip.decompress(KEPT.read_bytes()).decode()) if KEPT.exists() else []
    if lacking := {place(row) for row in kept} - {place(row) for row in every}:
        raise InvalidInput(
            f"{args.state} lacks {len(lacking)} measurements of {KEPT.name}: begin with one that is not there"
        )
    rows = [row for row in every if "error" not in row]
    print(f"{len(every) - len(rows)} of {len(every)} explanations failed")
    lines = summary(rows)
    if not lines:
        raise InvalidInput(f"{args.state} has no text that slalom-anchor and {LIKE} have both explained: measure first")
    KEPT.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in every).encode(), mtime=0))
    with (HERE / "surrogates.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(lines)
    counted = {(r["model"], r["removal"], r["budget"], r["law"]) for r in lines}
    for label in ("ours", "like"):
        found = not_reached(lines, label)
        print(f"\n{label}: best and significantly so in {len(counted) - len(found)} of {len(counted)} cells; not in")
        print("\n".join(f"- {line}" for line in found))
    table_of_means(lines)
    for name in (OURS, LIKE):
        print("\n" + worse_than_no_change(rows, name) + "\n")
        table_of_coverage(rows, name)
    pictures(lines, rows)


def table_of_means(lines: list[Row]) -> None:
    """Geometric mean over laws of the geometric means over texts, in Markdown."""
    values: dict[Any, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        values[line["model"], line["removal"], line["budget"]][line["method"]].append(math.log(float(line["error"])))
    names = [name for name in METHODS if any(methods.get(name) for methods in values.values())]
    print("\n| model, rule, budget | " + " | ".join(names) + " |\n|---|" + "---|" * len(names))
    for cell in sorted(values, key=lambda cell: (*cell[:2], budget_of(cell[2], 60))):
        methods = values[cell]
        means = [f"{math.exp(np.mean(methods[name])):.3f}" if methods.get(name) else "" for name in names]
        print(f"| {', '.join(cell)} | " + " | ".join(means) + " |")


def worse_than_no_change(rows: list[Row], name: str) -> str:
    """How many pairs of a text and a law have an error above 1, and how little changes in those."""
    pairs = np.array([(r[law], r[f"{law} raw"]) for r in rows if r["method"] == name for law in LAWS if r.get(law)])
    error, missed = pairs[:, 0], np.sqrt(pairs[:, 1])
    change, worse = missed / np.sqrt(error), error > 1
    if not worse.any():
        return f"{name}: no error above 1 in {len(pairs)} pairs of text and law"
    return (
        f"{name}: error above 1 in {worse.sum()} of {len(pairs)} pairs of text and law. Root mean squares in log-odds, "
        f"medians: change {np.median(change[worse]):.3f} (elsewhere {np.median(change[~worse]):.2f}), below 0.15 in "
        f"{(change[worse] < 0.15).sum()}; what is missed {np.median(missed[worse]):.3f} (elsewhere "
        f"{np.median(missed[~worse]):.3f}), at most {missed[worse].max():.2f}"
    )


def table_of_coverage(rows: list[Row], name: str) -> None:
    """The share of observed changes that intervals of 90 % hold, mean over texts, rules and models, in Markdown."""
    print(f"| {name} | " + " | ".join(LAWS) + " |\n|---|" + "---|" * len(LAWS))
    mine = [r for r in rows if r["method"] == name and "held" in r]
    for budget in sorted({r["budget"] for r in mine}, key=lambda b: budget_of(b, 60)):
        parts = [[r["held"][law] for r in mine if r["budget"] == budget and law in r["held"]] for law in LAWS]
        print(f"| {budget} | " + " | ".join(f"{np.mean(part):.2f}" for part in parts) + " |")


def pictures(lines: list[Row], rows: list[Row]) -> None:
    """What errors are made of, and error against budget at one law, into docs/pictures."""
    import matplotlib

    matplotlib.use("Agg")
    folder = HERE.parent / "docs" / "pictures"
    folder.mkdir(exist_ok=True)
    kinds = sorted({(line["model"], line["removal"]) for line in lines})
    names = [name for name in METHODS if any(line["method"] == name for line in lines)]
    labels = {"single": "single effects (sampling)", "shift": "position shift", "bend": "curvature",
              "interaction": "interaction", "left": "not explained"}  # fmt: skip
    fig, axes = panels(len(kinds), 3.1, 3.3)
    for number, (axis, (model, rule)) in enumerate(zip(axes, kinds, strict=False)):
        here = [r for r in rows if (r["model"], r["rule"], r["budget"]) == (model, rule, args_budget(rows, model))]
        left = np.zeros(len(names))
        for part, label in labels.items():
            shares = [_pooled([r for r in here if r["method"] == name], part) for name in names]
            axis.barh(range(len(names)), shares, left=left, label=label)
            left = left + np.array(shares)
        axis.set(title=f"{model}, {rule}", xlim=(0, 0.3), xlabel="share of the mean square change")
        axis.set_yticks(range(len(names)), names if number % ACROSS == 0 else [""] * len(names))
        axis.invert_yaxis()
    _finish(fig, axes[0], folder / "surrogate-parts.png")
    fig, axes = panels(len(kinds), 2.8, 2.9, sharey=True)
    for axis, (model, rule) in zip(axes, kinds, strict=False):
        for name in (OURS, LIKE, "pairwise-deletion:law=mixed", "proxy-spex:law=mixed"):
            points: dict[float, list[float]] = defaultdict(list)
            for line in lines:
                if (line["model"], line["removal"], line["method"]) == (model, rule, name):
                    tokens = {"n/2": 30.0, "n": 60.0}.get(line["budget"]) or float(line["budget"])
                    points[tokens].append(math.log(float(line["error"])))
            budgets = sorted(points)
            axis.plot(budgets, [math.exp(np.mean(points[b])) for b in budgets], marker="o", ms=3, label=name)
        axis.axhline(1, color="grey", lw=0.7)
        axis.set(title=f"{model}, {rule}", xscale="log", yscale="log", xlabel="budget")
    axes[0].set_ylabel("normalised error")
    _finish(fig, axes[0], folder / "surrogate-budgets.png")


def panels(count: int, width: float, height: float, **options: Any) -> tuple[Any, list[Any]]:
    """A figure and as many panels as asked for, at most `ACROSS` in a row; those left over are hidden."""
    from matplotlib import pyplot as plt

    down = -(-count // ACROSS)
    across = min(count, ACROSS)
    fig, axes = plt.subplots(down, across, figsize=(width * across, height * down + 0.4), squeeze=False, **options)
    for axis in axes.flat[count:]:
        axis.set_visible(False)
    return fig, list(axes.flat[:count])


def _finish(fig: Any, first: Any, file: Path) -> None:
    """One legend below all panels, and the file."""
    height = fig.get_size_inches()[1]
    fig.legend(*first.get_legend_handles_labels(), loc="lower center", ncols=5, frameon=False)
    fig.tight_layout(rect=(0, 0.35 / height, 1, 1))
    fig.savefig(file, dpi=90)


def args_budget(rows: list[Row], model: str) -> str:
    """The largest budget that a model's rows have."""
    return str(max({r["budget"] for r in rows if r["model"] == model}, key=lambda b: budget_of(b, 60)))


def _pooled(rows: list[Row], part: str) -> float:
    """What is missed of a part, over the change, both summed over texts: one on which nothing happens counts little."""
    return sum(r["missed"].get(part, 0.0) for r in rows) / max(sum(r["square"] for r in rows), 1e-300)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("measure", "write"))
    parser.add_argument("--state", type=Path, required=True, help="a line a measurement; appended to")
    parser.add_argument("--models", nargs="+", default=["mini-bert", "mini-gpt2"])
    parser.add_argument("--removals", nargs="+", default=["delete", "gap", "mask"])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), help="slalom-anchor first")
    parser.add_argument("--skip", type=int, default=0, help="texts of that length that are left out before the first")
    parser.add_argument("--texts", type=int, default=20)
    parser.add_argument("--budgets", nargs="+", default=["n/2", "n", "250", "600", "1000", "4000"])
    parser.add_argument("--tokens", type=int, nargs=2, default=(40, 80), help="shortest and longest text")
    args = parser.parse_args()
    {"measure": measure, "write": write}[args.command](args)


if __name__ == "__main__":
    main()
