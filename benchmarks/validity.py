"""The ten findings on what numbers mean, each shown on the old definition and on the new one.

    SLALOM_BENCH_DATA=... python benchmarks/validity.py --write      # rewrites the tables in docs/validity.md

Findings 1 to 4 and 9 are measured anew on a few texts of each model; what is done is kept in --state, text by text, so
that a stopped call goes on. 5, 7, 8 and 10 are read from the committed results, 6 is simulated. Old definitions are
recomputed here, in a few lines each. See docs/validity.md.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from tabulate import tabulate

from slalom_bench import registry
from slalom_bench.core.context import Context
from slalom_bench.core.options import ModelOptions
from slalom_bench.core.types import Explanation, Floats, Sample
from slalom_bench.data.loading import data_directory, load_task
from slalom_bench.errors import InvalidInput
from slalom_bench.handle.classifier import Classifier
from slalom_bench.metrics.strict_fidelity import unasked
from slalom_bench.models.loading import load_model
from slalom_bench.results.boards import boards
from slalom_bench.results.ranking import paired, turn
from slalom_bench.results.separation import all_pairs
from slalom_bench.results.simulation import LAWS as SIMULATED
from slalom_bench.results.simulation import Plan, Seen
from slalom_bench.results.statistics import LEVEL, bca_interval
from slalom_bench.results.submission import Submission, read_submission
from slalom_bench.running.explaining import explain_sample
from slalom_bench.showing.wording import number

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs" / "validity.md"
BEGIN, END = "<!-- written by validity.py -->", "<!-- end -->"
MODELS = ("mini-bert", "mini-distilbert", "mini-gpt2")
LAWS = ("few", "many", "spans", "sentences", "top")
TILTED = "slalom-anchor:law=few"
"""slalom-anchor as it was tilted: fitted to the very range that was tested."""
METHODS = (
    *("slalom-anchor", TILTED, "slalom-anchor:law=mixed", "linear-deletion", "linear-deletion:law=mixed"),
    *("lime", "leave-one-out"),
)
UNSIGNED = ("grad-l2", "attention-avg")
ONE_ROUND = 1e9
"""A tolerance that the first 50 steps of integrated gradients meet."""
REPETITIONS = 1000

Table = tuple[Sequence[str], Sequence[Sequence[str]]]


# ---- what is measured on a text ----


def explained(reference: str, handle: Classifier, sample: Sample, budget: int) -> Explanation:
    """One method on one text, as a run does it."""
    explainer = registry.explainers.build(reference)
    return explain_sample(explainer, handle, sample, budget=budget, seed=0, target=1).unwrap()


def asked_share(handle: Classifier, sample: Sample, said: Explanation, context: Context) -> float:
    """Of strict fidelity's masks of one token, the share that the method has itself asked for."""
    keep = registry.laws.get("paper").build({"largest": 1}).draw(sample, 20, context.rng("strict-fidelity", sample.id))
    return 1 - float(unasked(handle, sample, said, keep).mean())


def fidelity(handle: Classifier, sample: Sample, said: Explanation, context: Context, laws: Sequence[str]) -> Any:
    """Strict fidelity and the profile of one explanation."""
    found = {"strict": registry.metrics.build("strict-fidelity").score(handle, sample, said, context).values}
    for law in laws:
        found[law] = registry.metrics.build(f"fidelity-{law}").score(handle, sample, said, context).values
    return found


def measured(handle: Classifier, sample: Sample, context: Context, budget: int) -> dict[str, Any]:
    """All that findings 1 to 4 and 9 need of one text."""
    found: dict[str, Any] = {"tokens": len(sample)}
    for reference in METHODS:
        said = explained(reference, handle, sample, budget)
        found[reference] = fidelity(handle, sample, said, context, LAWS)
        found[reference]["asked"] = asked_share(handle, sample, said, context)
        found[reference]["largest value"] = float(np.abs(said.scores.get("value", np.zeros(1))).max())
        found[reference]["shapley"] = "shapley" in said.scores
    still = handle.under(registry.removals.build("gap"))
    for reference in (TILTED, "linear-deletion"):
        said = explained(reference, still, sample, budget)
        found[f"{reference} gap"] = fidelity(still, sample, said, context, ())
    zero = explained("zero", handle, sample, budget)
    found["shift"] = registry.metrics.build("position-shift").score(handle, sample, zero, context).values
    for name, reference in {
        "50 steps": f"integrated-gradients:tolerance={ONE_ROUND}",
        "now": "integrated-gradients",
    }.items():
        found[f"ig {name}"] = explained(reference, handle, sample, budget).diagnostics
    return found


def texts(model: str, count: int, tokens: int, budget: int, state: Path) -> list[dict[str, Any]]:
    """The measurements of the first texts of the task, from the state as far as it has them."""
    known: dict[str, Any] = json.loads(state.read_text()) if state.exists() else {}
    keys = [f"{model} {i} {tokens} {budget}" for i in range(count)]
    if any(key not in known for key in keys):
        data = data_directory(None)
        task = load_task("imdb", data_dir=data)
        handle = Classifier(load_model(model, task, ModelOptions(data_dir=data, progress=False)))
        context = Context(task)
        for key, example in zip(keys, task.evaluation, strict=False):
            if key not in known:
                known[key] = measured(handle, handle.encode(example, tokens), context, budget)
                state.parent.mkdir(parents=True, exist_ok=True)
                state.write_text(json.dumps(known))
                print(f"{key}: done", flush=True)
    return [known[key] for key in keys]


# ---- the findings ----


def geometric(rows: Sequence[dict[str, Any]], method: str, law: str, value: str = "normalised") -> float:
    """exp of the mean logarithm over the texts that have the value."""
    found = [row[method][law][value] for row in rows if value in row[method][law]]
    return float(np.exp(np.mean(np.log(np.maximum(found, 1e-12))))) if found else float("nan")


def tilted(measures: dict[str, list[dict[str, Any]]]) -> Table:
    """1: the lead of slalom-anchor over linear-deletion, by what either was fitted to."""
    rows = []
    for model, found in measures.items():
        old = geometric(found, "linear-deletion", "strict", "mean") / geometric(found, TILTED, "strict", "mean")
        own, common = "slalom-anchor", "slalom-anchor:law=mixed"
        rows.append([model, "old: strict fidelity, anchor at the tested law, the other at 0 to 5", f"{old:.1f}x"])
        for law in LAWS:
            now = geometric(found, "linear-deletion:law=mixed", law) / geometric(found, common, law)
            each = geometric(found, "linear-deletion", law) / geometric(found, own, law)
            rows.append([model, f"now: {law}, both at law mixed (each at its own)", f"{now:.1f}x ({each:.1f}x)"])
    return ["model", "lead of slalom-anchor over linear-deletion", "factor"], rows


def moved(measures: dict[str, list[dict[str, Any]]]) -> Table:
    """2: what moving does."""
    rows = []
    for model, found in measures.items():
        shift, missing = (np.mean([row["shift"][name] for row in found]) for name in ("shift", "missing"))
        error = {m: geometric(found, m, "strict", "mean") for m in (TILTED, "linear-deletion")}
        still = {m: geometric(found, f"{m} gap", "strict", "mean") for m in (TILTED, "linear-deletion")}
        parts = [np.mean([row["linear-deletion"]["strict"][name] for row in found]) for name in ("missing", "moving")]
        rows.append(
            [
                *(model, f"{shift:.2f} ({missing:.2f})"),
                *(f"{e['linear-deletion'] / e[TILTED]:.1f}x" for e in (error, still)),
                f"{number(parts[0])} + {number(parts[1])}",
            ]
        )
    head = ["model", "share of the change that is moving (missing)", "old: anchor's lead under delete"]
    return [*head, "the same under gap", "now: linear-deletion's strict fidelity, missing + moving"], rows


def extrapolated(measures: dict[str, list[dict[str, Any]]]) -> Table:
    """3: normalised errors beyond what was fitted."""
    rows = []
    for model, found in measures.items():
        for method, label in (
            (TILTED, "old law: 2 to 10 deletions"),
            ("slalom-anchor", "now"),
            ("lime", "for comparison"),
        ):
            worst = {law: max(row[method][law].get("normalised", 0.0) for row in found) for law in LAWS}
            cells = [f"{number(geometric(found, method, law))} ({number(worst[law])})" for law in LAWS]
            values = max(row[method]["largest value"] for row in found) if "anchor" in method else None
            rows.append([model, method, label, *cells, "" if values is None else number(values)])
    return ["model", "method", "", *LAWS, "largest value"], rows


def trained_on(measures: dict[str, list[dict[str, Any]]]) -> Table:
    """4: masks that a method has itself asked for."""
    rows = []
    for model, found in measures.items():
        for method in ("leave-one-out", "linear-deletion", "slalom-anchor", "lime"):
            k1, k2 = (np.mean([row[method]["strict"][k] for row in found]) for k in ("k1", "k2"))
            asked = np.mean([row[method]["asked"] for row in found])
            excluded = [np.mean([row[method][law].get("excluded", 0.0) for row in found]) for law in LAWS]
            shares = ", ".join(f"{law} {share:.0%}" for law, share in zip(LAWS, excluded, strict=True) if share > 0)
            rows.append([model, method, f"{asked:.0%}", f"{number(k1)} / {number(k2)}", shares or "none"])
    head = ["model", "method", "old: k=1 masks it had asked for", "error at k=1 / k=2"]
    return [*head, "now: left out of the profile"], rows


def gaps(measures: dict[str, list[dict[str, Any]]]) -> Table:
    """9: what integrated gradients' sums miss."""
    rows = []
    for model, found in measures.items():
        cells = []
        for name in ("ig 50 steps", "ig now"):
            gap = [abs(row[name]["completeness_gap"]) for row in found]
            cells += [
                f"{number(float(np.mean(gap)))} ({number(max(gap))})",
                str(max(row[name]["steps"] for row in found)),
            ]
        rows.append([model, *cells])
    return ["model", "old: gap in log-odds, mean (largest)", "steps", "now", "most steps"], rows


def submissions() -> list[Submission]:
    """The committed results of the minis on imdb, as the suite has it."""
    found = [read_submission(path) for path in sorted((ROOT / "leaderboards" / "results").glob("imdb_mini-*.json"))]
    return [each for each in found if (each.removal.name, each.max_tokens) == ("delete", 256)]


def titled(submission: Submission) -> str:
    """Which table: its model, and how many texts, since a model may have several."""
    return f"{submission.model.name}, {len(submission.samples)} texts"


def columns(submission: Submission, name: str) -> dict[str, dict[str, float | None]]:
    """The scores of every explainer by one metric, the first version that the file has of it."""
    label = next(label for label, info in submission.metrics.items() if info.name == name)
    rows = [row for row in submission.rows if label in row.results and row.results[label].n]
    return {row.explainer.title: submission.scores(row, label) for row in rows}


def signed_only(table: dict[str, Any]) -> dict[str, Any]:
    """Without baselines and unsigned methods."""
    return {name: row for name, row in table.items() if name not in (*UNSIGNED, "random", "zero")}


def saturated(found: Sequence[Submission]) -> Table:
    """5: how far signed methods lie from each other, and what is marked."""
    rows = []
    for submission in found:
        for name in ("insertion", "insertion-log-odds", "srg"):
            info = next(info for info in submission.metrics.values() if info.name == name)
            _, scores = paired(signed_only(columns(submission, name)))
            means, m = scores.mean(axis=0), scores.shape[1]
            scores = turn(scores, info.direction, "linear")
            apart = all_pairs(scores).told_apart(info.relevant).sum() / (m * (m - 1) / 2)
            old = f"{old_marks(scores).sum():.0f} of {m} called worse"
            rows.append([titled(submission), name, f"{m}", number(float(np.ptp(means))), old, f"{apart:.0%}"])
    head = ["model", "metric", "signed methods", "largest difference of means"]
    return [*head, "old marks (no difference too small)", "now: pairs told apart by what matters"], rows


def old_marks(scores: Floats, level: float = 0.05, flips: int = 999) -> Floats:
    """Which columns (smaller is better) the old rule called worse: sign flips against the best mean, Holm."""
    best, n = int(scores.mean(axis=0).argmin()), len(scores)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (flips, n))
    sums = scores - scores[:, [best]]
    p = (1 + (np.abs(signs @ sums) >= np.abs(sums.sum(axis=0)) - 1e-12).sum(axis=0)) / (flips + 1)
    order = np.argsort(p, kind="stable")
    adjusted = np.maximum.accumulate(p[order] * np.arange(len(p) - 1, -1, -1))
    worse = np.zeros(len(p))
    worse[order] = adjusted <= level
    worse[best] = 0.0
    return worse


def of_means(centred: Floats, n: int, repetitions: int, flips: int = 199) -> float:
    """How often studentised sign flips of all pairs call equal means different, where n texts are drawn from these."""
    rng = np.random.default_rng(0)
    one, other = np.triu_indices(centred.shape[1], 1)
    wrong = 0
    for _ in range(repetitions):
        d = (centred[:, other] - centred[:, one])[rng.integers(0, len(centred), n)]
        signs = rng.choice([-1.0, 1.0], (flips, n))
        squares = ((d - d.mean(axis=0)) ** 2).sum(axis=0)
        found = np.abs(d.sum(axis=0)) / np.sqrt(np.maximum(squares, 1e-30) * n / (n - 1))
        sums = signs @ (d - d.mean(axis=0))
        reference = np.abs(sums) / np.sqrt(np.maximum(squares - sums**2 / n, 1e-30) * n / (n - 1))
        wrong += (1 + (reference.max(axis=1) >= found.max()).sum()) / (flips + 1) <= LEVEL
    return wrong / repetitions


def by_sizes(d: Floats) -> bool:
    """Whether the sign test calls a pair different where equal counts are told apart by sizes, over all patterns."""
    counts = 1 + np.abs(d) / (np.abs(d) + np.abs(d).mean()) / len(d)
    patterns = np.array(list(product((1.0, -1.0), repeat=len(d))))
    return bool((np.abs(patterns @ counts) >= np.abs(np.sign(d) @ counts) - 1e-9).mean() <= LEVEL)


def every_pattern(n: int) -> list[str]:
    """A pair of equal methods of which one wins by much and loses by little: each pattern of n wins and losses once."""
    drawn = [np.where(np.array(signs) > 0, 10.0, -0.1) for signs in product((1, -1), repeat=n)]
    now = np.mean([all_pairs(np.stack([d, np.zeros(n)], axis=1)).better.any() for d in drawn])
    old = np.mean([by_sizes(d) for d in drawn])
    return [f"two equal methods, large wins, small losses, {n} texts, every pattern (5 %)", f"{old:.1%}", f"{now:.1%}"]


def levels(found: Sequence[Submission]) -> Table:
    """6: what is promised and what is kept, where all methods are equal."""
    rng = np.random.default_rng(0)
    known = {law.name: law for law in SIMULATED}
    plan = Plan(texts=(20,), methods=(12,), repetitions=REPETITIONS)
    any_lost = [old_marks(known["normal"].draw(rng, 20, 12), flips=499).any() for _ in range(REPETITIONS)]
    size = plan.separation(known["normal"], 20, 12).size
    rows = [["12 equal methods, 20 texts, normal: any called worse (5 %)", f"{np.mean(any_lost):.1%}", f"{size:.1%}"]]
    skewed = [np.exp(rng.normal(size=(20, 1)) * 1.5) for _ in range(5 * REPETITIONS)]
    nothing = np.zeros((20, 1))
    size = np.mean([old_marks(np.hstack([x - np.exp(1.5**2 / 2), nothing])).any() for x in skewed])
    now = np.mean([all_pairs(np.hstack([x - 1.0, nothing]), flips=199).better.any() for x in skewed])
    rows.append(["two equal methods, skewed difference, 20 texts (5 %)", f"{size:.1%}", f"{now:.1%}"])
    rows.append(every_pattern(9))
    for board in boards([max(found, key=lambda each: len(each.samples))]):
        for label, info in board.metrics.items():
            if info.name in ("fidelity-few", "fidelity-many", "srg", "deletion", "nb-spearman"):
                scores = board.ranking(label).scores
                title = f"{info.name}, {board.identity.model.name}"
                for n in (20, 50):
                    now = plan.again(Seen(title, info.scale or "linear", scores), n).size
                    means = of_means(scores - scores.mean(axis=0), n, REPETITIONS)
                    rows.append([f"{title}, {n} texts drawn of {len(scores)} (5 %)", f"{means:.1%}", f"{now:.1%}"])
    draws = [np.exp(rng.normal(size=20) * np.sqrt(2.0)) for _ in range(2 * REPETITIONS)]
    held = np.mean([low <= np.e <= high for low, high in (bca_interval(x, 0.95) for x in draws)])
    covered = plan.coverage(known["lognormal"], known["lognormal"].mean or 0.0, 20)
    rows.append(["interval of a skewed error, 20 texts (95 %)", f"{held:.1%}", f"{covered.compared:.1%}"])
    return ["what, and what is promised", "old", "now"], rows


def one_column(found: Sequence[Submission]) -> Table:
    """7: places of unsigned methods when two quantities share a column, and when all are compared by size."""
    rows = []
    for submission in found:
        signed, sizes = columns(submission, "nb-spearman"), columns(submission, "nb-strength")
        old = "old: signed against w, unsigned against size of w"
        for label, table in ((old, sizes | signed), ("now: nb-strength", sizes)):
            means = {name: float(np.mean([x for x in row.values() if x is not None])) for name, row in table.items()}
            order = sorted(means, key=lambda name: -means[name])
            places = [f"{order.index(name) + 1} of {len(order)} ({means[name]:.3f})" for name in UNSIGNED]
            rows.append([titled(submission), label, f"{order[0]} ({means[order[0]]:.3f})", *places])
    return ["model", "column", "first", *UNSIGNED], rows


def charged(found: Sequence[Submission]) -> Table:
    """8: what a row is charged that was answered from another's queries."""
    rows = []
    for submission in found:
        for row in submission.rows:
            if row.cost is not None and row.cost.shared > 0:
                old = row.cost.forwards - row.cost.shared
                rows.append([titled(submission), row.explainer.title, f"{old:,.0f}", f"{row.cost.forwards:,.0f}"])
    return ["model", "method", "old: forwards it computed itself", "now: as if alone"], rows


def dropping(found: Sequence[Submission]) -> Table:
    """10: what boards say of the models' training."""
    return ["model", "old", "now"], [[titled(s), "nothing", s.model.training or "not said"] for s in found]


def document(measures: dict[str, list[dict[str, Any]]], size: str) -> str:
    """All tables, under the headings of the findings."""
    found = submissions()
    made: list[tuple[str, Callable[[], Table]]] = [
        ("1. The contest was tilted", lambda: tilted(measures)),
        ("2. Strict fidelity under `delete` measured re-positioning", lambda: moved(measures)),
        ("3. Surrogates did not extrapolate", lambda: extrapolated(measures)),
        ("4. k = 1 was training error", lambda: trained_on(measures)),
        ("5. Insertion is saturated", lambda: saturated(found)),
        ("6. Marks and intervals did not keep their level", lambda: levels(found)),
        ("7. nb-spearman had two quantities in one column", lambda: one_column(found)),
        ("8. Shared queries were free", lambda: charged(found)),
        ("9. Integrated gradients' gap", lambda: gaps(measures)),
        ("10. Token dropping was not said", lambda: dropping(found)),
    ]
    parts = [f"Findings 1 to 4 and 9: {size}. 5, 7, 8, 10: the committed results. 6: {REPETITIONS:,} repetitions."]
    for title, make in made:
        head, rows = make()
        parts += [f"### {title}", tabulate(rows, headers=head, tablefmt="pipe", disable_numparse=True)]
        print(f"\n{parts[-2]}\n\n{parts[-1]}", flush=True)
    return "\n\n".join(parts)


def main() -> None:
    """Measure, print, and with --write put the tables into the docs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--texts", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--budget", type=int, default=1000)
    parser.add_argument("--state", type=Path, default=ROOT / "runs" / "validity.json")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/validity.md")
    args = parser.parse_args()
    if args.texts < 1:
        raise InvalidInput(f"--texts {args.texts}: at least one is needed")
    measures = {m: texts(m, args.texts, args.tokens, args.budget, args.state) for m in args.models}
    size = f"the first {args.texts} texts of imdb, at most {args.tokens} tokens, budget {args.budget:,}, seed 0"
    tables = document(measures, size)
    if args.write:
        text = DOCS.read_text(encoding="utf-8")
        head, tail = text.split(BEGIN)[0], text.split(END)[1]
        DOCS.write_text(f"{head}{BEGIN}\n\n{tables}\n\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
