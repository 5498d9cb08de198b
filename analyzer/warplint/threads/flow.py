"""Which threads get to a place: how a condition narrows them, and what is left when some have jumped away.

`Flow` is the control state at a place: the reach, the conditions that led there, and what those conditions established
about unknown values. `narrow` splits a flow at a condition; `without` takes away the threads that left (by return,
break, continue) on the way, which is one rule for all kinds of jump.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from warplint.program.ir import Stmt
from warplint.source import Span
from warplint.threads import bits
from warplint.threads.domain import CTA, GRID, LANE, Domain
from warplint.threads.facts import Condition, Elected, Known, Opaque, Pointer, Reach, Uniformity, Value


class Flow(Struct, frozen=True, eq=False):
    """The control state at a place."""

    reach: Reach
    guards: tuple[Condition, ...] = ()
    truths: Mapping[int, bool] = field(default_factory=dict)
    """What holds here of unknown conditions: key -> truth."""
    election: object = None
    """Key of the election that left one lane per warp, when `reach.elected`."""
    sure: int = 0
    """Threads that are here for certain, given `base`: conditions that others did not have to pass left these alone."""
    base: tuple[Uniformity, bool] | None = None
    """(split, varies) of the threads in `sure`; None when one reach holds for all."""

    def seen(self, threads: int) -> tuple[Reach, int, tuple[Uniformity, bool] | None]:
        """The reach as it holds for a subset, with what is sure inside it."""
        if self.base is None or threads & ~self.sure:
            return self.reach, self.sure, self.base
        split, varies = self.base
        return replace(self.reach, split=split, varies=varies), 0, None


class Departure(Struct, frozen=True, eq=False):
    """Threads that leave a scope by a jump."""

    flow: Flow
    kind: str
    """`exit`, `break`, `continue` or `leave`."""
    target: object
    """The loop or inline label it jumps to; None for an exit."""


class _Side(Struct):
    """One outcome of a condition: threads that surely have it, that may have it, and the elected."""

    sure: int = 0
    maybe: int = 0
    elected: int = 0
    split: Uniformity = GRID
    varies: bool = False
    pieces: int = 0
    election: object = None

    def may(self, mask: int, level: Uniformity, varies: bool) -> None:
        self.maybe |= mask
        self.split = min(self.split, level)
        self.varies = self.varies or (varies and level < CTA)
        self.pieces += 1


def promoted(level: Uniformity, threads: int, elected: bool, warp_size: int) -> Uniformity:
    """A floor seen from a thread set: groups that hold the whole set decide for it as one (CTA)."""
    if elected:
        level = max(level, Uniformity.WARP)
    return CTA if level < CTA and bits.span_level(threads, warp_size) <= level else level


class Narrowed(Struct, frozen=True):
    """What a condition leaves of a flow on one side (fields as in `Flow`)."""

    reach: Reach
    sure: int
    base: tuple[Uniformity, bool] | None
    election: object

    def of(self, flow: Flow) -> Flow:
        """The flow with this side's threads."""
        election = self.election or flow.election
        return replace(flow, reach=self.reach, sure=self.sure, base=self.base, election=election)


def narrow(domain: Domain, flow: Flow, test: Value) -> tuple[Narrowed | None, Narrowed | None]:
    """Where `test` is non-zero and where it is zero; None: no thread."""
    reach = flow.reach
    yes, no = _Side(), _Side()
    for mask, part in domain.parts(test, reach.threads):
        if isinstance(part, Known):
            truth = domain.mask(part) & mask
            yes.sure |= truth
            no.sure |= mask & ~truth
        elif isinstance(part, Pointer):
            yes.sure |= mask
        elif isinstance(part, Elected):
            _elect(domain, flow, mask, part, yes, no)
        else:
            held = domain.truth_key(part)
            if held is not None and held[0] in flow.truths:
                (yes if flow.truths[held[0]] == held[1] else no).sure |= mask
                continue
            level, varies = domain.floor(part, mask)
            level = promoted(level, mask, reach.elected, domain.warp_size)
            yes.may(mask, level, varies)
            no.may(mask, level, varies)
    return _narrowed(domain, flow, yes), _narrowed(domain, flow, no)


def _narrowed(domain: Domain, flow: Flow, side: _Side) -> Narrowed | None:
    threads = side.sure | side.maybe | side.elected
    before, sure, base = flow.seen(threads)
    reach = _reach(domain, before, side)
    if reach is None:
        return None
    if base is not None:
        sure &= side.sure
    elif side.sure and reach.split < before.split and not side.elected:
        sure, base = side.sure, (before.split, before.varies)
    if base is None or not sure or reach.elected:
        sure, base = 0, None
    return Narrowed(reach, sure, base, side.election)


def _elect(domain: Domain, flow: Flow, mask: int, part: Elected, yes: _Side, no: _Side) -> None:
    """Sides of an election; its key is (member mask, threads that evaluated it[, floor and varies of a flag])."""
    key = part.key if isinstance(part.key, tuple) else (part.key, domain.everyone)
    name, evaluated = key[0], key[1]
    level, varies = (key[2], key[3]) if len(key) > 2 else (GRID, False)
    level = promoted(level, mask, flow.reach.elected, domain.warp_size)
    if (flow.reach.elected and flow.election != name) or not bits.same_lanes(mask, evaluated, domain.warp_size):
        # Decided among other lanes than are here: the elected one may be elsewhere.
        yes.may(mask, LANE, True)
        no.may(mask, LANE, True)
    elif flow.reach.elected or bits.one_lane_per_warp(mask, domain.warp_size):
        if len(key) == 2:
            yes.sure |= mask
        else:
            yes.may(mask, level, varies)
            no.may(mask, level, varies)
    else:
        yes.elected |= mask
        yes.election = name
        yes.split = min(yes.split, level)
        yes.varies = yes.varies or (varies and level < CTA)
        no.may(mask, LANE, True)


def _reach(domain: Domain, before: Reach, side: _Side) -> Reach | None:
    threads = side.sure | side.maybe | side.elected
    if not threads:
        return None
    size = domain.warp_size
    if side.elected and not side.sure and not side.maybe:
        split = promoted(min(before.split, side.split), threads, True, size)
        return Reach(threads, True, split, (before.varies or side.varies) and split < CTA)
    split, varies = min(before.split, side.split), before.varies or side.varies
    if side.elected:
        split, varies = LANE, True
    elif side.maybe and (side.sure or side.pieces > 1):
        # Some surely, some perhaps: they need not come together.
        level = bits.cut(side.maybe, threads, size) if side.sure else LANE
        if not side.sure:
            level = _coarsest(threads, size)
        split, varies = min(split, level), varies or level < CTA
    if before.elected and threads != before.threads and bits.cut(threads, before.threads, size) == LANE:
        # One unknown lane per warp was left; whether it is among these is not known.
        split, varies = LANE, before.varies
    else:
        split = promoted(split, threads, before.elected, size)
    if threads == before.threads and split == before.split:
        return before if varies == before.varies else replace(before, varies=varies)
    return Reach(threads, before.elected, split, varies and split < CTA)


def _coarsest(threads: int, warp_size: int) -> Uniformity:
    whole = bits.span_level(threads, warp_size)
    if whole <= Uniformity.WARP:
        return LANE
    return Uniformity.WARP


def relative(outer: Flow, inner: Flow) -> tuple[Condition, ...]:
    """The conditions on the way from one flow to a later one inside it."""
    return inner.guards[len(outer.guards) :]


def without(
    domain: Domain, flow: Flow, departures: Sequence[Departure], stmt: Stmt, text: str, span: Span, taken: bool
) -> Flow | None:
    """What remains of a flow after a statement inside which threads jumped out of it; None when nothing remains."""
    if not departures:
        return flow
    reach = flow.reach
    threads, split, varies = reach.threads, reach.split, reach.varies
    sure, base = (reach.threads, (split, varies)) if flow.base is None else (flow.sure, flow.base)
    value: Value | None = None
    truths = flow.truths
    for departure in departures:
        gone = departure.flow.reach
        conditions = relative(flow, departure.flow)
        if not conditions and gone.threads & threads == threads:
            return None
        scattered = gone.elected and not reach.elected
        if all(condition.known for condition in conditions) and gone.split >= min(reach.split, CTA) and not scattered:
            threads &= ~gone.threads
            continue
        level = LANE if scattered else bits.cut(gone.threads, reach.threads, domain.warp_size)
        split, varies = min(split, level, gone.split), varies or gone.varies or level < CTA
        if min(level, gone.split) < CTA:
            sure &= ~gone.threads
        else:
            base = (min(base[0], gone.split), base[1])
        value = next((condition.value for condition in reversed(conditions) if not condition.known), value)
        if len(conditions) == 1:
            held = domain.truth_key(conditions[0].value)
            if held is not None:
                truths = {**truths, held[0]: held[1] != conditions[0].taken}
    if not threads:
        return None
    if value is None:
        conditions = relative(flow, departures[0].flow)
        value = conditions[-1].value if conditions else Opaque(GRID)
    if threads & ~sure == 0:
        split, varies = base
    if reach.elected and bits.cut(threads, reach.threads, domain.warp_size) == LANE:
        split, varies = LANE, True
    split = promoted(split, threads, reach.elected, domain.warp_size)
    after = Reach(threads, reach.elected, split, varies and split < CTA)
    kind = departures[0].kind
    condition = Condition(text, span, taken, reach, after, value, "if" if kind == "leave" else kind, stmt)
    partly = bool(sure & threads) and threads & ~sure != 0 and split < base[0] and not reach.elected
    return replace(
        flow,
        reach=after,
        guards=(*flow.guards, condition),
        truths=truths,
        sure=sure & threads if partly else 0,
        base=base if partly else None,
    )
