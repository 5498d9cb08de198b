"""What a rule is: a module with a docstring, a `RULE`, and a `check` that says which facts are findings.

A rule file stands at `rules/warplint_rules/<family>/<slug with underscores>.py`. Its slug and family are its place; its
documentation is its docstring, with the sections `## Why`, `## Bad` and `## Good` (the snippets are executed as tests).
`check` takes `Roles` (who executes what, from `warplint.threads`), or, when `RULE.executes`, an `Execution` (what the
machine saw, from `warplint.machine`).

    RULE = Rule(Level.ERROR, Symptom.DEADLOCK)

    def check(roles: Roles) -> Iterator[Finding]: ...
"""

from __future__ import annotations

from dataclasses import dataclass

from warplint.finding import Level, Symptom


@dataclass(frozen=True, slots=True)
class Rule:
    """Metadata of a rule. `precision` is SARIF's: very-high, high, medium or low."""

    level: Level
    symptom: Symptom
    precision: str = "high"
    guide: bool = False
    """The debugging guide asks for this check by name (`S` in the catalogue)."""
    executes: bool = False
    """Needs the machine; structural rules do not."""
    supersedes: tuple[str, ...] = ()
    """Slugs of rules whose findings are consequences of this one's: they are dropped where both share a line."""
    last_resort: bool = False
    """Speaks only for kernels in which no other rule reported an error."""
