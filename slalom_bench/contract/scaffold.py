"""The files that `slalom-bench new explainer` writes: an explainer that works at once, and its test."""

from __future__ import annotations

import keyword
from dataclasses import dataclass
from pathlib import Path
from string import Template

from slalom_bench import registry
from slalom_bench.errors import InvalidInput

EXPLAINER = Template('''"""TITLE: say here what the method does and where it was published."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slalom_bench import Explanation, LinearSurrogate, Sample, explainer
from slalom_bench.errors import InvalidInput

if TYPE_CHECKING:
    from slalom_bench import Classifier


@explainer("$name", version=1, needs={"queries"}, stochastic=True, family="additive")
class $cls:
    """How much a token's presence moves the log-odds, on average over random parts of the text (replace this line).

    The constructor stores its parameters and does nothing else; all of them have defaults. What stands below is the
    method's card, which `slalom-bench list $name` and the site show.

    Formula:
        score_i = mean of F(S) over S with i - mean of F(S) over S without i

    Choose it:
        Say here when this method is the right one, and when another is.

    Example:
        A bag of words with weights 2 and -1: with the first token F is 2 or 1, without it 0 or -1: 1.5 - (-0.5) = 2.

    Args:
        keep_share: how much of the text a part keeps, on average.

    Reference:
        Who published it, and where.
    """

    def __init__(self, keep_share: float = 0.5) -> None:
        self.keep_share = keep_share

    def explain(self, classifier: Classifier, sample: Sample, budget: int, rng: np.random.Generator) -> Explanation:
        """At most `budget` queries, every random number from `rng`, one score for each content token."""
        if budget < 2:
            raise InvalidInput(f"$name: a budget of {budget} queries; at least 2 are needed")
        n = len(sample)
        keep = rng.random((budget, n)) < self.keep_share
        keep[0] = True  # the whole text
        keep[np.arange(budget), rng.integers(n, size=budget)] = True  # never the empty text: some models refuse it
        log_odds = classifier.masked_log_odds(sample, keep)  # one call: the handle batches and counts
        present, absent = keep.sum(axis=0), (~keep).sum(axis=0)
        scores = log_odds @ keep / present - log_odds @ ~keep / np.maximum(absent, 1)
        scores[absent == 0] = 0.0
        return Explanation(
            {"attribution": scores},
            primary="attribution",
            target=classifier.target,
            surrogate=LinearSurrogate.from_full(scores, log_odds[0]),
        )
''')

TEST = Template('''"""$name against the truth: add cases where you know the answer."""

from __future__ import annotations

import numpy as np

$imports


def explain_additive(budget: int = 2000) -> np.ndarray:
    """The scores on a model whose log-odds are a sum of known word weights."""
    classifier = Classifier(bag_of_words({"good": 2.0, "film": 0.0, "bad": -1.0}, specials=True))
    sample = classifier.encode(Example("additive", "good film bad"))
    with classifier.work(budget):
        return $build.explain(classifier, sample, budget, np.random.default_rng(0)).scores["attribution"]


def test_it_keeps_the_contract():
    report = check($subject)
    assert report.passed, str(report)


def test_it_finds_the_weights_of_an_additive_model():
    np.testing.assert_allclose(explain_additive(), [2.0, 0.0, -1.0], atol=0.3)
''')

INSIDE = Template("""from slalom_bench import Classifier, Example, check, registry
from slalom_bench.backends.closed_forms import bag_of_words""")

OUTSIDE = Template("""from $module import $cls

from slalom_bench import Classifier, Example, check
from slalom_bench.backends.closed_forms import bag_of_words""")

PROJECT = Template("""[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "slalom-bench-$name"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["slalom-bench"]

[project.entry-points."slalom_bench.explainers"]
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


def new_explainer(name: str, directory: Path | None = None) -> Written:
    """Write an explainer and its test into a checkout (found from here upwards), or as a plugin into `directory`."""
    if not registry.NAME.fullmatch(name):
        raise InvalidInput(f"explainer name {name!r}: lower-case letters, digits, dots and dashes only, e.g. my-method")
    if name in registry.explainers.names():
        origin = registry.explainers.get(name).origin
        raise InvalidInput(f"explainer {name!r} is there already ({origin}); choose another name")
    module, cls = module_name(name), class_name(name)
    if directory is None:
        root = checkout(Path.cwd())
        code, test = root / "explainers" / f"{module}.py", root / "tests" / "explainers" / f"test_{module}.py"
        imports, build, subject = INSIDE.substitute(), f'registry.explainers.build("{name}")', f'"{name}"'
    else:
        code, test = directory / f"{module}.py", directory / "tests" / f"test_{module}.py"
        imports, build, subject = OUTSIDE.substitute(module=module, cls=cls), f"{cls}()", cls
    files = {
        code: EXPLAINER.substitute(name=name, cls=cls).replace("TITLE", name),
        test: TEST.substitute(name=name, imports=imports, build=build, subject=subject),
    }
    entry = f'{name if "." not in name else chr(34) + name + chr(34)} = "{module}:{cls}"'
    if directory is not None and not (directory / "pyproject.toml").exists():
        files[directory / "pyproject.toml"] = PROJECT.substitute(name=name, module=module, entry=entry)
    write_all(files)
    return Written(tuple(files), steps(name, code, test, entry, directory, len(files) == 3))


def steps(name: str, code: Path, test: Path, entry: str, directory: Path | None, has_project: bool) -> tuple[str, ...]:
    """What to do next with the written files."""
    if directory is None:
        return (f"slalom-bench check {name}", f"pytest {test}", f'slalom-bench explain "Great fun." --explainer {name}')
    install = (
        f"pip install -e {directory}"
        if has_project
        else f'add to [project.entry-points."slalom_bench.explainers"] in {directory / "pyproject.toml"}: {entry}'
    )
    return (f"slalom-bench check {code}", f"pytest {directory}", install, f"slalom-bench check {name}")


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


def module_name(name: str) -> str:
    """`my-method` as an importable module name."""
    module = name.replace("-", "_").replace(".", "_")
    return module if module.isidentifier() and not keyword.iskeyword(module) else f"explainer_{module}"


def class_name(name: str) -> str:
    """`my-method` as MyMethod."""
    found = "".join(part.capitalize() for part in name.replace(".", "-").split("-"))
    return found if found.isidentifier() and not keyword.iskeyword(found) else f"Explainer{found}"


def checkout(start: Path) -> Path:
    """The source checkout of slalom-bench that a directory is in."""
    for folder in (start, *start.parents):
        if (folder / "explainers" / "__init__.py").is_file() and (folder / "slalom_bench").is_dir():
            return folder
    raise InvalidInput(
        f"{start} is in no checkout of slalom-bench; go to one, or give --directory for a plugin of your own"
    )
