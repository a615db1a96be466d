"""The contributor's door: what the forge calls exists, what the guide names exists, what it says works."""

from __future__ import annotations

import json
import re
import textwrap
from configparser import ConfigParser
from pathlib import Path

import numpy as np
import pytest
import yaml

from slalom_bench.contract.checking import check
from slalom_bench.core.version import VERSION
from slalom_bench.interfaces import Explainer
from slalom_bench.registry import explainer

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not (ROOT / "tox.ini").is_file(), reason="not a checkout")


def test_the_forge_runs_the_steps_of_ci_on_every_python_that_is_declared():
    workflow = yaml.safe_load((ROOT / ".github/workflows/checks.yml").read_text())
    (job,) = workflow["jobs"].values()
    steps = job["strategy"]["matrix"]["include"]
    tox = ConfigParser()
    tox.read(ROOT / "tox.ini")
    assert {f"testenv:{step['step']}" for step in steps} <= set(tox.sections())
    assert {step["step"] for step in steps} >= {"lint", "types", "tests", "lowest", "wheel", "docs"}
    project = (ROOT / "pyproject.toml").read_text()
    declared = set(re.findall(r"Programming Language :: Python :: (3\.\d+)", project))
    assert {step["python"] for step in steps if step["step"] == "tests"} == declared == {"3.11", "3.12", "3.13"}
    assert job["steps"][-1]["run"] == ".ci/run ${{ matrix.step }}"
    assert '${1:+-e "$1"}' in (ROOT / ".ci/run").read_text()


def test_the_citation_is_of_this_version():
    said = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert said["version"] == VERSION
    assert {"cff-version", "message", "title", "authors", "license"} <= said.keys()


def test_the_guide_names_the_texts_of_the_published_rows():
    found = {
        json.loads(file.read_text())["task"]["content"][:12] for file in ROOT.glob("leaderboards/results/imdb_*.json")
    }
    (named,) = re.findall(r"official test reviews, content `(\w{12})`", (ROOT / "CONTRIBUTING.md").read_text())
    assert found == {named}


def test_the_release_notes_name_the_versions_that_are_registered():
    from slalom_bench import registry

    text = (ROOT / "docs/release-notes.md").read_text()
    said = re.findall(r"`([a-z-]+)`[^`,;]*? (\d+)\b", text)
    versions = {entry.name: entry.version for kind in registry.KINDS.values() for entry in kind.entries()}
    named = {name: int(version) for name, version in said if name in versions}
    assert {"strict-fidelity", "slalom-anchor", "fidelity-few", "nb-spearman", "mini-bert"} <= named.keys()
    assert named == {name: versions[name] for name in named}


@pytest.mark.parametrize("file", sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")), ids=lambda file: file.name)
def test_forms_for_issues_can_be_shown(file):
    form = yaml.safe_load(file.read_text())
    if file.name == "config.yml":
        assert form["contact_links"]
        return
    assert {"name", "description", "body"} <= form.keys()
    assert all(part["attributes"]["label"] for part in form["body"])
    assert len({part["id"] for part in form["body"]}) == len(form["body"])


def test_owners_own_what_is_there():
    for line in (ROOT / ".github/CODEOWNERS").read_text().splitlines():
        if line and not line.startswith("#"):
            path, *owners = line.split()
            assert owners
            assert path == "*" or (ROOT / path.strip("/")).exists() or path.endswith("/attested/"), path


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "README.md", "CODE_OF_CONDUCT.md"])
def test_what_a_page_of_the_door_names_is_there(page):
    text = (ROOT / page).read_text()
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text)]
    folders = r"slalom_bench|docs|tests|explainers|metrics|tasks|leaderboards|\.github"
    named = re.findall(rf"`((?:{folders})/[\w./-]*\w/?)`", text)
    written = ("explainers/my_method.py", "tests/explainers/test_my_method.py")
    missing = [path for path in (*links, *named) if "://" not in path and path and not (ROOT / path).exists()]
    assert [path for path in missing if path not in written] == []


def test_the_gradient_method_of_the_protocols_docstring_keeps_the_contract(scratch):
    body = re.search(r"is, in full .*?:\n\n(.*?)\n\n? {4}\Z|is, in full .*?:\n\n(.*)\Z", Explainer.__doc__, re.S)
    code = textwrap.dedent(next(filter(None, body.groups())))
    source = "def explain(self, classifier, sample, budget, rng):\n    import torch\n" + textwrap.indent(code, "    ")
    scope = {"np": np}
    exec("from slalom_bench import Explanation\n" + source, scope)
    by_the_guide = type("ByTheGuide", (), {"explain": scope["explain"]})
    explainer("by-the-guide", version=1, needs={"gradients"}, stochastic=True, family="gradient")(by_the_guide)
    report = check(by_the_guide)
    assert report.passed, str(report)
