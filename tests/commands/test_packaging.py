"""The wheel holds the whole package under one name and nothing else."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    if not (ROOT / "pyproject.toml").is_file():
        pytest.skip("not a checkout")
    copy = tmp_path_factory.mktemp("source") / "checkout"
    ignore = shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__", "runs")
    shutil.copytree(ROOT, copy, ignore=ignore)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(copy / "dist"), str(copy)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    (built,) = (copy / "dist").glob("*.whl")
    return built


def test_no_top_level_module_leaks(wheel):
    top = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {name for name in top if not name.endswith(".dist-info")} == {"slalom_bench"}


def test_every_source_file_and_weight_is_in_the_wheel(wheel):
    inside = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("tasks", "explainers", "metrics"):
        for file in (ROOT / folder).glob("*.py"):
            assert f"slalom_bench/{folder}/{file.name}" in inside
    for file in (ROOT / "slalom_bench").rglob("*"):
        if file.is_file() and file.suffix != ".pyc":
            assert str(file.relative_to(ROOT)) in inside


def test_the_wheel_works_on_its_own(wheel, tmp_path):
    """Unpacked away from the checkout, with no other slalom_bench on the path, it lists what it holds."""
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    script = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r})\n"
        "import slalom_bench; assert 'site' in slalom_bench.__file__, slalom_bench.__file__\n"
        "from slalom_bench import registry; print(*registry.explainers.names(), *registry.suites.names())\n"
        "import importlib.util as u; print([n for n in ('tasks', 'explainers', 'metrics') if u.find_spec(n)])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "slalom-fidel" in done.stdout
    assert "smoke" in done.stdout
    assert done.stdout.endswith("[]\n")
