"""The contract of an explainer: `check(explainer)` tries every rule and says, one line each, what was measured."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from slalom_bench.contract.candidate import candidate_of, told
from slalom_bench.contract.findings import ContractReport, Finding
from slalom_bench.contract.harness import NotApplicable, Violation
from slalom_bench.contract.rules import RULES
from slalom_bench.errors import InvalidInput


def check(explainer: Any, rules: Iterable[str] | None = None) -> ContractReport:
    """Try every rule of the contract on an explainer; a broken one is a finding, never an exception.

    Args:
        explainer: a registered name, an explainer class or an instance.
        rules: names of rules, for a quick look while developing; all unless given.

    Returns:
        One finding a rule, with what was measured.

    >>> check("zero", rules=["shape"]).passed
    True
    """
    chosen = list(RULES) if rules is None else list(rules)
    if unknown := sorted(set(chosen) - RULES.keys()):
        raise InvalidInput(f"no such rule: {', '.join(unknown)}; one of {', '.join(RULES)}")
    candidate = candidate_of(explainer)
    start = time.perf_counter()
    findings = []
    for name in chosen:
        try:
            finding = Finding(name, "pass", RULES[name](candidate))
        except NotApplicable as skip:
            finding = Finding(name, "skip", str(skip))
        except Violation as violation:
            finding = Finding(name, "fail", str(violation))
        except (Exception, SystemExit) as error:
            finding = Finding(name, "fail", f"raised {told(error, candidate.factory)}")
        findings.append(finding)
    return ContractReport(candidate.name, tuple(findings), time.perf_counter() - start)
