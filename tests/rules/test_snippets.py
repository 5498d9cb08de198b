"""A rule's documentation is executed: its Bad gives exactly that rule, its Good nothing."""

from __future__ import annotations

import pytest

from tests.fixtures import expectations
from warplint.engine import lint_bytes
from warplint.finding import Finding, Level
from warplint.registry import LoadedRule, rules

RULES = [rule for rule in rules() if rule.module.__name__.startswith("warplint_rules.")]


def findings(snippet: str, name: str) -> list[Finding]:
    suffix = ".hip" if "hip/hip_runtime.h" in snippet else ".cu"
    report = lint_bytes(name + suffix, snippet.encode(), expectations.settings(snippet))
    assert not report.problem, report.problem
    assert report.kernels, "the snippet holds no kernel"
    return [finding for kernel in report.kernels for finding in kernel.findings] + list(report.findings)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.slug)
def test_bad_gives_exactly_this_rule(rule: LoadedRule) -> None:
    found = findings(rule.info.bad, rule.slug)
    assert [finding for finding in found if finding.rule == rule.slug], "the rule does not fire on its own example"
    others = [f"{f.rule}: {f.message}" for f in found if f.rule != rule.slug and f.level is not Level.NOTE]
    assert not others, "\n".join(others)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.slug)
def test_good_is_silent(rule: LoadedRule) -> None:
    found = findings(rule.info.good, rule.slug)
    wrong = [f"{f.rule}: {f.message}" for f in found if f.rule == rule.slug or f.level is not Level.NOTE]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.slug)
def test_a_finding_can_be_read(rule: LoadedRule) -> None:
    for finding in findings(rule.info.bad, rule.slug):
        if finding.rule != rule.slug:
            continue
        assert finding.message.endswith("."), "a message is a sentence"
        assert finding.why and finding.remedy, "a finding says what the hardware does and what to change"
        assert finding.location.line >= 1
