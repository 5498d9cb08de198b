"""Words that all formats of the protocol tables share: lines, sizes, places."""

from __future__ import annotations

from collections.abc import Iterable

from warplint.tables import Buffer, Consumer, Handoff, Producer, Protocol, Run, User
from warplint_reports.report import counted

MAX_LINES = 6
SIZES = {"stated": "", "inferred": "~", "at most": "<=", "at least": ">=", "unknown": "?"}
"""Marks of a size; explained under the table."""


def lines(numbers: Iterable[int]) -> str:
    """`line 3`, `lines 3, 5`, `lines 3-90 (12 places)`."""
    known = sorted(set(numbers))
    if not known:
        return ""
    if len(known) == 1:
        return f"line {known[0]}"
    if len(known) <= MAX_LINES:
        return f"lines {', '.join(map(str, known))}"
    return f"lines {known[0]}-{known[-1]} ({len(known)} places)"


def ctas(numbers: tuple[int, ...], all_of: int) -> str:
    """The CTAs of a cluster, empty where there is only one or all are meant."""
    if all_of < 2 or len(numbers) >= all_of:
        return ""
    return f"CTA {', '.join(map(str, numbers))} only"


def cluster_size(protocol: Protocol) -> int:
    """CTAs that were executed together."""
    return max((max(role.ctas, default=0) + 1 for role in protocol.roles), default=1)


def where(buffer: Buffer) -> str:
    """Where a buffer lies: `pool + 1024, + 17408`, `columns 0-127`."""
    if buffer.space == "tensor":
        return ", ".join(
            f"column {at}" if buffer.size == 1 else f"columns {at}-{at + buffer.size - 1}" for at in buffer.starts[:4]
        ) + (", ..." if len(buffer.starts) > 4 else "")
    if not buffer.starts:
        return f"{buffer.variable} at addresses that are not known"
    first, *rest = buffer.starts
    text = f"{buffer.variable} + {first}" if first or rest else buffer.variable
    return text + "".join(f", + {at}" for at in rest[:3]) + (", ..." if len(rest) > 3 else "")


def size(buffer: Buffer) -> str:
    """Bytes or columns of one stage, marked where they are not stated."""
    if buffer.size_is == "unknown":
        return "?"
    mark = SIZES[buffer.size_is]
    return f"{mark}{buffer.size}" if mark != "~" else f"~{buffer.size}"


def user(one: User) -> str:
    """`MMA: MMA (lines 3, 5)`, the proxy where the operation does not say it."""
    proxy = (
        f", {one.proxy} proxy" if one.op in ("store", "load", "ldmatrix", "stmatrix") and one.proxy != "generic" else ""
    )
    who = "" if one.op == one.role else f" by {one.role}"
    return f"{one.op}{who} ({lines(one.lines)}{proxy})"


def producer(one: Producer, kind: str) -> str:
    """What a producer does: "arrive.expect_tx: 1 arrival and 32768 bytes a phase (line 386)"."""
    what = []
    if kind != "mbarrier":
        what.append(counted(one.arrivals, "thread"))
    elif one.arrivals:
        what.append(counted(one.arrivals, "arrival"))
    if one.bytes:
        what.append(f"{one.bytes} bytes")
    amount = f": {' and '.join(what)}" + (" a phase" if kind == "mbarrier" else "") if what else ""
    return f"{one.how}{amount} ({lines(one.lines)})"


def consumer(one: Consumer, kind: str) -> str:
    """What a consumer does: "waits (line 428), first for parity 0: waits for phase 0"."""
    if kind != "mbarrier":
        return f"waits ({lines(one.lines)})"
    return f"waits ({lines(one.lines)}), first with parity {one.parity}: {one.first}"


def words(handoff: Handoff) -> str:
    """The barrier words, each variable named once: `pool + 8, + 16`."""
    if handoff.kind in ("CTA barrier", "cluster barrier"):
        return ""
    shown: list[str] = []
    before = ""
    for word in handoff.words[:8]:
        base, plus, offset = word.partition(" + ")
        shown.append(f"+ {offset}" if plus and base == before else word)
        before = base if plus else ""
    return ", ".join(shown) + (f" and {len(handoff.words) - 8} more" if len(handoff.words) > 8 else "")


def shape(handoff: Handoff) -> str:
    """Depth, count, init: "2 stages, count 1, init lines 329, 330"."""
    parts = []
    if handoff.kind == "mbarrier":
        parts.append(counted(len(handoff.words), "stage"))
        parts.append(f"count {handoff.count}" if handoff.init_lines else "never initialised")
        if handoff.init_lines:
            parts.append(f"init {lines(handoff.init_lines)}")
    elif handoff.count:
        parts.append(f"{handoff.count} threads")
    return ", ".join(parts)


def title(protocol: Protocol | Run) -> str:
    """The kernel and its place."""
    return f"{protocol.kernel}  {protocol.path}:{protocol.line}"


def phases(handoff: Handoff) -> str:
    """Phases completed by each word: `32 each`, `32, 31`."""
    if not handoff.phases:
        return ""
    same = len(set(handoff.phases)) == 1
    text = str(handoff.phases[0]) if same else ", ".join(map(str, handoff.phases[:8]))
    return f"{text}{' each' if same and len(handoff.phases) > 1 else ''}"
