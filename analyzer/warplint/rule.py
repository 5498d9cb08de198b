"""What a rule is: a module with a docstring, a `RULE`, and checks that say which facts are findings.

A rule file stands at `rules/warplint_rules/<family>/<slug with underscores>.py`. Its slug and family are its place; its
documentation is its docstring, with the sections `## Why`, `## Bad` and `## Good` (the snippets are executed as tests).
`check` takes `Roles` (who executes what, from `warplint.threads`); `check_execution` takes an `Execution` (what the
machine saw, from `warplint.machine`). A rule has one of them, or both: then what the execution shows counts only where
the structural half has not said it already.

    RULE = Rule(Level.ERROR, Symptom.DEADLOCK)

    def check(roles: Roles) -> Iterator[Finding]: ...
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from warplint.finding import Level, Symptom


class Rule(Struct, frozen=True):
    """Metadata of a rule. `precision` is SARIF's: very-high, high, medium or low."""

    level: Level
    symptom: Symptom
    precision: str = "high"
    guide: bool = False
    """The debugging guide asks for this check by name (`S` in the catalogue)."""
    executes: bool = False
    """Has a `check_execution`."""
    spoils: Literal["nothing", "schedule", "everything"] = "nothing"
    """What an error of its structural half does to an execution of the kernel. After one that spoils the schedule
    (threads miss a barrier, an operation is done once per lane) only the `local` rules are asked about the execution,
    after one that spoils everything (a barrier that is never initialised) there is none."""
    local: bool = False
    """Its executed findings are about what threads do between an access and a fence or wait of their own: they hold
    also where an error elsewhere has spoiled the schedule."""
    supersedes: tuple[str, ...] = ()
    """Slugs of rules whose findings are consequences of this one's: they are dropped where both share a line."""
    comments: bool = False
    """About the suppression comments of a file: has no check, `warplint.suppress` speaks for it."""
    last_resort: bool = False
    """Speaks only for kernels in which no other rule reported an error."""
