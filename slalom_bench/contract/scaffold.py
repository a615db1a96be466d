"""`slalom-bench new`: the files of a contribution, in a checkout or as a package of one's own."""

from __future__ import annotations

import keyword
from dataclasses import dataclass
from pathlib import Path
from string import Template

from slalom_bench import registry
from slalom_bench.contract.starters import STARTERS, Starter
from slalom_bench.errors import InvalidInput, UnknownName

PROJECT = Template("""[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "slalom-bench-$name"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["slalom-bench"]

[project.entry-points."slalom_bench.${kind}s"]
$entry

[tool.setuptools]
py-modules = ["$module"]

[tool.pytest.ini_options]
pythonpath = ["."]
""")


@dataclass(frozen=True)
class Written:
    """What was written, and what to do next."""

    files: tuple[Path, ...]
    next_steps: tuple[str, ...]


@dataclass(frozen=True)
class Planned:
    """Where a contribution goes, and what it is called in Python."""

    kind: str
    name: str
    directory: Path | None
    code: Path
    test: Path

    @property
    def module(self) -> str:
        """Its module."""
        return self.code.stem

    @property
    def entry(self) -> str:
        """The line of its entry point."""
        quoted = f'"{self.name}"' if "." in self.name else self.name
        return f'{quoted} = "{self.module}:{class_name(self.name, self.kind)}"'


def new(kind: str, name: str, directory: Path | None = None) -> Written:
    """Write a contribution and its test into a checkout (found from here upwards), or as a plugin into `directory`."""
    if kind not in STARTERS:
        raise UnknownName("kind of contribution", kind, list(STARTERS))
    known = registry.KINDS[kind]
    if not registry.NAME.fullmatch(name):
        raise InvalidInput(f"{kind} name {name!r}: lower-case letters, digits, dots and dashes only, e.g. my-{kind}")
    if (present := known.find(name)) is not None:
        raise InvalidInput(f"{kind} {name!r} is there already ({present.origin}); choose another name")
    plan, starter = _planned(kind, name, directory), STARTERS[kind]
    files = _files(plan, starter)
    write_all(files)
    return Written(tuple(files), _steps(plan, len(files) == 3))


def _planned(kind: str, name: str, directory: Path | None) -> Planned:
    file = f"{name}.toml" if kind == "suite" else f"{module_name(name, kind)}.py"
    test = f"test_{module_name(name, kind)}.py"
    if directory is None:
        root = checkout(Path.cwd())
        return Planned(kind, name, None, root / STARTERS[kind].folder / file, root / "tests" / f"{kind}s" / test)
    return Planned(kind, name, directory, directory / file, directory / "tests" / test)


def _files(plan: Planned, starter: Starter) -> dict[Path, str]:
    """Path to content."""
    cls = class_name(plan.name, plan.kind)
    shown = plan.name if plan.directory is None else str(plan.code.name)
    files = {plan.code: starter.code.substitute(name=plan.name, cls=cls, shown=shown)}
    if not starter.test.template:
        return files
    inside = plan.directory is None
    words = {"name": plan.name, "module": plan.module, "cls": cls}
    files[plan.test] = starter.test.substitute(
        name=plan.name,
        imports=Template(starter.inside if inside else starter.outside).substitute(words),
        build=Template(starter.build).substitute(words) if inside else f"{cls}()",
        subject=f'"{plan.name}"' if inside else cls,
    )
    if plan.directory is not None and not (plan.directory / "pyproject.toml").exists():
        files[plan.directory / "pyproject.toml"] = PROJECT.substitute(words, kind=plan.kind, entry=plan.entry)
    return files


def _steps(plan: Planned, has_project: bool) -> tuple[str, ...]:
    """What to do next with the written files."""
    name, directory = plan.name, plan.directory
    if plan.kind == "suite":
        return (f"slalom-bench run --suite {name if directory is None else plan.code} --dry-run",)
    use = {
        "explainer": f'slalom-bench explain "Great fun." --explainer {name}',
        "metric": f"slalom-bench run --suite smoke --metric {name}",
        "task": f"slalom-bench list {name}",
        "model": f"slalom-bench run --task synthetic-linear --model {name} --explainer lime --samples 3",
    }[plan.kind]
    check = (f"slalom-bench check {name if directory is None else plan.code}",) if plan.kind == "explainer" else ()
    if directory is None:
        return (*check, f"python -m pytest {plan.test}", use)
    group = f'[project.entry-points."slalom_bench.{plan.kind}s"]'
    install = f"pip install -e {directory}"
    if not has_project:
        install = f"add to {group} in {directory / 'pyproject.toml'}: {plan.entry}"
    return (*check, f"python -m pytest {directory}", install, use)


def write_all(files: dict[Path, str]) -> None:
    """All of them or none: nothing that exists is overwritten."""
    if present := [str(path) for path in files if path.exists()]:
        raise InvalidInput(f"{', '.join(present)} exists; nothing was written. Remove it or choose another name")
    for path, content in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(content)
        except OSError as error:
            raise InvalidInput(f"cannot write {path}: {error.strerror or error}") from error


def module_name(name: str, kind: str = "explainer") -> str:
    """`my-method` as an importable module name."""
    module = name.replace("-", "_").replace(".", "_")
    return module if module.isidentifier() and not keyword.iskeyword(module) else f"{kind}_{module}"


def class_name(name: str, kind: str = "explainer") -> str:
    """`my-method` as MyMethod."""
    found = "".join(part.capitalize() for part in name.replace(".", "-").split("-"))
    return found if found.isidentifier() and not keyword.iskeyword(found) else f"{kind.capitalize()}{found}"


def checkout(start: Path) -> Path:
    """The source checkout of slalom-bench that a directory is in."""
    for folder in (start, *start.parents):
        if (folder / "explainers" / "__init__.py").is_file() and (folder / "slalom_bench").is_dir():
            return folder
    raise InvalidInput(
        f"{start} is in no checkout of slalom-bench; go to one, or give --directory for a plugin of your own"
    )
