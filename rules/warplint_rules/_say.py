"""How rules turn facts into findings: locations from spans, thread sets and guard chains as people read them.

A rule makes one `Reporter` and yields what it returns:

    SAY = Reporter(__name__, RULE)

    def check(roles: Roles) -> Iterator[Finding]:
        for event in roles.of("bar.sync.cta"):
            yield SAY.at(roles, event, f"{spelled(event)} is reached by {who(roles, event.reach)}.", remedy=...)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from warplint.finding import Finding, Guard, Level, Location, Symptom
from warplint.memo import remembered
from warplint.place import location as _location
from warplint.place import shorten
from warplint.rule import Rule
from warplint.source import Span
from warplint.threads import bits
from warplint.threads.facts import Condition, Event, Reach, Roles, Uniformity, warps_of

_MAX_RELATED = 12
_MAX_TEXT = 90
_ENDLESS = ("", "1", "true")

# Canonical names that are ours rather than the field's; everything else is a PTX mnemonic and speaks for itself.
_TERMS = {
    "bar.sync.cta": "CTA barrier",
    "bar.red.cta": "CTA barrier",
    "grid.sync": "grid barrier",
    "hip.__syncthreads": "workgroup barrier",
    "amd.s_barrier": "workgroup barrier",
    "bar.sync.named": "bar.sync",
    "bar.arrive.named": "bar.arrive",
    "barrier.nonaligned": "barrier.sync",
    "cp.async.bulk.tensor.load": "TMA load",
    "cp.async.bulk.tensor.store": "TMA store",
    "cp.async.bulk.g2s": "bulk copy",
    "cp.async.bulk.s2g": "bulk store",
    "cp.async.bulk.s2s": "bulk copy",
    "cp.reduce.async.bulk": "bulk reduction",
}


class Reporter(Struct, frozen=True):
    """Builds the findings of one rule; `module` is the rule module's `__name__`, which holds its slug."""

    module: str
    rule: Rule

    @property
    def slug(self) -> str:
        """The rule's id: its file name with dashes."""
        return self.module.rpartition(".")[2].replace("_", "-")

    def at(
        self,
        roles: Roles,
        where: Event | Span,
        message: str,
        *,
        why: str = "",
        remedy: str = "",
        level: Level | None = None,
        symptom: Symptom | None = None,
        threads: str | None = None,
        guards: Iterable[Condition] | None = None,
        related: Iterable[Location] = (),
        steps: Iterable[Location] = (),
    ) -> Finding:
        """A finding at an event or a span. An event brings its thread set and its guards unless they are given."""
        event = where if isinstance(where, Event) else None
        if event is not None:
            threads = who(roles, event.reach) if threads is None else threads
            guards = event.guards if guards is None else guards
        span = event.op.span if event is not None else where
        assert isinstance(span, Span)
        return Finding(
            rule=self.slug,
            level=self.rule.level if level is None else level,
            symptom=self.rule.symptom if symptom is None else symptom,
            message=message,
            location=location(roles, span),
            kernel=roles.kernel.name,
            threads=threads or "",
            guards=tuple(
                Guard(condition_text(guard), who(roles, guard.after), line(roles, guard.span)) for guard in guards or ()
            ),
            why=why,
            remedy=remedy,
            related=_some(related),
            steps=tuple(steps),
        )


def _some(related: Iterable[Location]) -> tuple[Location, ...]:
    """At most a dozen related places, each line once, in the order given."""
    kept: dict[tuple[int, str], Location] = {}
    for place in related:
        kept.setdefault((place.line, place.message), place)
        if len(kept) == _MAX_RELATED:
            break
    return tuple(kept.values())


# --------------------------------------------------------------------------------------------------- places
def line(roles: Roles, span: Span) -> int:
    """The 1-based line where a span begins."""
    return roles.kernel.source.line_of(span.start)


def location(roles: Roles, span: Span, message: str = "") -> Location:
    """A span as a place in the file."""
    return _location(roles.kernel.source, span, message)


def guard_places(roles: Roles, guards: Iterable[Condition]) -> list[Location]:
    """The lines of the conditions that take threads away, each with what it leaves."""
    return [
        location(roles, guard.span, f"`{condition_text(guard)}` leaves {who(roles, guard.after)}")
        for guard in narrowing(guards)
    ]


# -------------------------------------------------------------------------------------------------- threads
def who(roles: Roles, reach: Reach) -> str:
    """The threads of a place: "32 of 256 threads: warp 4", "1 of 256 threads: one elected lane of warp 4"."""
    return bits.reach_text(reach, roles.threads, roles.launch.warp_size)


def threads(roles: Roles, chosen: int) -> str:
    """A thread set of the block as people write it."""
    return bits.describe(chosen, roles.threads, roles.launch.warp_size)


@remembered(1024)
def lanes_of(threads: int, warp_size: int) -> Mapping[int, int]:
    """The warps of a thread set with their lanes, as `warps_of`; remembered, since most places share a few sets."""
    return warps_of(threads, warp_size)


def warps(roles: Roles, chosen: int) -> str:
    """The warps of a thread set: "warp 4", "warps 0-3, 7"."""
    numbers = sorted(lanes_of(chosen, roles.launch.warp_size))
    word = "wave" if roles.launch.warp_size == 64 else "warp"
    return f"{word}{'s' if len(numbers) != 1 else ''} {bits.ranges(numbers)}" if numbers else f"no {word}"


# --------------------------------------------------------------------------------------------------- guards
def condition_text(guard: Condition) -> str:
    """A condition as it holds at the place: the source text on one line, negated for an else side."""
    text = shorten(guard.text, _MAX_TEXT)
    return text if guard.taken else f"!({text})"


def condition_place(roles: Roles, guard: Condition) -> str:
    """A condition for a sentence: "`tid < 32` (line 7)"; "the exit of the loop at line 7" if it has no text."""
    where = line(roles, guard.span)
    if guard.kind == "loop" and guard.text.strip("() ") in _ENDLESS:
        return f"the exit of the loop at line {where}"
    return f"`{condition_text(guard)}` (line {where})"


def narrowing(guards: Iterable[Condition]) -> list[Condition]:
    """The conditions that leave fewer threads than came to them, or may divide them."""
    return [
        guard
        for guard in guards
        if guard.after.threads != guard.before.threads
        or guard.after.split < min(guard.before.split, Uniformity.CTA)
        or guard.after.elected != guard.before.elected
    ]


def under(roles: Roles, guards: Iterable[Condition]) -> str:
    """For a message: " under `tid < 32` (line 7)"; the innermost two conditions that narrow, or nothing."""
    texts = [condition_place(roles, guard) for guard in narrowing(guards)]
    return f" under {' and '.join(texts[-2:])}" if texts else ""


# ------------------------------------------------------------------------------------------------ operations
def spelled(event: Event) -> str:
    """The operation as the source spells it, with what it is when the spelling does not say so."""
    spelling, name = event.op.spelling, event.name
    term = _TERMS.get(name, name)
    if not spelling or spelling == name:
        return f"`{name}`" if name not in _TERMS else term
    plain = spelling.lower().replace("::", ".")
    ours = name.startswith(("amd.", "hip."))  # these canonical names are nobody's spelling
    if ours or plain.startswith("__") or name in plain or plain.startswith(term.lower()):
        return f"`{spelling}`"
    return f"{term} `{spelling}`" if " " in term else f"`{term}` (`{spelling}`)"


def reached(roles: Roles, *names: str) -> Iterator[Event]:
    """The events of the named operations that some thread executes (of all, without names)."""
    for event in roles.of(*names) if names else roles.events:
        if event.reach.threads:
            yield event


def sites(events: Iterable[Event]) -> list[Event]:
    """One event for each operation site (the first), in program order."""
    seen: dict[int, Event] = {}
    for event in events:
        seen.setdefault(id(event.op), event)
    return list(seen.values())


def unique(findings: Iterable[Finding]) -> Iterable[Finding]:
    """Drops findings that say the same at the same place (loops that were unrolled repeat their sites)."""
    seen: set[tuple[int, int, str]] = set()
    for finding in findings:
        key = (finding.location.line, finding.location.column, finding.message)
        if key not in seen:
            seen.add(key)
            yield finding
