"""`new explainer`: the files it writes work at once, inside a checkout and as a plugin; nothing is overwritten."""

from __future__ import annotations

import importlib.metadata
import json
import runpy
import subprocess
import tomllib
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from slalom_bench import registry
from slalom_bench.commands.check import check_command, resolve
from slalom_bench.commands.new import new_command
from slalom_bench.contract.checking import check
from slalom_bench.contract.scaffold import class_name, module_name, new
from slalom_bench.errors import InvalidInput, SlalomBenchError, UnknownName
from slalom_bench.running.suite import load_suite
from slalom_bench.showing.cards import card

runner = CliRunner()


def invoke(command, *arguments: str):
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(command)
    result = runner.invoke(app, list(arguments))
    if isinstance(result.exception, SlalomBenchError):
        raise result.exception
    return result


@pytest.fixture
def fake_checkout(tmp_path, monkeypatch):
    (tmp_path / "explainers").mkdir()
    (tmp_path / "explainers" / "__init__.py").touch()
    (tmp_path / "slalom_bench").mkdir()
    inside = tmp_path / "tests" / "explainers"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    return tmp_path


def test_a_new_explainer_passes_the_contract(tmp_path, scratch):
    written = new("explainer", "brand-new", tmp_path)
    (factory,) = resolve(str(written.files[0]))
    report = check(factory)
    assert report.explainer == "brand-new"
    verdicts = {finding.rule: finding.verdict for finding in report.findings}
    assert verdicts.pop("conservation") == "skip"  # for relevance propagation alone
    assert set(verdicts.values()) == {"pass"}, str(report)


def test_its_own_tests_pass_as_a_plugin(tmp_path, monkeypatch, scratch):
    test = new("explainer", "brand-new-tested", tmp_path).files[1]
    monkeypatch.syspath_prepend(str(tmp_path))
    tests = runpy.run_path(str(test))
    assert [name for name in tests if name.startswith("test_")] == [
        "test_it_keeps_the_contract",
        "test_it_finds_the_weights_of_an_additive_model",
    ]
    tests["test_it_finds_the_weights_of_an_additive_model"]()


def test_the_plugin_is_found_through_its_entry_point(tmp_path, monkeypatch, scratch):
    new("explainer", "brand-new", tmp_path)
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text())
    ((name, value),) = project["project"]["entry-points"]["slalom_bench.explainers"].items()
    assert project["tool"]["setuptools"]["py-modules"] == [value.split(":")[0]]
    monkeypatch.syspath_prepend(str(tmp_path))
    point = importlib.metadata.EntryPoint(name, value, "slalom_bench.explainers")
    registry.explainers._add_outside(point)
    entry = registry.explainers.get("brand-new")
    assert (entry.stochastic, entry.family) == (True, "additive")
    assert entry.needs == {"queries"}


def test_in_a_checkout_the_files_go_where_the_registry_looks(fake_checkout):
    result = invoke(new_command, "explainer", "my-method.2")
    assert result.exit_code == 0
    code, test = fake_checkout / "explainers/my_method_2.py", fake_checkout / "tests/explainers/test_my_method_2.py"
    assert '@explainer(\n    "my-method.2",' in code.read_text()
    assert 'check("my-method.2")' in test.read_text()
    assert "slalom-bench check my-method.2" in result.stdout
    assert not (fake_checkout / "pyproject.toml").exists()
    for file in (code, test):
        compile(file.read_text(), str(file), "exec")


KINDS = ("explainer", "metric", "task", "model")


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_passes_the_projects_own_lint_and_its_own_tests_in_a_checkout(kind, fake_checkout, scratch):
    ruff = pytest.importorskip("ruff").find_ruff_bin()
    root = Path(__file__).parents[2]
    if not (root / "pyproject.toml").is_file():
        pytest.skip("not a checkout")
    written = new(kind, f"brand-new-{kind}")
    for arguments in (["check"], ["format", "--check"]):
        command = [ruff, *arguments, "--no-cache", "--config", str(root / "pyproject.toml"), *map(str, written.files)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    code, test = written.files
    runpy.run_path(str(code))  # it registers, as the registry would have it do
    entry = registry.KINDS[kind].get(f"brand-new-{kind}")
    assert card(entry).lacking == []  # what the documentation wants of every one
    _run_tests(test)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_works_as_a_package_of_ones_own(kind, tmp_path, monkeypatch, scratch):
    written = new(kind, f"plugged-{kind}", tmp_path)
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text())
    ((name, value),) = project["project"]["entry-points"][f"slalom_bench.{kind}s"].items()
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.metadata.EntryPoint(name, value, f"slalom_bench.{kind}s").load()
    assert registry.KINDS[kind].find(f"plugged-{kind}") is not None
    _run_tests(written.files[1])


def _run_tests(file: Path) -> None:
    """Every test of a file; the contract of an explainer is checked elsewhere."""
    tests = {name: test for name, test in runpy.run_path(str(file)).items() if name.startswith("test_")}
    assert tests
    for name, test in tests.items():
        if name != "test_it_keeps_the_contract":
            test()


def test_a_new_suite_is_one_that_can_be_run(fake_checkout, tmp_path):
    (inside,) = new("suite", "brand-new").files
    assert inside == fake_checkout / "slalom_bench" / "suites" / "brand-new.toml"
    (outside,) = new("suite", "brand-new", tmp_path / "own").files
    assert load_suite(str(outside)).samples == 20
    assert load_suite(str(outside), "small").budgets == (60,)


def test_nothing_is_overwritten_and_nothing_half_written(fake_checkout):
    test = fake_checkout / "tests/explainers/test_mine.py"
    test.write_text("precious")
    with pytest.raises(InvalidInput, match=r"test_mine\.py exists"):
        new("explainer", "mine")
    assert test.read_text() == "precious"
    assert not (fake_checkout / "explainers/mine.py").exists()


def test_a_plugin_beside_an_existing_project_says_what_to_add(tmp_path):
    (tmp_path / "pyproject.toml").write_text("precious")
    written = new("explainer", "mine", tmp_path)
    assert (tmp_path / "pyproject.toml").read_text() == "precious"
    assert any('mine = "mine:Mine"' in step for step in written.next_steps)


@pytest.mark.parametrize("name", ["My-Method", "../evil", "a/b", "", "-x", "naïve"])
def test_bad_names_are_refused(name, tmp_path):
    with pytest.raises(InvalidInput, match="lower-case"):
        new("explainer", name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_names_that_are_taken_kinds_that_are_unknown_and_places_that_are_no_checkout(tmp_path, monkeypatch):
    with pytest.raises(InvalidInput, match="there already"):
        new("explainer", "lime", tmp_path)
    with pytest.raises(UnknownName, match="explainer"):
        invoke(new_command, "law", "mine")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match="--directory"):
        new("explainer", "mine")


def test_names_in_python():
    assert [module_name(n) for n in ("my-method", "a.b", "3d", "import")] == [
        "my_method",
        "a_b",
        "explainer_3d",
        "explainer_import",
    ]
    assert [class_name(n) for n in ("my-method", "a.b", "3d", "none")] == [
        "MyMethod",
        "AB",
        "Explainer3d",
        "ExplainerNone",
    ]


# ---- check, as a command ----


def test_check_prints_one_line_a_rule_and_exits_by_the_verdict():
    good = invoke(check_command, "zero", "--rule", "shape", "--rule", "planted-signal")
    assert good.exit_code == 0
    assert "pass  shape: 12 finite numbers" in good.stdout
    assert "skip  planted-signal: declared a baseline" in good.stdout


def test_what_a_file_raises_forges_no_line_of_the_check(tmp_path, scratch):
    path: Path = new("explainer", "brand-new", tmp_path).files[0]
    body = path.read_text().replace(
        "def explain(", "def explain(*_): raise RuntimeError('a\\u202eb\\nerror: c')\n    def was("
    )
    path.write_text(body)
    result = invoke(check_command, str(path), "--rule", "shape")
    assert result.exit_code == 1
    assert "raised RuntimeError: a\ufffdb error: c" in result.stdout


def test_check_as_json_of_a_file_that_fails(tmp_path, scratch):
    path: Path = new("explainer", "brand-new", tmp_path).files[0]
    path.write_text(path.read_text().replace("stochastic=True", "stochastic=False"))
    result = invoke(check_command, str(path), "--rule", "other-seed", "--json")
    assert result.exit_code == 1
    (report,) = json.loads(result.stdout)
    assert (report["explainer"], report["passed"]) == ("brand-new", False)
    assert report["findings"][0]["rule"] == "other-seed"


def test_check_needs_a_name_or_all(tmp_path):
    with pytest.raises(InvalidInput, match="--all"):
        invoke(check_command)
    with pytest.raises(InvalidInput, match="--all"):
        invoke(check_command, "zero", "--all")
    with pytest.raises(InvalidInput, match="no file"):
        invoke(check_command, str(tmp_path / "nothing.py"))
    (tmp_path / "empty.py").write_text("")
    with pytest.raises(InvalidInput, match="registers no explainer"):
        invoke(check_command, str(tmp_path / "empty.py"))
