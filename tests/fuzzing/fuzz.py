"""The fuzz at the terminal: `python tests/fuzzing/fuzz.py --cases 50000`, or one case again.

Seeded: the same area, seed and number are the same case on every machine. Exit code 1 if a case did not hold.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Mapping

from areas import AREAS, make, register_words
from calling import call_there, try_case

MEMORY = "/dev/shm"


def fuzz(area: str, cases: int, seed: int = 0, first: int = 0) -> tuple[Counter[int], list[str]]:
    """Try so many cases of an area; how often each exit code came, and what did not hold, with how to have it again."""
    register_words()
    codes, found = Counter[int](), []
    for number in range(first, first + cases):
        code, wrong = try_case(make(area, seed, number))
        codes[code] += 1
        if wrong:
            words = " ".join(make(area, seed, number).words)
            found.append(f"--area {area} --seed {seed} --case {number}: {words!r}\n{wrong}")
    return codes, found


def main() -> None:
    """All areas in proportion, or one case shown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=2150)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--area", choices=AREAS)
    parser.add_argument("--case", type=int)
    given = parser.parse_args()
    quieten(tempfile.mkdtemp(prefix="fuzz-cache-"))
    if given.case is not None:
        register_words()
        case = make(given.area, given.seed, given.case)
        print(list(case.words))
        print(call_there(case))
        print(try_case(case)[1] or "holds")
        return
    chosen = [given.area] if given.area else list(AREAS)
    total = sum(AREAS[area][1] for area in chosen)
    tried, start, failed, ended = Counter[str](), time.monotonic(), 0, Counter[int]()
    rounds = -(-given.cases // total)
    for turn in range(rounds):  # every area in turn, so that what has run so far says something of all
        for area in chosen:
            share = min(AREAS[area][1], max(0, given.cases - sum(tried.values())))
            codes, found = fuzz(area, share, given.seed, turn * AREAS[area][1])
            for wrong in found:
                print(f"FAILED {wrong}", flush=True)
            failed += len(found)
            tried[area] += share
            ended += codes
        print(
            f"seed {given.seed}, {tried.total()} cases: {said(ended)}, {failed} did not hold; "
            f"{time.monotonic() - start:.0f} s, {time.process_time():.0f} s of them at work",
            flush=True,
        )
    print(", ".join(f"{area} {n}" for area, n in tried.items()))
    sys.exit(1 if failed else 0)


def said(codes: Mapping[int, int]) -> str:
    """How often each end came, in words."""
    return f"{codes[0]} results, {codes[1]} with findings (exit code 1), {codes[2]} refused in one line"


def quieten(cache: str) -> None:
    """No user's cache, no hub, no proxy, no chatter of other packages; folders in memory, where there is room for it.

    On a disk a case waits for its rows to be forced there longer than it works.
    """
    if os.access(MEMORY, os.W_OK):
        tempfile.tempdir = MEMORY
    os.environ |= {"SLALOM_BENCH_CACHE": cache, "HF_HUB_OFFLINE": "1", "NO_PROXY": "127.0.0.1"}
    os.environ |= {"OPENAI_API_KEY": "sk-fuzz-0123456789", "MPLBACKEND": "Agg", "COLUMNS": "80"}
    os.environ.pop("SLALOM_BENCH_DATA", None)
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)


if __name__ == "__main__":
    main()
