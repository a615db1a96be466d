"""Each kind of thing in one file of a package outside the repository: it works in run, report and leaderboard."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FILES = {
    "outside_metric": '''
from slalom_bench import Score, metric

@metric("score-size", version=1, needs=(), direction="higher", unit="log-odds", headline="largest")
class ScoreSize:
    """The largest score."""
    def score(self, classifier, sample, explanation, context):
        return Score({"largest": float(abs(explanation.scores[explanation.primary]).max())})
''',
    "outside_task": '''
from slalom_bench import Example, task
from slalom_bench.core.types import DataSource, TaskData

@task("repeats", version=1, source="made up", licence="none", citation="none", argument="word")
class Repeats:
    """Texts that repeat a word."""
    def __init__(self, word: str = "good") -> None:
        self.word = word
    def load(self, data_dir):
        texts = [Example(f"t{n}", " ".join([self.word] * n + ["film", "the"]), n % 2) for n in range(1, 6)]
        return TaskData("repeats", DataSource("generated", f"repeats of {self.word}", "d" * 64), ("no", "yes"), texts)
''',
    "outside_removal": '''
import numpy as np
from slalom_bench import removal
from slalom_bench.core.sequences import Ragged

@removal("shuffled", version=1)
class Shuffled:
    """A removed token becomes a random one of the same text."""
    closes_gaps = False
    def apply(self, ids, keep, tokens):
        rng = np.random.default_rng(np.asarray(ids, np.int64) % 2**31)
        return Ragged.of(np.where(keep, ids, rng.permutation(ids)))
''',
    "outside_surrogate": '''
import numpy as np
from slalom_bench import surrogate

@surrogate("constant", version=1)
class Constant:
    """Predicts one number."""
    kind = "constant"
    def __init__(self, n, number):
        self.n, self.number = n, number
    def __len__(self):
        return self.n
    def predict(self, keep):
        return np.full(len(keep), self.number)
    def to_dict(self):
        return {"kind": self.kind, "n": self.n, "number": self.number}
    @classmethod
    def from_dict(cls, data):
        return cls(data["n"], data["number"])
''',
    "outside_explainer": '''
import numpy as np
from outside_surrogate import Constant
from slalom_bench import Explanation, explainer

@explainer("flat", version=1, needs={"queries"}, stochastic=False, family="baseline")
class Flat:
    """Position numbers, and a surrogate that knows the full text only."""
    def explain(self, classifier, sample, budget, rng):
        full = float(classifier.log_odds([sample.ids])[0])
        scores = np.arange(len(sample), dtype=float)
        return Explanation({"x": scores}, "x", classifier.target, surrogate=Constant(len(sample), full))
''',
    "outside_model": '''
from slalom_bench import model
from slalom_bench.core.options import Availability

@model("scaled", version=1, family="closed form", argument="factor")
class Scaled:
    """A bag of words whose weights are scaled: `scaled:FACTOR`."""
    def __init__(self, factor: str = "1") -> None:
        self.factor = factor
    def load(self, task, options):
        from slalom_bench.backends.closed_forms import bag_of_words
        words = sorted({word for example in task.evaluation for word in example.text.split()})
        return bag_of_words({word: float(self.factor) * (i + 1) for i, word in enumerate(words)}, specials=True)
    def availability(self, task_name, options):
        return Availability("built-in")
''',
}
POINTS = """[slalom_bench.metrics]
score-size = outside_metric:ScoreSize
[slalom_bench.tasks]
repeats = outside_task:Repeats
[slalom_bench.removals]
shuffled = outside_removal:Shuffled
[slalom_bench.surrogates]
constant = outside_surrogate:Constant
[slalom_bench.explainers]
flat = outside_explainer:Flat
[slalom_bench.models]
scaled = outside_model:Scaled
"""


def package(folder: Path, files: dict[str, str], points: str) -> Path:
    """A package as an installer leaves it: modules and the entry points of its metadata."""
    for name, code in files.items():
        (folder / f"{name}.py").write_text(code)
    info = folder / "outside-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(points)
    return folder


def call(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")]))
    return subprocess.run(
        [sys.executable, "-m", "slalom_bench.cli", *words],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "200"},
    )


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return package(tmp_path_factory.mktemp("outside"), FILES, POINTS)


def test_every_kind_works_in_run_report_and_leaderboard(outside: Path) -> None:
    done = call(
        outside,
        "run",
        "--task",
        "repeats:bad",
        "--model",
        "scaled:2",
        "--explainer",
        "flat",
        "--explainer",
        "leave-one-out",
        "--removal",
        "shuffled",
        "--samples",
        "5",
        "--budget",
        "20",
        "--out",
        "run",
        "--json",
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout
    assert "score-size" in said
    cell = json.loads(next(outside.glob("run/cells/*flat*/cell.json")).read_text())["identity"]
    assert (cell["task"]["name"], cell["model"]["name"]) == ("repeats", "scaled:2")
    assert cell["removal"] == {"name": "shuffled", "version": 1, "params": {}}
    scores = [json.loads(line) for line in next(outside.glob("run/cells/*flat*/scores/score-size@1.jsonl")).open()]
    assert [row["values"]["largest"] for row in scores] == [2.0, 3.0, 4.0, 5.0, 6.0]  # n words, film, the: n + 1
    stored = json.loads(next(outside.glob("run/cells/*flat*/explanations.jsonl")).read_text().splitlines()[0])
    assert stored["explanation"]["surrogate"]["kind"] == "constant"
    assert call(outside, "report", "run").returncode == 0
    report = (outside / "run" / "report.md").read_text()
    assert "score-size" in report
    assert "removal shuffled" in report
    assert call(outside, "submit", "run", "--out", "results").returncode == 0
    board = call(outside, "leaderboard", "--results", "results", "--out", "boards")
    assert board.returncode == 0, board.stderr
    (page,) = outside.glob("boards/repeats-bad-*.md")  # a task with parameters has pages of its own
    assert "flat" in page.read_text()


@pytest.mark.parametrize(
    ("code", "point", "message"),
    [
        (
            "class Plain:\n    def score(self, classifier, sample, explanation, context): ...\n",
            "[slalom_bench.metrics]\nplain = bad:Plain\n",
            "decorate it with @slalom_bench.metric('plain', ...)",
        ),
        (
            "from slalom_bench import explainer\n"
            "@explainer('mine', version=1, needs=(), stochastic=False, family='other')\nclass Mine: ...\n",
            "[slalom_bench.explainers]\nmine = bad:Mine\n",
            "explainer mine (bad:Mine) does not fit: it has no method explain(classifier, sample, budget, rng)",
        ),
        (
            "from slalom_bench import metric\n"
            "@metric('mine', version=1, needs=(), direction='higher', unit='', headline='x')\n"
            "class Mine:\n    def score(self, explanation): ...\n",
            "[slalom_bench.metrics]\nmine = bad:Mine\n",
            "its method score does not take (classifier, sample, explanation, context)",
        ),
        (
            "from slalom_bench import removal\n"
            "@removal('mine', version=1)\nclass Mine:\n    def apply(self, ids, keep, tokens): ...\n",
            "[slalom_bench.removals]\nmine = bad:Mine\n",
            "removal mine (bad:Mine) does not fit: it has no attribute closes_gaps",
        ),
        (
            "from slalom_bench import surrogate\n"
            "@surrogate('mine', version=1)\nclass Mine:\n    kind = 'mine'\n    def __len__(self): return 1\n"
            "    def predict(self, keep): ...\n    def to_dict(self): ...\n",
            "[slalom_bench.surrogates]\nmine = bad:Mine\n",
            "it has no method from_dict(data)",
        ),
    ],
)
def test_a_plug_in_that_does_not_fit_is_refused_with_the_missing_part(tmp_path, code, point, message) -> None:
    folder = package(tmp_path, {"bad": code}, point)
    kind = point.split("]")[0].removeprefix("[slalom_bench.")
    name = point.split("\n")[1].split(" =")[0]
    script = f"from slalom_bench import registry; registry.{kind}.get({name!r})"
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    assert done.returncode == 1
    assert message in done.stderr.splitlines()[-1]
