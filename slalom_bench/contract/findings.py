"""What the contract says of an explainer: one finding a rule, and all of them together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Verdict = Literal["pass", "fail", "skip"]


@dataclass(frozen=True)
class Finding:
    """One rule on one explainer: the verdict and the measured fact (or, skipped, the reason)."""

    rule: str
    verdict: Verdict
    fact: str

    def to_dict(self) -> dict[str, str]:
        """Plain data for JSON."""
        return {"rule": self.rule, "verdict": self.verdict, "fact": self.fact}


@dataclass(frozen=True)
class ContractReport:
    """Every finding about one explainer."""

    explainer: str
    findings: tuple[Finding, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether no rule was broken."""
        return not self.failures

    @property
    def failures(self) -> tuple[Finding, ...]:
        """The findings of broken rules."""
        return tuple(finding for finding in self.findings if finding.verdict == "fail")

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
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
