"""The same from Python as from the command line: `slalom_bench.run(...)`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slalom_bench.errors import InvalidInput
from slalom_bench.running.suite import Suite, make_suite

if TYPE_CHECKING:
    from slalom_bench.running.opened import Mode
    from slalom_bench.running.progress import Reporter
    from slalom_bench.showing.finished import Finished

DEFAULT_MODEL = "mini-bert"


def build_suite(
    suite: str | None = None,
    *,
    task: Sequence[str] = (),
    model: Sequence[str] = (),
    explainer: Sequence[str] = (),
    metric: Sequence[str] = (),
    budget: Sequence[int] = (),
    samples: int | None = None,
    seed: Sequence[int] = (),
    protocol: str | None = None,
    removal: str | None = None,
    max_tokens: int | None = None,
    target: int | str | None = None,
    scale: str | None = None,
) -> Suite:
    """A named suite with changes, or one made of a task: then every explainer and every metric that applies is run.

    Args:
        suite: a built-in suite's name or a TOML file.
        task: references of tasks (`imdb`, `text:FILE`).
        model: references of models; mini-bert where neither suite nor model is given.
        explainer: references of explainers.
        metric: references of metrics; all that apply unless given.
        budget: model queries for one sample.
        samples: how many texts.
        seed: seeds of stochastic explainers and of masks.
        protocol: bench or paper.
        removal: the removal rule's reference.
        max_tokens: cut texts to so many content tokens.
        target: the class to explain, by number or name; class 1 of two and the predicted one of more unless given.
        scale: one of the suite's own scales.

    Returns:
        The checked suite.

    >>> build_suite("smoke", samples=2).samples
    2
    """
    from slalom_bench import registry
    from slalom_bench.running.suite import load_suite

    given: dict[str, Any] = {
        "tasks": tuple(task) or None,
        "models": tuple(model) or None,
        "explainers": tuple(explainer) or None,
        "metrics": tuple(metric) or None,
        "budgets": tuple(budget) or None,
        "samples": samples,
        "seeds": tuple(seed) or None,
        "protocol": protocol,
        "removal": removal,
        "max_tokens": max_tokens,
        "target": target,
    }
    given = {key: value for key, value in given.items() if value is not None}
    if suite is not None:
        return load_suite(suite, scale, **given)
    if scale is not None:
        raise InvalidInput("--scale picks a scale of a suite: give --suite too")
    if not task:
        raise InvalidInput(f"give --suite ({', '.join(registry.suites.names())}) or --task")
    first = task[0].split(":")[0]
    every = tuple(entry.name for entry in registry.explainers.entries())
    defaults = {"name": f"custom-{first}", "models": (DEFAULT_MODEL,), "explainers": every}
    made = make_suite(**(defaults | given))
    made.check_names()
    return made


def run(
    suite: str | Suite | None = None,
    *,
    out: str | Path | None = None,
    mode: Mode = "resume",
    retry_failed: bool = False,
    device: str = "auto",
    dtype: str = "float32",
    token_budget: int | None = None,
    data_dir: str | Path | None = None,
    reporter: Reporter | None = None,
    command: list[str] | None = None,
    model_options: dict[str, Any] | None = None,
    workers: int | None = None,
    ray_address: str | None = None,
    cpus_per_worker: int | None = None,
    gpus_per_worker: float | None = None,
    shard: str | None = None,
    **what: Any,
) -> Finished:
    """Run a suite, or what is named one by one, into a run directory; the same as `slalom-bench run`.

    Args:
        suite: a built-in suite's name, a TOML file or a `Suite`.
        out: the run directory; the suite's `directory` unless given. What is there already is not computed again.
        mode: `resume` goes on, `restart` begins anew, `score-only` scores what is explained.
        retry_failed: compute samples that failed again; those that failed by a fault of the moment always are.
        device: cpu, cuda, cuda:N, mps or auto.
        dtype: float32 unless a large model must be smaller.
        token_budget: tokens of a batch, where the model's own choice should be overruled.
        data_dir: a folder with the data; else SLALOM_BENCH_DATA.
        reporter: shows progress; `Reporter(show=False)` keeps silent.
        command: the command line that is recorded.
        model_options: further fields of `ModelOptions`.
        workers: compute on so many Ray workers; in this process unless this or an address is given.
        ray_address: a Ray cluster that runs already (`auto`, `ray://HOST:PORT`); else one is started on this machine.
        cpus_per_worker: cores, and threads, of a worker; an equal part of what there is unless given.
        gpus_per_worker: GPUs of a worker, fractions allowed; an equal part of what there is unless given.
        shard: `3/8` for the third of eight parts of the texts, with a run directory of its own.
        **what: `task`, `model`, `explainer`, `metric` (references), `budget`, `seed` (numbers), each one or a list;
            `samples`, `protocol`, `removal`, `max_tokens`, `target`, `scale`: without a suite they are the suite, with
            one they change it. A model may also be an object that `slalom_bench.backends.adopting.adopt` takes.

    Returns:
        What was done, where its results are, and these as frames: `.board()`, `.scores()`.

    >>> import tempfile
    >>> result = run("smoke", samples=1, explainer=["zero"], metric=["deletion"], out=tempfile.mkdtemp())
    >>> result.explained, result.failed
    (2, 0)
    """
    from slalom_bench.core.options import ModelOptions
    from slalom_bench.running.cluster import Cluster
    from slalom_bench.running.progress import Reporter
    from slalom_bench.running.runner import run_suite
    from slalom_bench.running.shards import parse_shard, shard_directory
    from slalom_bench.showing.finished import Finished

    spec = suite if isinstance(suite, Suite) else build_suite(suite, **_as_references(what))
    folder = None if data_dir is None else Path(data_dir)
    options = ModelOptions(device=device, dtype=dtype, data_dir=folder, **(model_options or {}))
    part = parse_shard(shard)
    path = shard_directory(spec.directory, part) if out is None else Path(out)
    cluster = None
    if workers is not None or ray_address is not None:
        cluster = Cluster(workers, ray_address, cpus_per_worker, gpus_per_worker)
    elif cpus_per_worker is not None or gpus_per_worker is not None:
        raise InvalidInput("--cpus-per-worker and --gpus-per-worker need --workers or --ray-address")
    shown = Reporter() if reporter is None else reporter
    return Finished.of(
        run_suite(
            spec,
            path,
            options,
            mode=mode,
            retry_failed=retry_failed,
            token_budget=token_budget,
            reporter=shown,
            command=command,
            cluster=cluster,
            shard=part,
        )
    )


def _as_references(what: dict[str, Any]) -> dict[str, Any]:
    """One thing for a list of it, and references for models that are Python objects."""
    found: dict[str, Any] = dict(what)
    for key in ("task", "explainer", "metric", "budget", "seed"):
        if isinstance(found.get(key), str | int):
            found[key] = [found[key]]
    if "model" not in found:
        return found
    given = found["model"]
    several = isinstance(given, list) or (isinstance(given, tuple) and all(isinstance(one, str) for one in given))
    found["model"] = [_reference(one, found.get("task", ())) for one in (given if several else [given])]
    return found


def _reference(model: Any, tasks: Sequence[str]) -> str:
    """A model's reference; a Python object is remembered under one."""
    if isinstance(model, str):
        return model
    from slalom_bench import registry
    from slalom_bench.backends.adopting import adopt
    from slalom_bench.core.references import Ref
    from slalom_bench.models.python_object import remember

    names = registry.tasks.get(Ref.parse(tasks[0]).name).class_names if tasks else ()
    return remember(adopt(model, tuple(names)))
