"""A copy of the checkout, its wheel, and environments that hold the dependencies and no slalom-bench of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PIP = ("--disable-pip-version-check", "--no-deps", "--no-index", "--no-build-isolation", "-q")


class Environment:
    """A virtual environment that sees the running one's packages but slalom-bench."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "venv"
        venv.create(self.home, symlinks=True)
        self.python = self.home / "bin" / "python"
        links = folder / "dependencies"
        links.mkdir()
        for home in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
            for entry in Path(home).iterdir():
                ours = entry.name.startswith(("slalom_bench", "__editable__"))
                if not ours and entry.suffix != ".pth" and not (links / entry.name).exists():
                    (links / entry.name).symlink_to(entry)
        (site,) = self.home.glob("lib/python*/site-packages")
        (site / "dependencies.pth").write_text(f"{links}\n")

    def install(self, *what: str | Path) -> None:
        """Install a wheel, a folder, or `-e` and a folder."""
        call([sys.executable, "-m", "pip", "--python", self.python, "install", *PIP, *what])

    def run(self, code: str, cwd: Path, path: Path | None = None) -> str:
        """What a script prints, started in a folder, with another on PYTHONPATH if one is named."""
        return call([self.python, "-c", code], cwd=cwd, path=path)


def call(command: list[str | Path], cwd: Path | None = None, path: Path | None = None) -> str:
    """Run a command that finds packages by its folder, `path` and what is installed; its output."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "COV_", "COVERAGE_"))}
    env |= {"PYTHONPATH": str(path)} if path else {}
    done = subprocess.run([str(word) for word in command], cwd=cwd, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = copied(tmp_path_factory.mktemp("source"))
    call([sys.executable, "-m", "pip", "wheel", *PIP, "--wheel-dir", copy / "dist", copy])
    (built,) = (copy / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def started(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Callable[[str], str], Path]:
    """What runs a script with the package had in one of the four ways, and the folder it must then come from."""
    folder = tmp_path_factory.mktemp(request.param)
    environment, checkout = Environment(folder), copied(folder)
    if request.param == "wheel":
        environment.install(request.getfixturevalue("wheel"))
    if request.param == "editable":
        environment.install("-e", checkout)
    cwd = checkout if request.param == "root" else folder
    path = checkout if request.param == "elsewhere" else None
    home = environment.home if request.param == "wheel" else checkout
    return lambda code: environment.run(code, cwd, path), home


def copied(folder: Path) -> Path:
    ignore = shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__", "runs")
    return Path(shutil.copytree(ROOT, folder / "checkout", ignore=ignore))
