"""The contract of an explainer: `check(explainer)` tries every rule and says, one line each, what was measured."""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from slalom_bench import registry
from slalom_bench.errors import InvalidInput

Verdict = Literal["pass", "fail", "skip"]


@dataclass(frozen=True)
class Finding:
    """One rule on one explainer: the verdict and the measured fact (or, skipped, the reason)."""

    rule: str
    verdict: Verdict
    fact: str

    def to_dict(self) -> dict[str, str]:
        return {"rule": self.rule, "verdict": self.verdict, "fact": self.fact}


@dataclass(frozen=True)
class Report:
    """Every finding about one explainer."""

    explainer: str
    findings: tuple[Finding, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        return not self.failures

    @property
    def failures(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.verdict == "fail")

    def to_dict(self) -> dict[str, Any]:
        return {
            "explainer": self.explainer,
            "passed": self.passed,
            "seconds": round(self.seconds, 3),
            "findings": [finding.to_dict() for finding in self.findings],
        }

    def __str__(self) -> str:
        width = max((len(finding.rule) for finding in self.findings), default=0)
        lines = [f"{f.verdict.upper()}  {f.rule:<{width}}  {f.fact}" for f in self.findings]
        return "\n".join([f"{self.explainer}: {'passed' if self.passed else 'FAILED'}", *lines])


@dataclass(frozen=True)
class Subject:
    """What is checked: an instance, its class, and what it declares (None where it does not)."""

    name: str
    factory: Any
    instance: Any
    is_default: bool
    """Whether the instance was built here, without arguments."""
    problem: str = ""
    """Why it could not be built."""
    needs: frozenset[str] | None = None
    stochastic: bool | None = None
    family: str | None = None
    version: int | None = None


def subject_of(explainer: Any) -> Subject:
    """A registered name, an explainer class or an instance, with the registry's or the class's own declarations."""
    if isinstance(explainer, str):
        return _describe(registry.explainers.get(explainer).factory, None)
    if inspect.isclass(explainer):
        return _describe(explainer, None)
    if not callable(getattr(explainer, "explain", None)):
        raise InvalidInput(f"{explainer!r} has no `explain`: give a registered name, an explainer class or an instance")
    return _describe(type(explainer), explainer)


def _describe(factory: Any, instance: Any) -> Subject:
    entry = registry.explainers.of(factory)
    problem = ""
    is_default = instance is None
    if instance is None:
        try:
            instance = factory()
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
    if entry is not None:
        declared = entry.describe()
    else:
        keys = ("needs", "stochastic", "family", "version")
        declared = {key: getattr(factory, key) for key in keys if hasattr(factory, key)}
    needs = declared.get("needs")
    return Subject(
        entry.name if entry else factory.__name__,
        factory,
        instance,
        is_default,
        problem,
        needs=None if needs is None else frozenset(needs),
        stochastic=declared.get("stochastic"),
        family=declared.get("family"),
        version=declared.get("version"),
    )


def check(explainer: Any, rules: Iterable[str] | None = None) -> Report:
    """Run the contract on a registered name, an explainer class or an instance; it never raises for a broken one.

    `rules` limits it to some rules by name, for a quick look while developing.
    """
    from slalom_bench.contract.harness import Skip, Violation
    from slalom_bench.contract.rules import RULES

    chosen = list(RULES) if rules is None else list(rules)
    if unknown := sorted(set(chosen) - RULES.keys()):
        raise InvalidInput(f"no such rule: {', '.join(unknown)}; one of {', '.join(RULES)}")
    subject = subject_of(explainer)
    start = time.perf_counter()
    findings = []
    for name in chosen:
        try:
            finding = Finding(name, "pass", RULES[name](subject))
        except Skip as skip:
            finding = Finding(name, "skip", str(skip))
        except Violation as violation:
            finding = Finding(name, "fail", str(violation))
        except Exception as error:
            finding = Finding(name, "fail", f"raised {type(error).__name__}: {error}")
        findings.append(finding)
    return Report(subject.name, tuple(findings), time.perf_counter() - start)
