"""Finds the rules: every module below `warplint_rules`, and rule packs that third parties announce as entry points.

There is no registry file. A rule's slug and family are its place, `<family>/<slug with underscores>.py`, and its
documentation is its docstring: a summary line and the sections Why, Bad and Good. The docstring is parsed only where a
report prints it; linting pays for importing the modules and nothing else.

A family may say in its package which operations all of its rules are about (`OPERATIONS`, prefixes of canonical names):
its modules are imported when a kernel has one of them. Rules of it that look further stand in `EVERYWHERE`.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache, cached_property
from types import ModuleType
from typing import TYPE_CHECKING

from msgspec import Struct

from warplint.finding import RuleInfo
from warplint.rule import Rule

if TYPE_CHECKING:
    from warplint.finding import Finding

ENTRY_POINT_GROUP = "warplint.rules"
SECTIONS = ("Why", "Bad", "Good")

_HEADING = re.compile(r"^##\s*(\w+)\s*$", re.MULTILINE)
_FENCE = re.compile(r"^[ \t]*```[^\n]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)


class RuleError(Exception):
    """A rule module that is not as `warplint.rule` describes it; the message names the module and what is wrong."""


class LoadedRule(Struct, frozen=True, dict=True):
    """A rule module, imported when it is first needed."""

    slug: str
    family: str
    source: ModuleType | str
    """The module or its dotted name."""
    operations: tuple[str, ...] = ()
    """Prefixes of the operations that the rule is about; empty: any kernel may concern it."""

    @cached_property
    def module(self) -> ModuleType:
        """The imported module. Raises RuleError for a broken one."""
        return _load(self.source) if isinstance(self.source, str) else self.source

    def concerns(self, operations: Iterable[str]) -> bool:
        """Whether the rule can have something to say about a kernel with operations of these names."""
        return not self.operations or any(name.startswith(self.operations) for name in operations)

    @property
    def rule(self) -> Rule:
        """Its metadata."""
        return self.module.RULE

    @property
    def check(self) -> Callable[..., Iterator[Finding]] | None:
        """Its decision over `Roles`; None for a rule that only executes."""
        return getattr(self.module, "check", None)

    @property
    def check_execution(self) -> Callable[..., Iterator[Finding]] | None:
        """Its decision over an `Execution`; None for a rule that is only structural."""
        return getattr(self.module, "check_execution", None)

    @cached_property
    def info(self) -> RuleInfo:
        """Its documentation. Raises RuleError when a section is missing."""
        return parse_docstring(self)


@cache
def rules() -> tuple[LoadedRule, ...]:
    """All rules sorted by slug, those with `operations` not imported yet.

    Raises RuleError for a broken module or a slug that two modules claim.
    """
    import warplint_rules

    found: dict[str, LoadedRule] = {}
    for rule in _walk(warplint_rules):
        _add(found, rule)
    for name, target in entry_points(ENTRY_POINT_GROUP):
        try:
            pack = importlib.import_module(target.partition(":")[0])
        except ImportError as error:
            raise RuleError(f"the rule pack {name!r} ({target}) cannot be imported: {error}") from error
        for rule in _walk(pack):
            _add(found, rule)
    return tuple(found[slug] for slug in sorted(found))


def select(chosen: Iterable[str], ignored: Iterable[str]) -> tuple[LoadedRule, ...]:
    """The rules named by slug or family in `chosen` (all when empty) less those in `ignored`.

    Raises UnknownRule for a name that is neither.
    """
    everything = rules()
    known = {rule.slug for rule in everything} | {rule.family for rule in everything}
    wanted, unwanted = set(chosen), set(ignored)
    for name in sorted(wanted | unwanted):
        if name not in known:
            raise UnknownRule(name, known)
    return tuple(
        rule
        for rule in everything
        if (not wanted or rule.slug in wanted or rule.family in wanted)
        and rule.slug not in unwanted
        and (rule.family not in unwanted or rule.slug in wanted)
    )


class UnknownRule(ValueError):
    """A name that is neither a rule's slug nor a family; the message suggests near ones."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        from difflib import get_close_matches

        near = get_close_matches(name, sorted(known), n=3)
        hint = f"; did you mean {' or '.join(near)}?" if near else "; `warplint rules` lists them"
        super().__init__(f"there is no rule or family {name!r}{hint}")


def parse_docstring(loaded: LoadedRule) -> RuleInfo:
    """Summary, why, bad and good from a rule module's docstring. Raises RuleError when one of them is missing."""
    doc = (loaded.module.__doc__ or "").strip()
    where = loaded.module.__name__
    parts = _HEADING.split(doc)
    summary = " ".join(parts[0].strip().split("\n\n")[0].split()).rstrip(".")
    sections = dict(zip(parts[1::2], (_dedent(text) for text in parts[2::2]), strict=True))
    if not summary:
        raise RuleError(f"{where}: the docstring has no summary line")
    for name in SECTIONS:
        if not sections.get(name):
            raise RuleError(f"{where}: the docstring has no section '## {name}'")
    # "slug: summary" repeats what the file name says
    head, colon, rest = summary.partition(":")
    if colon and head.strip("` ") == loaded.slug:
        summary = rest.strip()
    return RuleInfo(
        slug=loaded.slug,
        family=loaded.family,
        level=loaded.rule.level,
        symptom=loaded.rule.symptom,
        precision=loaded.rule.precision,
        guide=loaded.rule.guide,
        summary=summary,
        why=sections["Why"],
        bad=_code(sections["Bad"], where, "Bad"),
        good=_code(sections["Good"], where, "Good"),
    )


def _code(section: str, where: str, name: str) -> str:
    fence = _FENCE.search(section)
    if fence is None:
        raise RuleError(f"{where}: the section '## {name}' holds no fenced code")
    return _dedent(fence.group(1))


def _dedent(text: str) -> str:
    import textwrap

    return textwrap.dedent(text).strip("\n").rstrip()


def _walk(package: ModuleType) -> Iterator[LoadedRule]:
    for family in sorted(pkgutil.iter_modules(package.__path__), key=lambda item: item.name):
        if not family.ispkg or family.name.startswith("_"):
            continue
        folder = importlib.import_module(f"{package.__name__}.{family.name}")
        about: tuple[str, ...] = getattr(folder, "OPERATIONS", ())
        everywhere: frozenset[str] = getattr(folder, "EVERYWHERE", frozenset())
        for item in sorted(pkgutil.iter_modules(folder.__path__), key=lambda item: item.name):
            if not item.ispkg and not item.name.startswith("_"):
                name = f"{folder.__name__}.{item.name}"
                operations = () if item.name in everywhere else about
                yield LoadedRule(
                    item.name.replace("_", "-"),
                    family.name.replace("_", "-"),
                    name if operations else _load(name),
                    operations,
                )


def _load(name: str) -> ModuleType:
    try:
        module = importlib.import_module(name)
    except Exception as error:
        raise RuleError(f"the rule {name} cannot be imported: {type(error).__name__}: {error}") from error
    checks = [callable(getattr(module, name, None)) for name in ("check", "check_execution")]
    rule = getattr(module, "RULE", None)
    if not isinstance(rule, Rule) or not (any(checks) or rule.comments):
        raise RuleError(
            f"{name}: a rule module holds `RULE = Rule(...)` and `def check(roles)` or `def check_execution(execution)`"
        )
    return module


def _add(found: dict[str, LoadedRule], rule: LoadedRule) -> None:
    if other := found.get(rule.slug):
        raise RuleError(f"two rules are called {rule.slug}: {_named(other)} and {_named(rule)}")
    found[rule.slug] = rule


def _named(rule: LoadedRule) -> str:
    return rule.source if isinstance(rule.source, str) else rule.source.__name__


def entry_points(group: str) -> list[tuple[str, str]]:
    """(name, target) of a group's entry points, sorted. `importlib.metadata` is slow to import and reads every
    distribution; a plain look at the entry_points.txt files first says whether there is anything to ask it.
    """
    if f"[{group}]".encode() not in _announced(tuple(sys.path)):
        return []
    from importlib.metadata import entry_points

    return sorted((point.name, point.value) for point in entry_points(group=group))


@cache
def _announced(folders: tuple[str, ...]) -> frozenset[bytes]:
    """The groups of ours in the entry_points.txt files below the folders, as they stand there (`[warplint.rules]`)."""
    found: set[bytes] = set()
    for folder in folders:
        try:
            entries = [e.name for e in os.scandir(folder or ".") if e.name.endswith((".dist-info", ".egg-info"))]
        except OSError:
            continue
        for entry in entries:
            try:
                with open(os.path.join(folder or ".", entry, "entry_points.txt"), "rb") as file:
                    text = file.read()
            except OSError:
                continue
            if b"[warplint." in text:
                found.update(line.strip() for line in text.splitlines() if line.startswith(b"[warplint."))
    return frozenset(found)
