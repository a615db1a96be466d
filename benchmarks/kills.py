"""Runs that are killed, run out of disk, or share a directory, until they are done: the bytes must be those of one.

    python benchmarks/kills.py [--rounds 50] [--seed 0] [--workers 2]

Each round forks one process, or two at once, on a run directory and kills it with SIGKILL at a random row, or lets no
file of it grow beyond a random size (as on a full disk; not with workers, since Ray writes files too), or kills one of
its Ray workers and lets it go on. When a directory is finished after all, its explanations,
scores and texts are compared with those of a run that nobody disturbed, byte by byte, and a new directory is begun.
Costs are not compared: they hold seconds.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from slalom_bench import registry
from slalom_bench.cli import main as command_line

RUN = ["run", "--json", "--task", "synthetic-linear", "--model", "bag-of-words", "--samples", "8", "--budget", "60"]
RUN += ["--metric", "deletion", "--metric", "strict-fidelity:masks=20"]
RUN += ["--explainer", "random", "--explainer", "slalom-eff", "--explainer", "linear-deletion"]


def work(out: Path, workers: int, largest: int | None) -> int:
    """Fork a process that runs the suite into a directory; its id."""
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        said = os.open(out.with_name(f"said-{os.getpid()}.txt"), os.O_RDWR | os.O_CREAT)
        for stream in (1, 2):
            os.dup2(said, stream)
        if largest is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
        sys.argv = ["slalom-bench", *RUN, "--out", str(out), *(["--workers", str(workers)] if workers else [])]
        command_line()
        code = 0
    except SystemExit as stopped:
        code = int(stopped.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def ended(process: int, out: Path, *allowed: int) -> int:
    """Wait for a process; any other exit code than these is an error that shows what it said last."""
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    if code not in allowed:
        said = out.with_name(f"said-{process}.txt").read_text(encoding="utf-8")
        raise AssertionError(f"a process ended with exit code {code}: {said[-3000:]}")
    return code


def rows(out: Path) -> dict[str, bytes]:
    """The tables of a run that must be the same however it came about."""
    files = [*out.glob("cells/*/explanations.jsonl"), *out.glob("cells/*/scores/*.jsonl"), *out.glob("samples/*.jsonl")]
    return {str(file.relative_to(out)): file.read_bytes() for file in files}


def size(out: Path) -> int:
    """How many bytes of explanations and scores there are."""
    return sum(file.stat().st_size for file in out.glob("cells/**/*.jsonl"))


def kill_at(process: int, out: Path, reached: int, rng: random.Random) -> bool:
    """Kill a process when the run has so many bytes, and a moment later; whether it was still there."""
    patience = time.monotonic() + 300
    while time.monotonic() < patience:
        if os.waitpid(process, os.WNOHANG)[0]:
            return False
        if size(out) >= reached:
            break
        time.sleep(0.005)
    time.sleep(rng.random() * 0.02)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return True


def ray_workers(process: int) -> list[int]:
    """The Ray workers below a process."""
    parents, workers = {}, []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if (folder / "cmdline").read_bytes().startswith(b"ray::RemoteWorker"):
                workers.append(int(folder.name))
        except (OSError, ValueError):
            continue  # it has ended

    def below(child: int) -> bool:
        return child == process or (child in parents and below(parents[child]))

    return [worker for worker in workers if below(worker)]


def kill_a_worker(process: int, out: Path, reached: int, rng: random.Random) -> bool:
    """Kill one of the workers of a run when it has so many bytes; whether there was one. The run must go on."""
    patience, found = time.monotonic() + 300, []
    while time.monotonic() < patience and not found:
        if os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            break
        if size(out) >= reached:
            found = ray_workers(process)
        time.sleep(0.005)
    for worker in rng.sample(found, min(1, len(found))):
        os.kill(worker, signal.SIGKILL)
    ended(process, out, 0)
    return bool(found)


def wrong(out: Path, truth: dict[str, bytes]) -> str:
    """How a finished directory differs from an undisturbed one."""
    found = rows(out)
    if found.keys() != truth.keys():
        return f"other tables: {sorted(found.keys() ^ truth.keys())[:3]}"
    if different := [name for name in truth if found[name] != truth[name]]:
        return f"{len(different)} tables differ, {different[0]} first"
    left = [str(file) for file in out.rglob("*.tmp")]
    return f"left behind: {left[0]}" if left else ""


def disturb(out: Path, truth: int, workers: int, rng: random.Random) -> str:
    """One round on a directory; what happened in it."""
    kind = rng.choice(("kill", "kill", "worker" if workers else "full", "two"))
    if kind == "worker":
        killed = kill_a_worker(work(out, workers, None), out, size(out) + rng.randrange(truth // 3), rng)
        return "a worker was killed" if killed else "done"
    if kind == "full":
        full = ended(work(out, workers, rng.randrange(500, 12_000)), out, 0, 2)
        return "full disk" if full else "done"
    processes = [work(out, workers, None) for _ in range(1 + (kind == "two"))]
    killed = kill_at(processes[0], out, size(out) + rng.randrange(truth // 3), rng)
    for other in processes[1:]:
        ended(other, out, 0)
    return f"{'killed' if killed else 'done'}{', the other writer went on' if kind == 'two' else ''}"


def main() -> None:
    """So many rounds, then what came of them; exit code 1 if a directory was not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=0)
    given = parser.parse_args()
    for kind in registry.KINDS.values():
        kind.entries()  # before forking, so that no round pays for it
    rng, seen, compared, bad = random.Random(given.seed), Counter[str](), 0, []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ended(work(folder / "truth", 0, None), folder / "truth", 0)
        truth = rows(folder / "truth")
        total = size(folder / "truth")
        print(f"undisturbed: {len(truth)} tables, {total} bytes", flush=True)
        for turn in range(given.rounds):
            out = folder / f"run-{compared}"
            seen[disturb(out, total, given.workers, rng)] += 1
            if turn == given.rounds - 1:
                ended(work(out, given.workers, None), out, 0)
            if len(list(out.glob("cells/*/done.json"))) == len(list((folder / "truth").glob("cells/*/done.json"))):
                compared += 1
                bad += [problem] if (problem := wrong(out, truth)) else []
    print(f"{given.rounds} rounds ({', '.join(f'{what}: {n}' for what, n in seen.items())})")
    print(f"{compared} directories finished and compared, {len(bad)} not as undisturbed", *bad)
    sys.exit(1 if bad or not compared else 0)


if __name__ == "__main__":
    main()
