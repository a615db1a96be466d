"""Names, collisions, parameters, entry points and lazy loading."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

from slalom_bench import registry
from slalom_bench.cli import main
from slalom_bench.entries import ExplainerEntry
from slalom_bench.errors import InvalidInput, NameCollision, UnknownName


def test_every_kind_has_its_in_repository_entries():
    for kind, expected in {
        "explainer": "slalom-fidel",
        "metric": "strict-fidelity",
        "task": "imdb",
        "model": "mini-bert",
        "suite": "smoke",
        "surrogate": "slalom",
        "removal": "delete",
        "law": "few",
    }.items():
        assert expected in registry.KINDS[kind].names()
        entry = registry.KINDS[kind].get(expected)
        assert entry.version >= 1
        assert entry.summary


def test_unknown_names_are_answered_with_the_nearest():
    with pytest.raises(UnknownName, match=r"unknown explainer 'slalom-fidle': did you mean slalom-fidel"):
        registry.explainers.get("slalom-fidle")
    with pytest.raises(UnknownName, match="known: "):
        registry.suites.get("zzzzzz")


def test_collisions_name_both_origins(scratch):
    class Mine:
        """Another lime."""

        def explain(self, classifier, sample, budget, rng): ...

    with pytest.raises(NameCollision, match=r"slalom_bench.explainers.lime:.*Mine"):
        registry.explainer("lime", version=1, needs=(), stochastic=False, family="additive")(Mine)


def test_names_and_parameters_are_checked(scratch):
    class Mine:
        def __init__(self, alpha: float = 1.0) -> None:
            self.alpha = alpha

        def explain(self, classifier, sample, budget, rng): ...

    declared = {"version": 1, "needs": {"queries"}, "stochastic": False, "family": "additive"}
    with pytest.raises(InvalidInput, match=r"'My Method'"):
        registry.explainer("My Method", **declared)(Mine)
    registry.explainer("mine", **declared)(Mine)
    assert registry.explainers.get("mine").build({"alpha": 2.0}).alpha == 2.0
    with pytest.raises(InvalidInput, match="no parameter 'beta'; it takes: alpha"):
        registry.explainers.get("mine").build({"beta": 2.0})


def test_other_packages_register_through_entry_points(tmp_path):
    (tmp_path / "outside.py").write_text(
        "from slalom_bench import explainer\n"
        "@explainer('outside', version=3, needs={'queries'}, stochastic=False, family='additive')\n"
        "class Outside:\n    '''From another package.'''\n    def explain(self, classifier, sample, budget, rng): ...\n"
    )
    info = tmp_path / "outside-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[slalom_bench.explainers]\noutside = outside:Outside\n")
    script = "from slalom_bench import registry as r; e = r.explainers.get('outside'); print(e.version, e.origin)"
    command, path = [sys.executable, "-c", script], {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, env=path)
    assert done.stdout.strip() == "3 outside:Outside"


def test_an_entry_point_cannot_take_a_name_that_is_taken(tmp_path):
    (tmp_path / "outside.py").write_text("class Lime:\n    '''Mine.'''\n")
    info = tmp_path / "outside-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[slalom_bench.explainers]\nlime = outside:Lime\n")
    command = [sys.executable, "-m", "slalom_bench.cli", "list"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 2
    assert "slalom_bench.explainers.lime" in done.stderr
    assert "outside:Lime" in done.stderr


BROKEN = {
    "raising": "raise RuntimeError('broken by design')\n",
    "quitting": "import sys\nsys.exit(0)\n",
    "unreadable": "def\n",
}
WHY = {"raising": "RuntimeError: broken by design", "quitting": "SystemExit: 0", "unreadable": "SyntaxError: "}


@pytest.fixture
def broken(tmp_path, monkeypatch):
    """The registry of explainers as it is where packages with broken plug-ins are installed."""
    for name, code in BROKEN.items():
        (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    points = [EntryPoint(name, f"{name}:Thing", "slalom_bench.explainers") for name in BROKEN]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    fresh = registry.Registry(ExplainerEntry, registry.Explainer)
    fresh._entries = {entry.name: entry for entry in registry.explainers.entries()}
    monkeypatch.setattr(registry, "explainers", fresh)
    monkeypatch.setitem(registry.KINDS, "explainer", fresh)
    return fresh


def test_a_plug_in_is_not_imported_before_its_name_is_asked_for(broken, capsys):
    assert broken.get("lime").name == "lime"
    assert broken.find("nothing") is None
    assert set(BROKEN) < set(broken.names())
    assert not BROKEN.keys() & sys.modules.keys()
    assert capsys.readouterr().err == ""


def test_a_plug_in_that_raises_is_said_once_and_left_out(broken, capsys):
    for _ in range(2):
        assert [entry.name for entry in broken.entries()] == sorted(set(broken.names()) - BROKEN.keys())
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 3
    assert all(any(line.startswith("left out") and why in line for line in said) for why in WHY.values())


@pytest.mark.parametrize("name", BROKEN)
def test_who_asks_for_a_broken_plug_in_is_told_why(broken, name):
    with pytest.raises(InvalidInput, match=f"explainer '{name}' cannot be had from {name}:Thing: {WHY[name]}"):
        broken.get(name)


@pytest.mark.parametrize(
    ("words", "code"),
    [(["list"], None), (["explain", "good", "--explainer", "zero"], None), (["check", "raising"], 2)],
)
def test_commands_work_beside_broken_plug_ins(broken, words, code, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["slalom-bench", *words])
    try:
        stopped = main()
    except SystemExit as error:
        stopped = error.code or None
    assert stopped == code
    assert "Traceback" not in capsys.readouterr().err
