"""What is tried: each area makes the case of a number, the same one every time."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random

from calling import Case, call
from making import NUMBERS, STRINGS, change, spelled, text, torn
from serving import serve

from slalom_bench import registry
from slalom_bench.backends.closed_forms import bag_of_words
from slalom_bench.core.options import Availability, Outline
from slalom_bench.results.statistics import summarise
from slalom_bench.results.submission import Submission

TASK = "synthetic-linear:evaluation_size=9,train_size=9"
"""No case needs its 5,500 texts, which take longer to draw than most cases."""
QUICK = ("--budget", "30", "--samples", "2", "--metric", "deletion", "--metric", "fidelity-few:masks=5")


def register_words() -> None:
    """A model in closed form that reads any text: nothing is loaded, so that a case takes no time."""
    if registry.models.find("words") is not None:
        return

    @registry.model("words", version=1)
    class Words:
        """A bag of a few words."""

        def load(self, task, options):
            return bag_of_words({"good": 1.0, "bad": -1.0, "film": 0.1, "very": 0.3}, specials=True)

        def availability(self, task_name, options):
            return Availability("shipped")  # so that explaining a text reads no data

        def outline(self, task, options):
            return Outline()


def _shown(rng: Random) -> tuple[str, ...]:
    """Now and then a run's tables and report are made too, which takes longer than the run."""
    return () if rng.random() < 0.15 else ("--json",)


# ---- texts ----


def texts(rng: Random) -> Case:
    """A text to be explained."""
    words = ["explain", "--model", "mini-bert" if rng.random() < 0.02 else "words", "--budget", "30"]
    words += ["--explainer", rng.choice(("zero", "leave-one-out", "lime", "linear-deletion", "slalom-fidel"))]
    given = text(rng)
    made: dict[str, bytes] = {}
    if rng.random() < 0.3 or given.startswith("-") or "\0" in given:
        data = given.encode("utf-8", "surrogatepass")
        made["text.txt"] = torn(data, rng) if rng.random() < 0.3 else data
        words += ["--text-file", rng.choice(("text.txt", "text.txt", "nope.txt", "."))]
    else:
        words += [given]
    shown = (["--json"], ["--json"], ["--html", "page.html"], ["--html", "."])
    words += ["--plot", "p.svg"] if rng.random() < 0.02 else rng.choice(([], [], *shown))
    words += rng.choice(([], [], [], ["--max-tokens", "3"], ["--target", rng.choice(STRINGS) or "0"]))
    return Case(words, _files(made))


# ---- parameters ----


NAMES = ("token", "position", "zero", "eff", "fidel", "few", "many", "plain", "trained", "delete", "mask", "1,2", "a|b")


@cache
def _parameters() -> tuple[tuple[str, str, str], ...]:
    kinds = ("explainer", "metric", "task", "model", "removal")
    slow = {"imdb"}  # reads 25,000 texts
    return tuple(
        (kind, entry.name, name)
        for kind in kinds
        for entry in registry.KINDS[kind].entries()
        if entry.name not in slow
        for name in (*entry.parameters, "unknown")
    )


def parameters(rng: Random) -> Case:
    """A parameter of something registered, with a value that it may or may not take."""
    kind, owner, name = rng.choice(_parameters())
    if name == "unknown" and rng.random() < 0.8:
        return parameters(rng)
    given = rng.choice(((*NUMBERS, 1, 2, 3, 0.25), (*NUMBERS, 1, 2, 3, 0.25), STRINGS, NAMES))
    given = rng.choice(given)
    spelling = given if isinstance(given, str) else json.dumps(given)
    chosen = {"task": TASK, "model": "bag-of-words", "explainer": "zero", "metric": "deletion"}
    chosen[kind] = f"{owner}:{name}={spelling}"
    if kind == "explainer" and rng.random() < 0.2:
        chosen["metric"] = "strict-fidelity:masks=3"
    words = [part for key, each in chosen.items() for part in (f"--{key}", each.replace("\0", "0"))]
    budget = "30" if rng.random() < 0.85 else str(rng.choice((1, 5, 0, -1, 10**9, "x", "1,2", 2**70)))
    return Case(
        [
            "run",
            *words,
            "--budget",
            budget,
            "--samples",
            "1",
            "--out",
            "out",
            "--data-dir",
            ".",
            "--no-train",
            *_shown(rng),
        ]
    )


# ---- suites ----


def suites(rng: Random) -> Case:
    """A suite file."""
    suite = {
        "name": "mine",
        "tasks": [TASK],
        "models": ["bag-of-words"],
        "explainers": ["zero", "leave-one-out"],
        "metrics": ["deletion"],
        "budgets": [30],
        "samples": 2,
        "seeds": [0],
        "removal": "delete",
    }
    for _ in range(rng.randrange(3)):
        changed = change(suite, rng)
        suite = changed if isinstance(changed, dict) else suite
    lines = [f"{json.dumps(key)} = {_toml(each)}" for key, each in suite.items() if each is not None]
    lines += rng.choice(([], [], ["[scales.paper]", "samples = 1"], ["[scales]", "paper = 3"]))
    data = "\n".join(lines).encode("utf-8", "surrogatepass")
    if rng.random() < 0.3:
        data = torn(data, rng)
    words = ["run", "--suite", "suite.toml", *rng.choice(([], ["--scale", "paper"], ["--dry-run"])), *_shown(rng)]
    return Case(words, _files({"suite.toml": data}))


def _toml(data: object) -> str:
    if isinstance(data, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(each)}" for key, each in data.items()) + "}"
    if isinstance(data, list):
        return "[" + ", ".join(map(_toml, data)) + "]"
    return '""' if data is None else json.dumps(data, ensure_ascii=False)


# ---- data ----


def data(rng: Random) -> Case:
    """A file of texts."""
    columns = {"text": text, "label": lambda rng: rng.randrange(2), "id": lambda rng: str(rng.randrange(99))}
    columns["marks"] = lambda rng: [0, 1]
    rows = [{name: make(rng) for name, make in columns.items()} for _ in range(rng.randrange(1, 5))]
    for _ in range(rng.randrange(3)):
        changed = change(rows, rng)
        rows = changed if isinstance(changed, list) else rows
    kind = rng.choice(("jsonl", "jsonl", "csv", "tsv", "parquet", "txt", ""))
    if kind in ("csv", "tsv"):
        mark = "," if kind == "csv" else "\t"
        quoted = [
            ['"' + str(each).replace('"', '""') + '"' for each in row.values()] for row in rows if isinstance(row, dict)
        ]
        made = "\n".join(map(mark.join, [list(columns), *quoted])).encode("utf-8", "surrogatepass")
    elif kind == "parquet":
        made = _parquet(rows, rng)
    else:
        made = b"\n".join(spelled(row, rng) for row in rows)
    if rng.random() < 0.3:
        made = torn(made, rng)
    task = f"text:data.{kind}" + rng.choice(("", "", ",id_column=id", ",marks_column=marks", ",label_column=nope"))
    task += rng.choice(("", "", ",class_names=a|b", ",train_file=data.jsonl", ",text_column=id"))
    words = ["run", "--task", task, "--model", "words", "--explainer", "zero", *QUICK, "--out", "out", *_shown(rng)]
    if rng.random() < 0.1:
        words = ["score", "samples.jsonl", "--write-samples", "--task", task, "--model", "words"]
    return Case(words, _files({f"data.{kind}": made}))


def _parquet(rows: list[object], rng: Random) -> bytes:
    import io

    import pandas as pd

    buffer = io.BytesIO()
    try:
        pd.DataFrame([row for row in rows if isinstance(row, dict)]).to_parquet(buffer)
    except Exception:  # no table can be made of these
        return b"PAR1" + rng.randbytes(50)
    return buffer.getvalue()


# ---- explanations from outside ----


def explanations(rng: Random) -> Case:
    """A file of explanations for `score`."""
    ids = [f"evaluation-0-{i}" for i in range(2)]
    rows: list[object] = [{"id": name, "scores": [0.5] * length} for name, length in zip(ids, _lengths(), strict=True)]
    rows[0]["surrogate"] = rng.choice(({"kind": "linear"}, None, {"kind": "slalom", "value": [0.1], "importance": [1]}))
    for _ in range(rng.randrange(3)):
        changed = change(rows, rng)
        rows = changed if isinstance(changed, list) else rows
    made = b"\n".join(spelled(row, rng) for row in rows)
    if rng.random() < 0.3:
        made = torn(made, rng)
    where = ["--task", TASK, "--model", "bag-of-words", "--samples", "2", "--metric", "deletion"]
    return Case(["score", "mine.jsonl", *where, "--out", "out"], _files({"mine.jsonl": made}))


@cache
def _lengths() -> tuple[int, ...]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "s.jsonl")
        call(
            [
                "score",
                str(file),
                "--write-samples",
                "--task",
                TASK,
                "--model",
                "bag-of-words",
                "--samples",
                "2",
            ]
        )
        return tuple(len(json.loads(line)["tokens"]) for line in file.read_text().splitlines())


# ---- checkpoints ----


@cache
def _checkpoint() -> dict[str, bytes]:
    """A small BERT with random weights and words of its own."""
    from slalom_bench.backends.architectures import architecture_named
    from slalom_bench.backends.architectures.base import Size
    from slalom_bench.backends.hf_files import save_backend
    from slalom_bench.backends.torch_backend import HFBackend

    architecture = architecture_named("bert")
    tokens = architecture.word_tokens(["good", "bad", "film"])
    size = Size(len(tokens), tokens.pad_id, ("no", "yes"), layers=1, width=16, positions=32)
    module = architecture.random_classifier(size).eval()
    with tempfile.TemporaryDirectory() as name:
        save_backend(HFBackend(module, tokens, name="small", class_names=("no", "yes")), Path(name))
        return {file.name: file.read_bytes() for file in Path(name).iterdir()}


def checkpoints(rng: Random) -> Case:
    """A directory with a checkpoint, one of its files bad."""
    files = dict(_checkpoint())
    name = rng.choice(sorted(files))
    if name.endswith(".json") and rng.random() < 0.7:
        files[name] = spelled(change(json.loads(files[name]), rng), rng)
    elif rng.random() < 0.15:
        del files[name]
    else:
        files[name] = torn(files[name], rng)
    words = ["explain", "good film bad", "--model", "hf:./model", "--explainer", "leave-one-out", "--budget", "30"]
    return Case(words, _files({f"model/{file}": made for file, made in files.items()}))


# ---- run directories ----

SHOWS = (
    ("report", "run"),
    ("submit", "run", "--out", "results"),
    ("export", "run"),
    ("export", "run", "--format", "latex"),
    ("export", "run", "--format", "parquet"),
    ("compare", "run", "whole"),
    ("agreement", "run"),
    ("power", "run"),
    ("removals", "run", "whole"),
    ("carry-over", "whole", "run"),
    ("merge", "run", "whole", "--out", "joined"),
)
RUN = ("run", "--task", TASK, "--model", "bag-of-words", "--explainer", "zero", "--explainer", "random")


@cache
def _run() -> Path:
    """A finished run, to be copied."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-run-"))
    import atexit

    atexit.register(shutil.rmtree, folder, True)
    outcome = call([*RUN, "--explainer", "leave-one-out", *QUICK, "--out", str(folder / "run")])
    assert outcome.code == 0, outcome
    return folder / "run"


def runs(rng: Random) -> Case:
    """A run directory with one file bad, under every command that reads or goes on with it.

    Of the records of another shape, half are of somebody who made the checksums of the cell anew.
    """
    source = _run()
    files = sorted(file.relative_to(source) for file in source.rglob("*") if file.suffix in (".json", ".jsonl"))
    chosen, fault = rng.choice(files), rng.randrange(10)
    words = rng.choice(
        (*SHOWS, *((*RUN, *QUICK, "--out", "run", "--mode", mode) for mode in ("resume", "restart", "score-only")))
    )
    state = rng.getstate()

    def prepare(folder: Path) -> None:
        own = Random()
        own.setstate(state)
        shutil.copytree(source, folder / "run")
        shutil.copytree(source, folder / "whole")
        file = folder / "run" / chosen
        whole = file.read_bytes()
        if fault == 0:
            file.unlink()
        elif fault == 1:
            file.unlink()
            file.mkdir()
        elif fault == 2:
            file.unlink()
            file.symlink_to(own.choice(("nowhere", "/dev/zero", "/dev/null", "..", file.name)))
        elif fault == 3:
            file.unlink()
            os.mkfifo(file)
        elif fault < 6:
            file.write_bytes(torn(whole, own))
        else:
            lines = [json.loads(line) for line in ([whole] if file.suffix == ".json" else whole.splitlines())]
            at = own.randrange(len(lines))
            lines[at] = change(lines[at], own)
            file.write_bytes(b"".join(spelled(line, own) + b"\n" for line in lines))
            if fault > 7 and chosen.suffix == ".jsonl" and chosen.parts[0] == "cells":
                _seal(folder / "run" / Path(*chosen.parts[:2]), Path(*chosen.parts[2:]).as_posix())

    return Case(words, prepare)


def _seal(cell: Path, table: str) -> None:
    """Make the checksum of a table anew in its cell's marker."""
    marker, made = json.loads((cell / "done.json").read_text()), (cell / table).read_bytes()
    marker["tables"][table] = [len(made), hashlib.sha256(made).hexdigest()]
    (cell / "done.json").write_text(json.dumps(marker))


# ---- submissions ----

SIMULATE = (
    "simulate",
    "--repetitions",
    "1",
    "--flips",
    "19",
    "--texts",
    "20",
    "--methods",
    "3",
    "--law",
    "t3",
    "--like",
)


@cache
def _submission() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        assert call(["submit", str(_run()), "--out", folder]).code == 0
        (file,) = Path(folder).glob("*.json")
        return file.read_bytes()


@cache
def _attestation() -> tuple[str, bytes]:
    """The record of a reviewer who computed it again, and its name."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, Submission.model_validate_json(_submission()).file_name)
        file.write_bytes(_submission())
        outcome = call(["verify", str(file), "--recompute", "all", "--attest"])
        assert outcome.code == 0, outcome
        (record,) = Path(folder, "attested").iterdir()
        return record.name, record.read_bytes()


def _sealed(data: object) -> tuple[str, object]:
    """A submission of somebody who knows what is checked: numbers follow from its values, its name from its content."""
    made = copy.deepcopy(data)
    try:
        for row in made["rows"]:  # type: ignore[index]
            for result in row["results"].values():
                result |= vars(summarise(result["values"]))
        return Submission.model_validate(made).file_name, made
    except Exception:  # nothing that could be sealed
        return "bad.json", data


def submissions(rng: Random) -> Case:
    """A stranger's file beside an honest one, half of them sealed; now and then the record of a reviewer is bad."""
    bad = json.loads(_submission())
    for _ in range(rng.randrange(1, 3)):
        bad = change(bad, rng)
    name, bad = _sealed(bad) if rng.random() < 0.5 else ("bad.json", bad)
    made = spelled(bad, rng) if rng.random() < 0.85 else torn(_submission(), rng)
    files = {f"results/{_sealed(json.loads(_submission()))[0]}": _submission(), f"results/{name}": made}
    if rng.random() < 0.3:
        record, honest = _attestation()
        forged = spelled(change(json.loads(honest), rng), rng) if rng.random() < 0.8 else torn(honest, rng)
        files[f"results/attested/{record}"] = forged
    words = rng.choice(
        (
            ["verify", f"results/{name}"],
            ["leaderboard", "--out", "boards", "--results", "results"],
            ["leaderboard", "--out", "boards", "--results", "results"],
            [*SIMULATE, f"results/{name}"],
        )
    )
    return Case(words, _files(files))


# ---- endpoint ----


def endpoints(rng: Random) -> Case:
    """A chat endpoint that answers badly."""
    listed = [{"token": label, "logprob": -0.7} for label in ("positive", "negative", "The")]
    reply: object = {"choices": [{"message": {"content": "x"}, "logprobs": {"content": [{"top_logprobs": listed}]}}]}
    for _ in range(rng.randrange(3)):
        reply = change(reply, rng)
    body = spelled(reply, rng)
    if rng.random() < 0.3:
        body = torn(body, rng)
    status = rng.choice((200, 200, 200, 200, 200, 204, 301, 400, 401, 429, 500, 999))
    address = serve(status, body, cut=rng.random() < 0.1)
    words = [
        "explain",
        "good film",
        "--model",
        "openai:m,attempts=1,timeout=5",
        "--base-url",
        address,
        "--budget",
        "12",
    ]
    return Case([*words, "--explainer", rng.choice(("leave-one-out", "lime"))])


def _files(files: dict[str, bytes]) -> Callable[[Path], None]:
    def prepare(folder: Path) -> None:
        for name, made in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(made)

    return prepare


AREAS: dict[str, tuple[Callable[[Random], Case], int]] = {
    "texts": (texts, 300),
    "parameters": (parameters, 500),
    "suites": (suites, 250),
    "data": (data, 300),
    "explanations": (explanations, 150),
    "checkpoints": (checkpoints, 100),
    "runs": (runs, 300),
    "submissions": (submissions, 150),
    "endpoints": (endpoints, 100),
}
"""Each with its share of 2,150 cases."""


def make(area: str, seed: int, number: int) -> Case:
    """The case of a number."""
    return AREAS[area][0](Random(f"{area} {seed} {number}"))
