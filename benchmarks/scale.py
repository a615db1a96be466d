"""What many workers, many cells, many rows and busy neighbours cost: `python benchmarks/scale.py PART ... [--write]`.

    store        a simulated run directory of 1,000,000 rows: resume, report, export, with their memory
    overhead     1,000 trivial cells on two Ray workers: milliseconds of the driver for each
    efficiency   `run --suite imdb` on two one-thread workers against one two-thread process (needs an idle machine)
    contention   queries and a run beside busy processes, as threads wait here and as they do by themselves (idle, too)

Each figure comes from a process of its own. `--write` puts the rows into the table of benchmarks/README.md, in place of
those that the same parts have there.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from tabulate import tabulate

from slalom_bench.api import build_suite
from slalom_bench.core.options import ModelOptions
from slalom_bench.running.identity import CellIdentity
from slalom_bench.running.progress import Reporter
from slalom_bench.running.runner import run_suite
from slalom_bench.running.store import COSTS, EXPLANATIONS, SCORES, RunStore

README = Path(__file__).with_name("README.md")
MARK = "<!-- written by scale.py -->"
METRICS = ["deletion", "insertion", "strict-fidelity", "fidelity-few", "fidelity-many"]
EXPLAINERS = ["random", "linear-deletion", "leave-one-out"]
Row = list[str]


def child(code: str, *words: str, env: dict[str, str] | None = None) -> dict[str, float]:
    """Run a function of this module in a process of its own: what it printed, its seconds and its peak memory."""
    before = time.perf_counter()
    command = [sys.executable, __file__, "--child", code, *words]
    ended = subprocess.run(command, env={**os.environ, **(env or {})}, stdout=subprocess.PIPE, text=True, check=True)
    return {**json.loads(ended.stdout.splitlines()[-1]), "wall": time.perf_counter() - before}


def usage() -> dict[str, float]:
    """Seconds of processor and peak megabytes of this process (`ru_maxrss` would be at least that of its parent)."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {"cpu": sum(os.times()[:2]), "mb": int(status["VmHWM"].split()[0]) / 1024}


# ---- a store of many rows ----


def simulate(folder: Path, rows: int) -> int:
    """A run of real rows, copied under other ids and seeds until there are so many; returns how many there are."""
    samples, per_sample = 1000, 2 * (1 + len(METRICS))
    texts = folder / "texts.jsonl"
    words = "a film that is good and bad and long and dull but never quite what they had hoped for".split()  # noqa: SIM905
    lines = [
        {"id": f"t{i}", "text": " ".join(words[(i + j) % len(words)] for j in range(60)), "label": i % 2}
        for i in range(samples)
    ]
    texts.write_text("".join(json.dumps(line) + "\n" for line in lines))
    out = folder / "run"
    run_suite(store_suite(folder, 1, 1), out, ModelOptions(device="cpu", progress=False))
    store = RunStore(out)
    seeds = max(1, round(rows / (samples * per_sample * len(EXPLAINERS))))
    for cell in store.cells():
        labels, real = cell.labels(), cell.identity
        tables = {
            name: list(cell.table(name).rows.values())
            for name in (EXPLANATIONS, COSTS, *(f"{SCORES}{label}" for label in labels))
        }
        for seed in range(seeds):
            identity = CellIdentity(**{**real.model_dump(), "seed": seed})
            with store.taken(identity) as made:
                assert made is not None
                for name, found in tables.items():
                    made.table(name).fill(
                        {other["id"]: other for row in found for i in range(samples) for other in [renamed(row, i)]}, ()
                    )
                made.commit([f"t{i}" for i in range(samples)], labels)
    with store.keeping_samples(real) as kept:
        (row,) = kept.rows.values()
        kept.fill({f"t{i}": {**row, "id": f"t{i}"} for i in range(samples)}, ())
    return sum(file.read_bytes().count(b"\n") for file in out.glob("cells/**/*.jsonl"))


def renamed(row: dict, number: int) -> dict:
    """The same row under another id."""
    return {**row, "id": re.sub(r"t\d+$", f"t{number}", row["id"])}


def store_suite(folder: Path, samples: int, seeds: int):
    """What the simulated run is a run of."""
    return build_suite(
        task=[f"text:{folder / 'texts.jsonl'},id_column=id"],
        model=["mini-bert"],
        explainer=EXPLAINERS,
        metric=METRICS,
        budget=[100],
        samples=samples,
        seed=list(range(seeds)),
    )


def store_part(rows: int) -> list[Row]:
    """Resume, report and export of a large store, beside a tenth of it."""
    table = []
    found = {}
    for size in (rows // 10, rows):
        with TemporaryDirectory() as name:
            count = simulate(Path(name), size)
            found[size] = {what: child(what, name) for what in ("resume", "report", "export")} | {"rows": count}
    for what in ("resume", "report", "export"):
        small, large = found[rows // 10][what], found[rows][what]
        table.append(
            [
                f"{what} of {found[rows]['rows']:,} rows",
                f"{large['cpu']:.1f} s of processor, {large['mb']:.0f} MB",
                f"{found[rows // 10]['rows']:,} rows: {small['cpu']:.1f} s, {small['mb']:.0f} MB",
                "seconds, flat memory",
            ]
        )
    return table


def resume(name: str) -> None:
    """The command again: nothing is missing."""
    seeds = len({cell.identity.seed for cell in RunStore(Path(name) / "run").cells()})
    suite = store_suite(Path(name), 1000, seeds)
    result = run_suite(suite, Path(name) / "run", ModelOptions(device="cpu", progress=False))
    assert result.explained == result.scored == 0, result
    print(json.dumps(usage()))


def report(name: str) -> None:
    """The report of the run."""
    from slalom_bench.results.reading import read_run
    from slalom_bench.showing.report import write_report

    write_report(read_run(Path(name) / "run"))
    print(json.dumps(usage()))


def export(name: str) -> None:
    """The tables of the run."""
    subprocess_main = ["export", str(Path(name) / "run"), "--out", str(Path(name) / "exported")]
    from typer.testing import CliRunner

    from slalom_bench.cli import app

    ended = CliRunner().invoke(app, subprocess_main)
    assert ended.exit_code == 0, ended.output
    print(json.dumps(usage()))


# ---- many cells ----


def overhead_part(cells: int) -> list[Row]:
    """Trivial cells on two workers, and in this process; the start of Ray apart."""
    with TemporaryDirectory() as name:
        ray, alone = child("cells", f"{name}/ray", str(cells), "2"), child("cells", f"{name}/alone", str(cells), "0")
    return [
        [
            f"{cells} trivial cells on two workers: the driver, a cell",
            f"{1000 * ray['driver'] / cells:.1f} ms of processor",
            f"{1000 * ray['seconds'] / cells:.1f} ms of wall; in process {1000 * alone['seconds'] / cells:.1f} ms",
            "at most 5 ms",
        ],
        [
            "start of Ray and two workers",
            f"{ray['start']:.1f} s",
            f"peak of the driver {ray['mb']:.0f} MB, in process {alone['mb']:.0f} MB",
            "",
        ],
    ]


def cells(out: str, count: str, workers: str) -> None:
    """So many cells of one sample each, `zero` with nothing to score by but one metric."""
    from slalom_bench.running.cluster import Cluster
    from slalom_bench.running.executor import InProcess
    from slalom_bench.running.loading import Loader
    from slalom_bench.running.on_ray import OnRay
    from slalom_bench.running.runner import Runner

    suite = build_suite(
        task=["synthetic-linear"],
        model=["bag-of-words"],
        explainer=["random"],
        metric=["deletion"],
        budget=[10],
        samples=1,
        seed=list(range(int(count))),
    )
    loader = Loader(ModelOptions(device="cpu", progress=False), Reporter(show=False))
    plan = loader.plan(suite)
    start = time.perf_counter()
    store = RunStore(Path(out))
    if workers == "0":
        began, used = time.perf_counter(), time.process_time()
        Runner(suite, plan, store, loader, executor=InProcess(loader)).run([])
    else:
        with OnRay(loader, plan, Cluster(int(workers), cpus=1)) as executor:
            began, used = time.perf_counter(), time.process_time()
            Runner(suite, plan, store, loader, executor=executor).run([])
    seconds, driver = time.perf_counter() - began, time.process_time() - used
    print(json.dumps({**usage(), "seconds": seconds, "driver": driver, "start": began - start}))


# ---- many cores ----


MINIS = ("mini-bert", "mini-distilbert", "mini-gpt2", "mini-rotary", "mini-alibi")
"""What the suite runs on where no hub can be reached."""


def efficiency_part(samples: int) -> list[Row]:
    """The suite imdb on its five minis, two workers of a thread against a process of two threads."""
    found = {}
    for workers, threads in (("2", "1"), ("0", "2")):
        with TemporaryDirectory() as name:
            words = (f"{name}/run", str(samples), workers, *MINIS)
            found[workers] = child("imdb", *words, env={"OMP_NUM_THREADS": threads})
    two, one = found["2"], found["0"]
    return [
        [
            f"imdb on five minis, {samples} texts each: two workers of one thread",
            f"{two['wall']:.0f} s in all, {two['seconds']:.0f} s without imports",
            f"a process of two threads {one['wall']:.0f} s and {one['seconds']:.0f} s",
            f"at least 1.25x; here {one['wall'] / two['wall']:.2f}x, "
            f"without imports {one['seconds'] / two['seconds']:.2f}x",
        ]
    ]


def imdb(out: str, samples: str, workers: str, *models: str) -> None:
    """One run of the suite on these models, with the start of Ray."""
    from slalom_bench.running.cluster import Cluster

    suite = build_suite("imdb", samples=int(samples), model=list(models))
    cluster = None if workers == "0" else Cluster(int(workers), cpus=1)
    start, used = time.perf_counter(), time.process_time()
    run_suite(suite, Path(out), ModelOptions(device="cpu", progress=False), cluster=cluster)
    print(
        json.dumps({**usage(), "seconds": time.perf_counter() - start, "used": time.process_time() - used}), flush=True
    )


# ---- neighbours ----

SPIN = "two threads that spin"
"""For as long as libgomp lets them by itself, some milliseconds. Beside others tried on queries alone."""
WAYS = {
    "two threads": {"OMP_NUM_THREADS": "2"},
    SPIN: {"OMP_NUM_THREADS": "2", "GOMP_SPINCOUNT": "300000", "KMP_BLOCKTIME": "200"},
    "one thread": {"OMP_NUM_THREADS": "1"},
}
"""How the threads of a process wait; the first is what it does by itself."""


def contention_part(busy: int) -> list[Row]:
    """Queries, and a run of one text: alone (the median of three, in turn), then beside busy processes."""
    with TemporaryDirectory() as name:
        works = {
            "300 queries of 120 tokens": ("queries",),
            "imdb on mini-bert, 1 text": ("imdb", name, "1", "0", "mini-bert"),
        }
        tries: dict[tuple[str, str, int], list[dict[str, float]]] = {}
        for count, rounds in ((0, 3), (busy, 1)):
            others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
            try:
                for number, (work, (code, *words)), (way, env) in product(range(rounds), works.items(), WAYS.items()):
                    if way != SPIN or not words or not count:
                        place = [f"{name}/{way}-{count}-{number}", *words[1:]] if words else []
                        tries.setdefault((work, way, count), []).append(child(code, *place, env=env))
            finally:
                for other in others:
                    other.kill()
                    other.wait()
    middle = {key: {name: median(one[name] for one in all_) for name in all_[0]} for key, all_ in tries.items()}
    beside = [contention_row(work, way, busy, middle) for work in works for way in WAYS if (work, way, busy) in middle]
    return [*beside, *(idle_row(work, middle) for work in works)]


def idle_row(work: str, found: dict[tuple[str, str, int], dict[str, float]]) -> Row:
    """What a short wait costs where nobody else wants the cores."""
    short, spinning = (found[work, way, 0]["seconds"] for way in (next(iter(WAYS)), SPIN))
    return [
        f"{work}, two threads, nobody beside",
        f"{short:.3f} s",
        f"spinning {spinning:.3f} s",
        f"nothing lost; here {short / spinning:.2f}x",
    ]


def contention_row(work: str, way: str, busy: int, found: dict[tuple[str, str, int], dict[str, float]]) -> Row:
    """How much slower it is beside others, over what threads that share the cores fairly would be."""
    alone, beside = found[work, way, 0], found[work, way, busy]
    threads, cores = int(WAYS[way]["OMP_NUM_THREADS"]), os.cpu_count() or 1
    fair = max(1.0, (threads + busy) / cores)
    slower = beside["seconds"] / alone["seconds"]
    return [
        f"{work}, {way}, beside {busy} busy processes",
        f"{beside['seconds']:.2f} s ({beside['used']:.2f} of processor)",
        f"alone {alone['seconds']:.2f} s ({alone['used']:.2f})",
        f"at most 1.25x the fair share ({fair:.2g}x); here {slower / fair:.2f}x",
    ]


def queries() -> None:
    """The median of thirty sets of 300 deletions of a review, or of as many as fit into twenty seconds."""
    import numpy as np

    from slalom_bench.handle.classifier import Classifier
    from slalom_bench.running.loading import Loader

    loader = Loader(ModelOptions(device="cpu", progress=False), Reporter(show=False))
    cell = loader.plan(build_suite(task=["imdb"], model=["mini-bert"], explainer=["zero"], samples=1)).cells[0]
    subject = loader.subject(cell)
    sample = subject.sample(subject.examples(cell)[0], 120)
    rng, times = np.random.default_rng(0), []
    since = time.perf_counter()
    while len(times) < 31 and (len(times) < 4 or time.perf_counter() - since < 20):
        handle = Classifier(subject.classifier.backend)
        keep = rng.random((300, len(sample))) < 0.8
        start, used = time.perf_counter(), time.process_time()
        handle.masked_log_odds(sample, keep)
        times.append((time.perf_counter() - start, time.process_time() - used))
    wall, spent = np.median(times[1:], axis=0)
    print(json.dumps({"seconds": float(wall), "used": float(spent)}))


PARTS = {
    "store": (store_part, 1_000_000),
    "overhead": (overhead_part, 1000),
    "efficiency": (efficiency_part, 8),
    "contention": (contention_part, 2),
}
HEADS = ["part", "what", "here", "beside it", "target"]


def write(rows: list[Row]) -> None:
    """Put rows into the table of the README, in place of those of the same parts."""
    head, _, tail = README.read_text(encoding="utf-8").partition(MARK)
    after = tail.partition("\n## ")
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in after[0].splitlines() if line[:1] == "|"]
    new = {row[0] for row in rows}
    kept = [line for line in lines[2:] if line[0] not in new]
    table = tabulate([*kept, *rows], HEADS, tablefmt="github", disable_numparse=True)
    rest = f"\n## {after[2]}" if after[2] else ""
    README.write_text(f"{head}{MARK}\n\n{table}\n{rest}", encoding="utf-8")


def main() -> None:
    """The parts asked for, as one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--size", type=int, help="rows, cells, texts or busy processes, in place of the usual number")
    parser.add_argument("--write", action="store_true", help="put the rows into benchmarks/README.md")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    told = parser.parse_args()
    if told.child:
        globals()[told.child](*told.parts)
        return
    rows: list[Row] = []
    for name in told.parts or PARTS:
        part, size = PARTS[name]
        load = f"; load {os.getloadavg()[0]:.1f} before"
        found = part(told.size or size)
        rows += [[name, *row] for row in found]
        rows[-1][3] += load
        print(tabulate(rows, HEADS, tablefmt="github"), flush=True)
        if told.write:
            write(rows)


if __name__ == "__main__":
    main()
