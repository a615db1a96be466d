"""Planning loads no weights; a model is loaded when a cell is taken up and freed when no further cell needs it."""

from __future__ import annotations

import gc
import json
import pickle
import shutil
import weakref
from pathlib import Path

import pytest
from typer.testing import CliRunner

import slalom_bench.models
from slalom_bench import registry
from slalom_bench.backends.closed_forms import bag_of_words
from slalom_bench.cli import app
from slalom_bench.core.options import Availability, ModelOptions, Outline
from slalom_bench.core.tokens import WordTokens
from slalom_bench.errors import InvalidInput, Unsupported
from slalom_bench.running.loading import Loader
from slalom_bench.running.plan import Cell
from slalom_bench.running.runner import run_suite
from slalom_bench.running.suite import make_suite

MINI = Path(slalom_bench.models.__file__).parent / "mini" / "mini-bert"
WORDS = {
    word: i - 4.5
    for i, word in enumerate(["the", "we", "movie", "watch", "good", "best", "perfect", "ok", "bad", "worst"])
}


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A checkpoint's directory with everything but the weights, and a file of texts."""
    shutil.copytree(MINI, tmp_path / "bare", ignore=shutil.ignore_patterns("*.safetensors"))
    rows = [{"text": "a fine film", "label": 1}, {"text": "a dull film of a dull book", "label": 0}]
    (tmp_path / "texts.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return tmp_path


def words(bare: Path, *more: str) -> list[str]:
    return [
        *("run", "--task", f"text:{bare / 'texts.jsonl'}", "--model", f"hf:{bare / 'bare'}", "--samples", "2"),
        *("--explainer", "lime", "--explainer", "attention-avg", "--out", str(bare / "run"), *more),
    ]


def test_a_dry_run_of_a_model_without_weights_prints_the_plan(bare: Path) -> None:
    done = CliRunner().invoke(app, words(bare, "--dry-run"), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    # 3 and 7 words inside [CLS] .. [SEP], 1000 queries each, two explainers
    assert "2 cells; explaining takes at most 4,000 model queries and 28,000 tokens; nothing was stored" in done.output
    assert not (bare / "run").exists()


def test_running_it_says_what_is_missing(bare: Path) -> None:
    with pytest.raises(InvalidInput, match=r"no safetensors weights|cannot load"):
        CliRunner().invoke(app, words(bare), catch_exceptions=False)


def test_a_plan_is_plain_data() -> None:
    cell = Cell(task="imdb", model="mini-bert", explainer="lime", budget=5, seed=0, metrics=("deletion",), samples=2)
    assert Cell.model_validate_json(cell.model_dump_json()) == cell
    assert pickle.loads(pickle.dumps(cell)) == cell


class Fake:
    """A model that records when it is loaded."""

    events: list[str]
    alive: dict[str, weakref.ref]

    def load(self, task, options):
        gc.collect()
        held = [name for name, ref in self.alive.items() if ref() is not None]
        self.events.append(f"load {self.name} beside {held}")
        backend = bag_of_words(WORDS)
        self.alive[self.name] = weakref.ref(backend)
        return backend

    def outline(self, task, options):
        self.events.append(f"outline {self.name}")
        return Outline(frozenset({"queries"}), WordTokens(list(WORDS)))

    def availability(self, task_name, options):
        return Availability("built-in")


def register(*names: str) -> list[str]:
    events: list[str] = []
    alive: dict[str, weakref.ref] = {}
    for name in names:
        cls = type(name.title(), (Fake,), {"name": name, "events": events, "alive": alive})
        registry.model(name, version=1)(cls)
    return events


def suite(*models: str):
    return make_suite(
        name="t",
        tasks=("synthetic-linear:evaluation_size=2,train_size=10",),
        models=models,
        explainers=("zero", "leave-one-out"),
        metrics=("deletion",),
        samples=2,
        budgets=(40,),
    )


def test_models_are_loaded_when_taken_up_and_freed_when_done_with(tmp_path, scratch) -> None:
    events = register("one", "two")
    result = run_suite(suite("one", "two"), tmp_path, ModelOptions(device="cpu"))
    assert result.failed == 0
    assert events == ["outline one", "outline two", "load one beside []", "load two beside []"]


def test_a_model_that_turns_out_not_to_suit_is_a_skip_and_the_rest_is_run(tmp_path, scratch) -> None:
    register("one", "two")

    def refuse(self, task, options):
        raise Unsupported("not today")

    registry.models.get("one").factory.load = refuse
    result = run_suite(suite("one", "two"), tmp_path, ModelOptions(device="cpu"))
    assert {skip.reason for skip in result.skips} == {"not today"}
    assert {identity.model.name for identity in result.identities.values()} == {"two"}
    assert result.explained == 4


def test_planning_skips_what_a_model_does_not_give(scratch) -> None:
    register("one")
    spec = suite("one").model_copy(update={"explainers": ("grad-l2", "zero")})
    plan = Loader(ModelOptions(device="cpu")).plan(spec)
    assert [cell.explainer for cell in plan.cells] == ["zero"]
    assert [skip.reason for skip in plan.skips] == ["needs gradients, which this model does not give"]
