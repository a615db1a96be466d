"""Shared fixtures: data that is there only where SLALOM_BENCH_DATA says so, and an own cache for every test run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from slalom_bench import registry
from slalom_bench.backends.closed_forms import slalom_transformer
from slalom_bench.core.options import ModelOptions
from slalom_bench.core.references import Ref
from slalom_bench.core.types import DataSource, Example, TaskData
from slalom_bench.handle.classifier import Classifier
from slalom_bench.running.loading import LoadedTask, Loader, Subject
from slalom_bench.running.opened import Mode
from slalom_bench.running.plan import make_plan
from slalom_bench.running.runner import Runner, RunResult
from slalom_bench.running.store import RunStore
from slalom_bench.running.suite import Suite, make_suite


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--run-slow", action="store_true", help="run tests that take minutes")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    skip_slow = pytest.mark.skip(reason="takes minutes: pass --run-slow")
    for item in items:
        if "slow" in item.keywords and not config.getoption("--run-slow"):
            item.add_marker(skip_slow)
        if "gpu" in item.keywords and not _has_cuda():
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many cases the fuzz has tried."""
    reports = [report for each in ("passed", "failed") for report in terminalreporter.stats.get(each, ())]
    found = [value for report in reports for name, value in report.user_properties if name == "fuzz"]
    if found:
        results, findings, refused, failed = map(sum, zip(*found, strict=True))
        terminalreporter.write_line(
            f"fuzz: {results + findings + refused} cases: {results} results, {findings} with findings (exit code 1), "
            f"{refused} refused in one line, {failed} did not hold"
        )


def _has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests neither read nor write the user's model cache, and never ask the hub."""
    monkeypatch.setenv("SLALOM_BENCH_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def data_dir() -> Path:
    """The development data, where it is."""
    folder = os.environ.get("SLALOM_BENCH_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("SLALOM_BENCH_DATA names no data directory")
    return Path(folder)


@pytest.fixture
def scratch() -> Iterator[None]:
    """Registrations made in a test vanish with it."""
    with ExitStack() as stack:
        for kind in registry.KINDS.values():
            stack.enter_context(kind.scratch())
        yield


NASTY = "<img src=x onerror=alert(1)>"
VALUE = {"good": 1.0, "bad": -1.0, "film": 0.1, "the": 0.0, "very": 0.3, "plot": -0.4}
IMPORTANCE = {"good": 1.0, "bad": 1.2, "film": -0.5, "the": -1.0, "very": -0.7, "plot": 0.3}
TEXTS = (
    f"the very good film {NASTY} plot",
    "the bad film and plot",
    "good good bad very the film",
    "very bad plot",
    "good plot the film very very bad",
    "the film",
    "bad bad film good",
    "plot plot good very",
    "bad",
)
EXPLAINERS = ("leave-one-out", "linear-deletion", "zero", "random", "slalom-fidel")


class Lab:
    """Makes runs."""

    def subject(self, model: str = "slalom-transformer", *, shift: float = 0.0) -> Subject:
        every = tuple(Example(f"s{i}", text, label=i % 2) for i, text in enumerate(TEXTS))
        source = DataSource("generated", "test", "c" * 64)
        data = TaskData("synthetic-slalom", source, ("neg", "pos"), every, every)
        backend = slalom_transformer({**VALUE, "good": 1.0 + shift}, IMPORTANCE)
        return Subject(LoadedTask(Ref.parse("synthetic-slalom"), data), model, Classifier(backend))

    def run(self, path: Path, *subjects: Subject, samples: int = 9, **values) -> Path:
        defaults = {
            "name": "test",
            "tasks": ("synthetic-slalom",),
            "models": ("slalom-transformer",),
            "budgets": (30, 60),
            "explainers": EXPLAINERS,
            "metrics": ("strict-fidelity:largest=2", "deletion"),
        }
        self.call(path, make_suite(**(defaults | values)), *subjects, samples=samples)
        return path

    def reseal(self, path: Path) -> None:
        """What a test wrote into the tables of a run counts as computed."""
        for cell in RunStore(path).cells():
            if (said := cell.marker.read()) is not None:
                cell.commit(said["samples"], cell.labels())

    def loader(self, *subjects: Subject, removal: str = "delete") -> Loader:
        """A loader that has these subjects already."""
        loader = Loader(ModelOptions(device="cpu"))
        for subject in subjects:
            loader.put(subject, removal)
        return loader

    def call(self, path: Path, suite: Suite, *subjects: Subject, samples: int = 9, mode: Mode = "resume") -> RunResult:
        """Run a suite on subjects that are loaded already."""
        chosen = subjects or (self.subject(),)
        loader = self.loader(*chosen, removal=suite.removal)
        plan = make_plan(suite, [subject.planned(samples) for subject in chosen])
        runner = Runner(suite, plan, RunStore(path), loader, mode)
        return runner.run(["slalom-bench", "run", "--out", "/home/me/x"])


@pytest.fixture(scope="session")
def lab() -> Lab:
    return Lab()


@pytest.fixture(scope="session")
def finished(lab, tmp_path_factory) -> Path:
    """A run with a full model and an embedded one; not to be changed."""
    return lab.run(tmp_path_factory.mktemp("runs") / "finished", lab.subject(), lab.subject("mini-bert", shift=0.2))


@pytest.fixture(scope="session")
def browser():
    """Chromium of the system, driven by Playwright."""
    sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium is installed")
    flags = [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ]
    with sync.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=os.fspath(program), args=flags)
        yield opened
        opened.close()
