"""The package works from the checkout's root, from anywhere else, from a wheel and from an editable install alike."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WAYS = ("root", "elsewhere", "wheel", "editable")
FOUND = """
import importlib.util, json, slalom_bench
from slalom_bench import registry
kinds = [registry.tasks, registry.explainers, registry.metrics]
print(json.dumps({
    "home": slalom_bench.__file__,
    "names": [name for kind in kinds for name in kind.names()],
    "paths": [path for kind in ("tasks", "explainers", "metrics") for path in getattr(slalom_bench, kind).__path__],
    "leaks": [name for name in ("tests", "benchmarks") if importlib.util.find_spec("slalom_bench." + name)],
}))
"""
BRAND_NEW = '''
from slalom_bench import Explanation, explainer

@explainer("brand-new", version=1, needs=(), stochastic=False, family="baseline")
class BrandNew:
    """Says nothing."""
    def explain(self, classifier, sample, budget, rng):
        return Explanation({"score": [0.0] * len(sample)}, "score")
'''


@pytest.mark.parametrize("started", WAYS, indirect=True)
def test_everything_comes_from_one_place(started):
    run, home = started
    found = json.loads(run(FOUND))
    assert {"imdb", "lime", "strict-fidelity"} < set(found["names"])
    assert all(Path(path).is_relative_to(home) for path in [found["home"], *found["paths"]])
    assert found["leaks"] == []


@pytest.mark.parametrize("started", WAYS, indirect=True)
def test_the_readme_example_runs(started):
    """As it is printed, but for fewer queries."""
    run, _ = started
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    quick = example.replace("samples=5", 'samples=1, budget=[50], max_tokens=60, metric=["strict-fidelity"]')
    assert quick != example
    given = "my_function = lambda texts: [float(len(text)) for text in texts]\n"
    shown = "print(len(result.plan.cells), e.class_names, len(e), callable(slalom_bench.run))"
    assert run(given + quick + shown).splitlines()[-1] == "2 ('negative', 'positive') 2 True"


@pytest.mark.parametrize("started", ["root", "elsewhere", "editable"], indirect=True)
def test_a_new_file_is_found_without_reinstalling(started):
    run, home = started
    (home / "explainers" / "brand_new.py").write_text(BRAND_NEW)
    origin = run("from slalom_bench import registry; print(registry.explainers.get('brand-new').origin)")
    assert origin.strip() == "slalom_bench.explainers.brand_new:BrandNew"
