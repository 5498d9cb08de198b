"""What operations return: elections, shuffles, votes, reductions, wait results, over all threads of the block at once.

Semantics: PTX 9.7.9.6 (shfl.sync), 9.7.13.9-14 (vote, match, activemask, redux, elect). A warp-wide result is at least
warp-uniform even when its inputs are unknown; it is computed exactly when they are known and the lanes that take part
are certain.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from msgspec.structs import replace

from warplint.program.ir import Operation
from warplint.threads import bits
from warplint.threads.domain import CTA, LANE, Domain, least
from warplint.threads.facts import Elected, Known, Opaque, Pointer, Uniformity, Value
from warplint.threads.flow import Flow
from warplint.threads.scalar import binary_int

WARP = Uniformity.WARP


def result(domain: Domain, op: Operation, output: str, values: Mapping[str, Value], flow: Flow) -> Value:
    """The value of one output of an executed operation for the threads of `flow`."""
    name = op.name
    if name == "elect.sync":
        return _elect(domain, output, values, flow)
    if name in ("shfl.sync", "amd.readlane", "amd.readfirstlane", "amd.ds_bpermute", "amd.dpp"):
        return _shuffle(domain, op, output, values, flow)
    if name == "vote.sync":
        return _vote(domain, op, values, flow)
    if name == "match.sync":
        if op.mods.get("mode") == "all":
            return domain.fresh(WARP, why="result of match.all")
        level, varies = _floor(domain, values.get("value"), flow)
        return domain.fresh(max(level, LANE) if level < WARP else level, varies, "result of match.any")
    if name == "redux.sync":
        return _redux(domain, op, values, flow)
    if name == "bar.red.cta":
        return domain.fresh(CTA, why="result of a CTA-wide reduction")
    if name == "mapa":
        source = values.get("src")
        if isinstance(source, Pointer):
            return replace(source, cta=values.get("cta"))
        level, varies = least(*(domain.floor(value, flow.reach.threads) for value in values.values()))
        return domain.fresh(level, varies, "a mapped address")
    if name == "clusterlaunchcontrol.query_cancel":
        # A function of the response that was read (PTX 9.7.13.17).
        level, varies = _floor(domain, values.get("value"), flow)
        return domain.fresh(level, varies, f"result of {op.spelling}")
    if name in ("mbarrier.try_wait", "mbarrier.test_wait"):
        return domain.fresh(LANE, why=f"result of {name}")
    if name.startswith(("ld", "atom")) and name.split(".")[0] in ("ld", "atom"):
        return _load(domain, op, values, flow)
    return domain.fresh(LANE, why=f"result of {op.spelling}")


def _floor(domain: Domain, value: Value | None, flow: Flow) -> tuple[Uniformity, bool]:
    return (LANE, False) if value is None else domain.floor(value, flow.reach.threads)


def _load(domain: Domain, op: Operation, values: Mapping[str, Value], flow: Flow) -> Value:
    if op.name.startswith("atom"):
        # Each thread gets what it found when its turn came.
        return domain.fresh(LANE, why=f"result of {op.spelling}")
    level, varies = _floor(domain, values.get("src", values.get("address")), flow)
    if str(op.mods.get("space", "")).startswith("shared"):
        level = min(level, CTA)
    value = domain.fresh(level, varies, "loaded from memory")
    address = values.get("src", values.get("address"))
    return value if address is None else domain.mark_across(value, address)


def _constant(value: Value | None) -> int | None:
    return value.constant if isinstance(value, Known) else None


def _elect(domain: Domain, output: str, values: Mapping[str, Value], flow: Flow) -> Value:
    threads = flow.reach.threads
    if output == "lane":
        return domain.fresh(WARP, True, "the elected lane")
    mask = values.get("mask")
    member = _constant(mask) if mask is not None else bits.full(domain.warp_size)
    # The same lane is elected for the same member mask (PTX 9.7.13.14).
    name = ("mask", member) if member is not None else domain.fresh(LANE).key
    elected = Elected((name, threads))
    group = _constant(values.get("threads"))
    if group is None:
        return elected
    # TileLang's tl_shuffle_elect: 0 is one thread of the CTA, n one lane in every n threads.
    size = domain.warp_size
    step = domain.threads if group == 0 else max(group, size)
    eligible = 0
    for start in range(0, domain.threads, step):
        eligible |= bits.full(size) << start
    return domain.mix(eligible, elected, domain.const(0))


def _certain(domain: Domain, flow: Flow) -> bool:
    """The lanes here are exactly known, warp by warp, in every run that gets here."""
    return not flow.reach.elected and flow.reach.split >= WARP


# ------------------------------------------------------------------------------------------------- shuffles
def _sources(domain: Domain, op: Operation, values: Mapping[str, Value], threads: int) -> list[int] | None:
    """For every thread the thread it reads from, None when that is not known."""
    size = domain.warp_size
    if op.name == "amd.ds_bpermute" or op.name == "amd.dpp":
        return None
    lane_value = domain.restrict(values.get("lane", Opaque(LANE)), threads)
    if not isinstance(lane_value, Known):
        return None
    width = size
    if "width" in values:
        given = _constant(values["width"])
        if given is None or given not in (1, 2, 4, 8, 16, 32, 64):
            return None
        width = min(given, size)
    elif "clamp" in values:
        clamp = _constant(values["clamp"])
        if clamp is None:
            return None
        width = size - (clamp >> 8 & (size - 1)) if (clamp >> 8 & (size - 1)) else size
        if width & (width - 1):
            return None
    mode = "idx" if op.name == "amd.readlane" else str(op.mods.get("mode", ""))
    return _routes(mode, width, lane_value.each, size, domain.threads)


@lru_cache(maxsize=256)
def _routes(mode: str, width: int, lane: int | tuple[int, ...], size: int, count: int) -> list[int] | None:
    """For every thread the thread it reads from."""
    amounts = lane if isinstance(lane, tuple) else (lane,) * count
    result: list[int] = []
    for thread, amount in zip(range(count), amounts, strict=True):
        own = thread % size
        low = own - own % width
        if mode == "idx":
            source = low + amount % width
        elif mode == "up":
            source = own - amount if own - amount >= low else own
        elif mode == "down":
            source = own + amount if own + amount < low + width else own
        elif mode in ("bfly", "xor"):
            source = own ^ amount if (own ^ amount) < low + width else own
        else:
            return None
        wanted = thread - own + source
        result.append(wanted if 0 <= source < size and wanted < count else thread)
    return result


def _shuffle(domain: Domain, op: Operation, output: str, values: Mapping[str, Value], flow: Flow) -> Value:
    threads = flow.reach.threads
    value = values.get("value", values.get("src"))
    if value is None or output not in ("value", ""):
        return domain.fresh(LANE, why=f"result of {op.spelling}")
    level, varies = domain.floor(value, threads)
    if level >= WARP and _certain(domain, flow):
        # All lanes of a warp hold the same: so does the result (every source lane is here, or the read is undefined).
        if isinstance(value, Known) or level >= CTA:
            return value
    if op.name == "amd.readfirstlane":
        firsts = {}
        if _certain(domain, flow):
            for warp, lanes in bits.warps_of(threads, domain.warp_size).items():
                firsts[warp] = warp * domain.warp_size + (lanes & -lanes).bit_length() - 1
            sources = [firsts.get(thread // domain.warp_size, thread) for thread in range(domain.threads)]
        else:
            return _of_warp(domain, value, threads, "value of the first active lane")
    else:
        found = _sources(domain, op, values, threads)
        if found is None:
            lane_level, _ = _floor(domain, values.get("lane"), flow)
            broadcast = op.mods.get("mode") == "idx" or op.name == "amd.readlane"
            whole = _constant(values["width"]) == domain.warp_size if "width" in values else True
            if broadcast and lane_level >= WARP and whole:
                return _of_warp(domain, value, threads, "value of one lane")
            return domain.mark_across(domain.fresh(LANE, varies, f"result of {op.spelling}"), value)
        sources = found
    return _permuted(domain, value, sources, threads)


def _permuted(domain: Domain, value: Value, sources: list[int], threads: int) -> Value:
    """Each thread gets the value that its source thread holds."""
    size = domain.warp_size
    pieces: list[tuple[int, Value]] = []
    rest = domain.everyone
    for mask, part in domain.parts(value, domain.everyone):
        takes = mask if mask == domain.everyone else bits.of_truths([mask >> source & 1 for source in sources])
        if not takes:
            continue
        rest &= ~takes
        if isinstance(part, Known):
            each = part.each
            moved = part if isinstance(each, int) else domain.known([each[source] for source in sources])
            pieces.append((takes, moved))
            continue
        level, varies = domain.floor(part, mask)
        if level >= CTA:
            pieces.append((takes, part))
            continue
        one_source = all(
            len({sources[warp * size + lane] for lane in bits.members(lanes)}) == 1
            for warp, lanes in bits.warps_of(takes & threads, size).items()
        )
        if one_source:
            pieces.append((takes, _of_warp(domain, part, mask, "value of another lane")))
        else:
            moved = domain.fresh(level, varies, "value of another lane")
            pieces.append((takes, domain.mark_across(moved, part)))
    if rest:
        pieces.append((rest, domain.fresh(LANE)))
    return domain.gather(pieces)


# ------------------------------------------------------------------------------------ votes and reductions
def _of_warp(domain: Domain, value: Value, threads: int, why: str) -> Opaque:
    """What a warp makes of its lanes' values: one result a warp, other in another only where the warps' values are."""
    level, varies = domain.floor(value, threads)
    return domain.fresh(max(level, WARP), varies and domain.across(value, threads), why)


def _lanes(domain: Domain, values: Mapping[str, Value], flow: Flow) -> dict[int, list[int]] | None:
    """Threads that take part, by warp; None when not certain."""
    if not _certain(domain, flow):
        return None
    mask = values.get("mask")
    member = bits.full(domain.warp_size) if mask is None else _constant(mask)
    if member is None:
        return None
    result: dict[int, list[int]] = {}
    for warp, lanes in bits.warps_of(flow.reach.threads, domain.warp_size).items():
        if lanes & ~member:
            return None
        result[warp] = [warp * domain.warp_size + lane for lane in bits.members(lanes)]
    return result


def _per_warp(domain: Domain, by_warp: Mapping[int, int]) -> Value:
    size = domain.warp_size
    fill = next(iter(by_warp.values()))
    return domain.known([by_warp.get(thread // size, fill) for thread in range(domain.threads)])


def _vote(domain: Domain, op: Operation, values: Mapping[str, Value], flow: Flow) -> Value:
    value = values.get("value")
    mode = str(op.mods.get("mode", ""))
    lanes = _lanes(domain, values, flow)
    if value is not None:
        value = domain.restrict(value, flow.reach.threads)
        level, _ = domain.floor(value, flow.reach.threads)
        if isinstance(value, Known) and lanes is not None:
            truth = domain.mask(value)
            result: dict[int, int] = {}
            for warp, threads in lanes.items():
                votes = [truth >> thread & 1 for thread in threads]
                if mode == "ballot":
                    result[warp] = sum(
                        1 << thread % domain.warp_size for thread, vote in zip(threads, votes, strict=True) if vote
                    )
                elif mode in ("all", "any"):
                    result[warp] = int(all(votes) if mode == "all" else any(votes))
                elif mode == "uni":
                    result[warp] = int(len(set(votes)) == 1)
                else:
                    return domain.fresh(WARP, why=f"result of {op.spelling}")
            return _per_warp(domain, result)
        if mode in ("any", "all") and level >= CTA:
            return domain.binary("!=", value, domain.const(0))
        return _of_warp(domain, value, flow.reach.threads, f"result of {op.spelling}")
    return domain.fresh(WARP, why=f"result of {op.spelling}")


def _redux(domain: Domain, op: Operation, values: Mapping[str, Value], flow: Flow) -> Value:
    value = values.get("value")
    lanes = _lanes(domain, values, flow)
    operators = {"add": "+", "min": "min", "max": "max", "and": "&", "or": "|", "xor": "^"}
    operator = operators.get(str(op.mods.get("reduce", "")))
    if value is None:
        return domain.fresh(WARP, why=f"result of {op.spelling}")
    value = domain.restrict(value, flow.reach.threads)
    if not isinstance(value, Known) or lanes is None or operator is None:
        return _of_warp(domain, value, flow.reach.threads, f"result of {op.spelling}")
    result: dict[int, int] = {}
    for warp, threads in lanes.items():
        total: int | None = None
        for thread in threads:
            each = value.at(thread)
            total = each if total is None else binary_int(operator, total, each)
            if total is None:
                return domain.fresh(WARP, why=f"result of {op.spelling}")
        result[warp] = total or 0
    return _per_warp(domain, result)
