"""Wave-level code that is made for another width than the target's waves have."""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding
from warplint.program.ir import Assign, Do, Expr, If, Loop, Stmt, Store, parts
from warplint.threads.facts import Roles, warps_of
from warplint_rules._say import Reporter, location
from warplint_rules.amd._numbers import Number
from warplint_rules.amd._values import Access, Chain
from warplint_rules.amd._walk import Walk

_EXCHANGES = ("amd.ds_bpermute", "amd.readlane", "amd.readfirstlane", "amd.ballot", "hip.warp_sync_builtins")
_HALVING = frozenset({16, 8, 4, 2, 1})
_MAX_NODES = 4_000


def expressions(stmt: Stmt) -> Iterator[Expr]:
    """All expressions inside one statement (not of the statements below it)."""
    stack: list[Expr] = []
    match stmt:
        case Assign(value=value, index=index):
            stack = [value.expr, *([index.expr] if index is not None else [])]
        case Store(pointer=pointer, value=value):
            stack = [pointer.expr, value.expr]
        case If(test=test):
            stack = [test.expr]
        case Loop(test=test) if test is not None:
            stack = [test.expr]
        case Do(op=op):
            stack = list(op.operands.values())
        case _:
            return
    seen = 0
    while stack and seen < _MAX_NODES:
        seen += 1
        top = stack.pop()
        yield top
        stack.extend(parts(top))


def findings(say: Reporter, roles: Roles, width: int) -> Iterator[Finding]:
    """What the lanes of a wave exchange, compared with how many lanes it has."""
    if next(roles.of(*_EXCHANGES), None) is None or not roles.threads:
        return
    seen = Walk(roles, width)
    yield from _reaching_beyond(say, roles, seen)
    if not seen.complete or width != 64:
        return
    yield from _first_lanes(say, roles, seen)
    lost = list(_unheard(say, roles, seen))
    yield from lost
    if not lost:
        yield from _lanes_of_32(say, roles, seen)
        yield from _partials(say, roles, seen)


# ------------------------------------------------------------------------------------------------- shuffles
def _reaching_beyond(say: Reporter, roles: Roles, seen: Walk) -> Iterator[Finding]:
    """Distances and lanes that a wave does not have."""
    said: set[int] = set()
    for shuffle in seen.shuffles:
        op, lane, width = shuffle.op, shuffle.lane, shuffle.width
        mode = str(op.mods.get("mode", "idx" if op.name == "amd.readlane" else ""))
        if id(op) in said or mode not in ("idx", "up", "down", "bfly"):
            continue
        if isinstance(width, int) and width > seen.width:
            text = f"`{op.spelling}` works in groups of {width} lanes, and a wave has {seen.width} here."
        elif isinstance(lane, int) and lane >= seen.width:
            what = f"lane {lane}" if mode == "idx" else f"a lane {lane} lanes away"
            text = f"`{op.spelling}` reads {what}, and a wave has {seen.width} lanes here."
        else:
            continue
        said.add(id(op))
        yield say.at(
            roles,
            op.span,
            text,
            why="No lane of the wave is that far: each lane gets a value of its own wave (its own, or that of the "
            "lane's number modulo the width), and what the other wave holds is left out.",
            remedy=f"Use `warpSize` for the width ({seen.width} on this target), and shared memory between waves.",
        )


def _unheard(say: Reporter, roles: Roles, seen: Walk) -> Iterator[Finding]:
    """A reduction over 32 lanes whose result is taken from one half of the wave only."""
    for chain in seen.chains.values():
        if not chain.uses:
            continue
        distances = {distance for mode, distance in chain.steps if mode in ("down", "bfly", "up")}
        if not distances >= _HALVING or 32 in distances or 0 in distances:
            continue
        scans = ("up", 1) in chain.steps
        text = _scan(chain) if scans else _half(chain)
        if not text:
            continue
        span, _ = chain.uses[0]
        yield say.at(
            roles,
            chain.op.span,
            text,
            why="A wave has 64 lanes on this target. Steps of 16, 8, 4, 2, 1 join 32 of them.",
            remedy="Go on while the step is less than `warpSize`, or scan groups of 32 by their own lane numbers."
            if scans
            else "Begin with `warpSize / 2`, or let one lane of every 32 hand on its result.",
            related=[location(roles, span, "the result is used here")],
        )


def _half(chain: Chain) -> str:
    """What a reduction leaves out: the same half of every wave whose result is used."""
    halves: set[int] = set()
    for wave, lanes in warps_of(chain.threads, 64).items():
        used = chain.used >> wave * 64 & ((1 << 64) - 1)
        if not used:
            continue
        upper, lower = used >> 32, used & 0xFFFFFFFF
        if upper and lower:
            return ""
        half = 0 if upper else 1
        if not lanes >> 32 * half & 0xFFFFFFFF:
            return ""  # nothing was there to be left out
        halves.add(half)
    if len(halves) != 1:
        return ""
    which = "32 to 63" if halves == {1} else "0 to 31"
    name = chain.op.spelling
    return f"The reduction with `{name}` joins 32 lanes of a wave of 64: what lanes {which} hold is never used."


def _scan(chain: Chain) -> str:
    """A scan that goes on over the middle of the wave and ends too early."""
    if chain.blurred or {mode for mode, distance in chain.steps if distance} != {"up"}:
        return ""
    last = chain.held[-1]
    if len(last) < 64 or not last[32] >> 31 & 1 or last[63] & 1:
        return ""
    return (
        f"The scan with `{chain.op.spelling}` goes over 64 lanes in steps of 1 to 16: lanes 32 to 63 miss what is 32 "
        "and more lanes below them."
    )


# ------------------------------------------------------------------------------------------------- lane numbers
def _first_lanes(say: Reporter, roles: Roles, seen: Walk) -> Iterator[Finding]:
    """`readfirstlane` of a number that is one for each 32 lanes."""
    said: set[int] = set()
    for op, value, threads in seen.first_lanes:
        if id(op) in said or not isinstance(value, tuple) or not _of_halves(value, threads):
            continue
        said.add(id(op))
        yield say.at(
            roles,
            op.span,
            f"`{op.spelling}` makes one number of two: the value is another in lanes 32 to 63 of the wave.",
            why="It counts groups of 32 lanes, and a wave has 64 on this target; the upper half gets the number of the "
            "lower one, and every second number is never seen.",
            remedy="Divide by `warpSize` (64 on this target).",
        )


def _of_halves(value: tuple[int, ...], threads: int) -> bool:
    """Alike in each 32 lanes, and different in the halves of a wave."""
    differs = False
    for wave, lanes in warps_of(threads, 64).items():
        mine = value[wave * 64 : wave * 64 + 64]
        halves = [{mine[lane] for lane in range(at, min(at + 32, len(mine))) if lanes >> lane & 1} for at in (0, 32)]
        if any(len(half) != 1 for half in halves):
            return False
        differs = differs or halves[0] != halves[1]
    return differs


def _lanes_of_32(say: Reporter, roles: Roles, seen: Walk) -> Iterator[Finding]:
    """Lanes below this one, by a lane number of 0 to 31, in the ballot of a wave of 64."""
    for span, ballot, lane, threads in seen.masked:
        if not isinstance(lane, tuple) or not threads >> 32:
            continue
        if all(lane[t] == t % 32 for t in range(len(lane)) if threads >> t & 1):
            yield say.at(
                roles,
                span,
                f"The ballot of 64 lanes (`{ballot.spelling}`) is masked with lane numbers of 0 to 31.",
                why="A wave has 64 lanes on this target: lanes 32 to 63 count the votes of the lower half as if they "
                "were lanes 0 to 31.",
                remedy="Use the lane's number in the wave (`threadIdx.x % warpSize`), or shift the ballot by "
                "`threadIdx.x & 32` first.",
            )
            return


# ------------------------------------------------------------------------------------------------- partial results
def _partials(say: Reporter, roles: Roles, seen: Walk) -> Iterator[Finding]:
    """An array of partial results with as many entries as there are groups of 32, written by groups of 64."""
    by_symbol: dict[int, list[Access]] = {}
    for access in seen.accesses:
        by_symbol.setdefault(id(access.symbol), []).append(access)
    for key, accesses in by_symbol.items():
        size = accesses[0].symbol.element_bytes
        if key in seen.escaped or not size:
            continue
        writes = [access for access in accesses if access.write]
        reads = [access for access in accesses if not access.write and access.certain]
        written: set[int] = set()
        for access in writes:
            entries = _entries(access.at, access.threads, size)
            if entries is None or access.bytes != size:
                break
            written |= entries
        else:
            for access in reads:
                read = _entries(access.at, access.threads, size)
                if read and written and read > written and len(read) == 2 * len(written):
                    name = accesses[0].symbol.name
                    yield say.at(
                        roles,
                        access.span,
                        f"`{name}` is read in {len(read)} entries and written in {len(written)}: as many as there are "
                        "groups of 32 threads, and waves of 64.",
                        why="A wave has 64 lanes on this target; the entries that no wave writes hold anything.",
                        remedy="Count waves with `blockDim.x / warpSize` on both sides.",
                        related=[location(roles, writes[0].span, f"`{name}` is written here")],
                    )
                    break


def _entries(at: Number, threads: int, size: int) -> set[int] | None:
    if isinstance(at, int):
        return {at // size}
    if isinstance(at, tuple):
        return {at[t] // size for t in range(len(at)) if threads >> t & 1}
    return None
