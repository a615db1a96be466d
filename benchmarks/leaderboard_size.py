"""How long `leaderboard` takes, how much memory, and how long its pages are, for many files and long tables.

    python benchmarks/leaderboard_size.py FILES TABLES [METRICS]     (10000 10: ten tables of a thousand rows)

The files are copies of one row of the committed submission of eraser-movies (20 texts) under other names, every score
changed a little.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from slalom_bench.results.statistics import summarise
from slalom_bench.results.submission import Submission, to_text
from slalom_bench.showing.leaderboard import generate, read_results


def make(folder: Path, files: int, tables: int, metrics: int) -> None:
    """Write so many submissions of one row each."""
    source = min((Path(__file__).parents[1] / "leaderboards" / "results").glob("eraser-movies_*.json"))
    base = json.loads(source.read_text())
    labels = list(base["rows"][0]["results"])[:metrics]
    base["metrics"] = {label: base["metrics"][label] for label in labels}
    (row,) = json.loads(json.dumps(base["rows"][:1]))
    rng = np.random.default_rng(0)
    for i in range(files):
        results = {label: _moved(row["results"][label], rng) for label in labels}
        own = {**row, "results": results, "explainer": {**row["explainer"], "name": f"method-{i}"}}
        made = Submission.model_validate({**base, "max_tokens": 100 + i % tables, "rows": [own]})
        (folder / made.file_name).write_text(to_text(made))


def _moved(result: dict[str, object], rng: np.random.Generator) -> dict[str, object]:
    values = [None if v is None else float(f"{v * (1 - rng.random() / 5):.6g}") for v in result["values"]]  # type: ignore[attr-defined]
    undefined = sum(v is None for v in values)
    return {
        **result,
        **vars(summarise(values)),
        "values": values,
        "halves": [],
        "reasons": {"odd": undefined} if undefined else {},
    }


def main(files: int, tables: int, metrics: int = 3) -> None:
    """Print what it takes."""
    with TemporaryDirectory() as name:
        make(Path(name), files, tables, metrics)
        start = time.perf_counter(), time.process_time()
        submissions = read_results(Path(name))
        read = time.perf_counter(), time.process_time()
        pages = generate(submissions)
        done = time.perf_counter(), time.process_time()
    largest = max(len(text) for text in pages.values())
    wall, used = ((read[i] - start[i], done[i] - read[i]) for i in range(2))
    times = f"read {wall[0]:.1f} s, generate {wall[1]:.1f} s (of processor {used[0]:.1f} and {used[1]:.1f} s)"
    print(f"{files} files in {tables} tables of {metrics} metrics: {times}")
    print(
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB; {len(pages)} pages, the longest of "
        f"{largest:,} letters"
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
