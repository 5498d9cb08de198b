"""For rules that judge an `Execution`: accesses, hazards and waits in words, each fault said once over scenarios."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from warplint.finding import Location
from warplint.machine import Execution
from warplint.machine.memory import Access, Hazard
from warplint.machine.outcome import Outcome, Party
from warplint.source import Span
from warplint_rules._say import line, location, threads

MAX_STEPS = 12


def established(outcome: Outcome) -> bool:
    """`Outcome.established`, for filters."""
    return outcome.established


def hazards(execution: Execution, wanted: Callable[[Hazard], bool]) -> Iterator[tuple[Outcome, Hazard]]:
    """Each wanted hazard once (by its two places), with the first scenario that shows it."""
    seen: set[tuple[Span, Span]] = set()
    for outcome in filter(established, execution.outcomes):
        for hazard in outcome.hazards:
            places = (hazard.first.span, hazard.second.span)
            if places not in seen and wanted(hazard):
                seen.add(places)
                yield outcome, hazard


def party(execution: Execution, who: Party) -> str:
    """A thread set in words, with its CTA where the cluster has several."""
    text = threads(execution.roles, who.threads)
    return f"{text} of CTA {who.cta}" if ctas(execution) > 1 else text


def ctas(execution: Execution) -> int:
    """CTAs that were executed together."""
    cluster = execution.roles.launch.cluster
    count = 1
    for extent in cluster.value if cluster else ():
        count *= extent
    return count


def made_by(execution: Execution, access: Access) -> str:
    """Who made an access: "thread 0", "128 of 256 threads: warps 0-3"."""
    return party(execution, Party(access.cta, access.threads))


def storage(access: Access) -> str:
    """The storage of an access in words: "`tile`", "bytes 1024-2047 of `pool`", "tensor memory columns 0-127"."""
    last = access.hi - 1
    if access.tensor:
        return f"tensor memory column{'s' if last > access.lo else ''} {span_of(access.lo, last)}"
    whole = getattr(access.region.key, "bytes", None)
    if not access.exact or (access.lo == 0 and whole is not None and access.hi >= whole):
        return f"`{access.region.name}`"
    return f"byte{'s' if last > access.lo else ''} {span_of(access.lo, last)} of `{access.region.name}`"


def span_of(first: int, last: int) -> str:
    """One number, or a range: `3`, `3-7`."""
    return str(first) if last <= first else f"{first}-{last}"


def place(execution: Execution, access: Access, role: str) -> Location:
    """The place of an access as a related location: "the write: ordinary store by warps 0-3"."""
    return location(execution.roles, access.span, f"{role}: {access.what} by {made_by(execution, access)}")


def steps(execution: Execution, outcome: Outcome, *spans: Span, target: object = None) -> list[Location]:
    """The executed protocol up to the fault, at most a dozen lines: those on `target` or at the places given."""
    chosen = [step for step in outcome.steps if step.span in spans or (target is not None and step.target == target)]
    return [
        location(execution.roles, step.span, f"{party(execution, step.who)}: {step.text}")
        for step in chosen[-MAX_STEPS:]
    ]


def at(execution: Execution, span: Span) -> int:
    """The line of a span."""
    return line(execution.roles, span)
