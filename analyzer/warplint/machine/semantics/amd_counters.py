"""AMD wait counters: which memory operations of a wave are still under way, and what ends them.

Each wave counts its own operations, one counter for each kind, and those of one counter finish in the order of issue
(LLVM AMDGPUUsage, memory model; SIInsertWaitcnts). An access that a counter tracks is handed to another wave by a
barrier only when the wave has waited for the counter before it: by `s_waitcnt`, by a release fence, or because the
value of a later read of the same counter was used. Counters are named here by what they count, whatever the
generation calls them: `ds` (lgkmcnt, dscnt from gfx12), `load` (vmcnt, loadcnt), `async` (asynccnt), `tensor`
(tensorcnt).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping

from msgspec import Struct, field

from warplint.machine.agent import Agent, Wait
from warplint.machine.compile import Instruction
from warplint.machine.footprint import Access, Counted
from warplint.machine.slicing import Uses
from warplint.machine.values import Value
from warplint.machine.world import World
from warplint.ops.counters import generation, waitcnt_fields
from warplint.source import Span
from warplint.threads.facts import warps_of

COUNTERS = {
    "vmcnt": "load", "loadcnt": "load", "lgkmcnt": "ds", "dscnt": "ds", "asynccnt": "async", "tensorcnt": "tensor",
}  # fmt: skip
"""What each counter operand of a wait is about; the others (expcnt, storecnt, kmcnt ...) track nothing we follow."""
NARROW = ("wavefront", "singlethread")
"""Fence scopes inside one wave: they wait for nothing."""


class Entry(Struct, eq=False):
    """One operation that a counter tracks."""

    span: Span
    access: Access | None = None
    most: int = 1
    """Instructions it may have become, at most."""
    fills: Hashable = None
    """The variable, or the operation of inline assembly, that receives its value."""
    compiled: bool = True
    """The compiler waits before its value is used."""
    waits: list[tuple[Span, str]] = field(default_factory=list)
    """Waits that did not end it, as in `Counted.waits`."""


class Wave(Struct, eq=False):
    """Operations of one wave that are under way, oldest first, by counter."""

    queues: dict[str, list[Entry]] = field(default_factory=dict)
    marks: list[list[Entry]] = field(default_factory=list)
    """What was under way at each asyncmark, oldest first."""


def whole(world: World, threads: int) -> int:
    """All threads of the waves that `threads` lie in."""
    full = (1 << world.warp_size) - 1
    lanes = 0
    for wave in warps_of(threads, world.warp_size):
        lanes |= full << wave * world.warp_size
    return lanes & world.everyone


def _waves(world: World, cta: int, threads: int) -> Iterator[tuple[int, Wave]]:
    """(all threads, state) of each wave that `threads` lie in."""
    full = (1 << world.warp_size) - 1
    for number in warps_of(threads, world.warp_size):
        yield full << number * world.warp_size & world.everyone, world.waves.setdefault((cta, number), Wave())


def issue(world: World, cta: int, threads: int, counter: str, entry: Entry) -> None:
    """The waves of `threads` issue an operation."""
    for _, wave in _waves(world, cta, threads):
        wave.queues.setdefault(counter, []).append(entry)


def tracked(world: World, agent: Agent, threads: int, counter: str, compiled: bool) -> Counted:
    """The counting record of an access that is made now."""
    strands = world.strands_of(agent, threads)
    return Counted(counter, compiled, tuple((strand.index, strand.now) for strand in strands))


def _end(world: World, cta: int, ended: Mapping[int, tuple[Entry, int]]) -> None:
    """The threads given know that these operations are over (by identity: the operation, and whose waves)."""
    for entry, lanes in ended.values():
        access = entry.access
        if access is None or access.counted is None or not access.open & lanes:
            continue
        mine = access.open & lanes
        access.open &= ~lanes
        access.counted.over.extend((strand.index, strand.now) for strand in world.strands.of(cta, mine))


def _collect(ended: dict[int, tuple[Entry, int]], entries: list[Entry], lanes: int) -> None:
    for entry in entries:
        known = ended.get(id(entry))
        ended[id(entry)] = (entry, lanes if known is None else known[1] | lanes)


def wait(world: World, cta: int, threads: int, allowed: Mapping[str, int], span: Span) -> None:
    """At most `allowed[counter]` operations of each counter named are still under way in the waves of `threads`."""
    ended: dict[int, tuple[Entry, int]] = {}
    for lanes, wave in _waves(world, cta, threads):
        for counter, queue in wave.queues.items():
            if counter not in allowed:
                _remember(queue, span, "other")
                continue
            keep, after = 0, 0
            while keep < len(queue) and after < allowed[counter]:
                keep += 1
                after += queue[-keep].most
            cut = len(queue) - keep
            _collect(ended, queue[:cut], lanes)
            del queue[:cut]
            _remember(queue, span, "weak")
    _end(world, cta, ended)


def _finish(world: World, cta: int, threads: int) -> None:
    """The value of an LDS read is there: so is what its waves did in LDS before."""
    ended: dict[int, tuple[Entry, int]] = {}
    for lanes, wave in _waves(world, cta, threads):
        queue = wave.queues.get("ds")
        if queue:
            _collect(ended, queue, lanes)
            queue.clear()
    _end(world, cta, ended)


def _remember(queue: list[Entry], span: Span, how: str) -> None:
    for entry in queue:
        counted = entry.access.counted if entry.access is not None else None
        waits = entry.waits if counted is None else counted.waits
        if (counted is None or counted.barrier is None) and (span, how) not in waits:
            waits.append((span, how))


def release(world: World, agent: Agent, threads: int, span: Span, spaces: Collection[str] = ("ds", "load")) -> None:
    """A release at workgroup scope or wider: LDS operations are waited for; loads into LDS only by newer compilers.

    The compiler knows what its built-ins issue (LLVM PR 142018), not what inline assembly does. asynccnt and tensorcnt
    are waited for by no fence.
    """
    ended: dict[int, tuple[Entry, int]] = {}
    for lanes, wave in _waves(world, agent.cta, threads):
        for counter, queue in wave.queues.items():
            if counter not in spaces:
                _remember(queue, span, "fence")
                continue
            over = [entry for entry in queue if entry.compiled]
            _collect(ended, over, lanes)
            queue[:] = [entry for entry in queue if not entry.compiled]
            _remember(queue, span, "fence")
            if counter == "load":
                for entry in over:
                    if entry.access is not None and entry.access.counted is not None:
                        entry.access.counted.fence = span
    _end(world, agent.cta, ended)


def passed(world: World, cta: int, threads: int, span: Span) -> None:
    """The waves of `threads` arrive at a barrier: what is under way is handed over too early."""
    for _, wave in _waves(world, cta, threads):
        for queue in wave.queues.values():
            for entry in queue:
                counted = entry.access.counted if entry.access is not None else None
                if counted is not None and counted.barrier is None:
                    counted.barrier = span


def used(world: World, cta: int, threads: int, fills: Collection[Hashable]) -> list[Entry]:
    """Values are used: what the compiler loaded has been waited for, with all before it of the same counter.

    Returns the operations of inline assembly that nothing has waited for.
    """
    ended: dict[int, tuple[Entry, int]] = {}
    early: dict[int, Entry] = {}
    for lanes, wave in _waves(world, cta, threads):
        for queue in wave.queues.values():
            last = 0
            for index, entry in enumerate(queue):
                if entry.fills is not None and entry.fills in fills:
                    if entry.compiled:
                        last = index + 1
                    else:
                        early[id(entry)] = entry
            if last:
                _collect(ended, queue[:last], lanes)
                del queue[:last]
    _end(world, cta, ended)
    return list(early.values())


def lds(world: World, agent: Agent, access: Access, threads: int, fills: Hashable, compiled: bool = True) -> None:
    """An LDS access was recorded: it is under way until its counter is waited for. A value used at once is over."""
    if access.counted is None:
        return
    if not access.write and fills is None and compiled:
        _finish(world, agent.cta, threads)
        access.open = 0
        access.counted.over.extend(access.counted.issued)
        return
    access.open = access.threads
    issue(world, agent.cta, threads, "ds", Entry(access.span, access, 1, fills, compiled))


# ------------------------------------------------------------------------------------------------ operations
def wait_counters(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """`s_waitcnt` and its split forms: each executing wave waits for its own operations."""
    arch = world.kernel.launch.arch or ("gfx9" if world.kernel.launch.warp_size == 64 else "")
    asked: dict[str, int] = {}
    for role, value in operands.items():
        if not isinstance(value, int):
            world.note("how many operations may stay under way is not known", instruction.span)
            return None
        if role != "imm":
            asked[role] = value
        elif not 0 < generation(arch) < 12:
            world.note("what the packed operand of s_waitcnt means is not known: pass --arch", instruction.span)
            return None
        else:
            asked |= waitcnt_fields(value, arch)
    allowed = {COUNTERS[role]: value for role, value in asked.items() if role in COUNTERS}
    text = " ".join(f"{role}({value})" for role, value in asked.items())
    world.step(agent, instruction.span, f"wait for {text or 'nothing'}", "counters", threads)
    if asked:
        wait(world, agent.cta, threads, allowed, instruction.span)
    return None


def fence(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """`__builtin_amdgcn_fence`, `__threadfence*`: waits for the wave's own operations, joins nobody."""
    assert instruction.op is not None
    mods = instruction.op.mods
    if mods.get("kind") or str(mods.get("scope", "")).startswith(NARROW):
        return None
    only = str(mods.get("space", ""))
    spaces = {"local": ("ds",), "global": ("load",)}.get(only, ("ds", "load"))
    release(world, agent, threads, instruction.span, spaces)
    return None


def async_mark(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """`asyncmark` closes a group of the wave's copies into LDS; `wait.asyncmark(N)` leaves the N latest groups."""
    op = instruction.op
    assert op is not None
    if op.mods.get("kind") != "wait":
        for _, wave in _waves(world, agent.cta, threads):
            wave.marks.append([entry for name in ("load", "async") for entry in wave.queues.get(name, ())])
        return None
    allowed = operands.get("count", 0)
    if not isinstance(allowed, int):
        world.note("how many asyncmark groups may stay under way is not known", instruction.span)
        return None
    ended: dict[int, tuple[Entry, int]] = {}
    for lanes, wave in _waves(world, agent.cta, threads):
        over = wave.marks[: max(len(wave.marks) - allowed, 0)]
        del wave.marks[: len(over)]
        gone = {id(entry) for group in over for entry in group}
        for queue in wave.queues.values():
            _collect(ended, [entry for entry in queue if id(entry) in gone], lanes)
            queue[:] = [entry for entry in queue if id(entry) not in gone]
            _remember(queue, instruction.span, "weak")
    _end(world, agent.cta, ended)
    return None


def vector_load(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """A load into registers: vmcnt counts it; inline assembly has to wait for it itself."""
    op = instruction.op
    assert op is not None
    issue(world, agent.cta, threads, "load", Entry(instruction.span, None, 1, op, op.by_name))
    return None


def vector_store(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """A store to global memory: counted by vmcnt before gfx10, on its own from then on."""
    if generation(world.kernel.launch.arch) < 10:
        issue(world, agent.cta, threads, "load", Entry(instruction.span))
    return None


def mark(world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int) -> Wait | None:
    """What a statement does to the counters without being executed: values it uses, global memory it touches."""
    found = instruction.key
    assert isinstance(found, Uses)
    if found.certain or found.mentioned:
        used(world, agent.cta, threads, found.mentioned)
        for entry in used(world, agent.cta, threads, found.certain):
            counted = entry.access.counted if entry.access is not None else None
            kinds = {how for _, how in (entry.waits if counted is None else counted.waits)}
            how = "weak" if "weak" in kinds else "other" if kinds else ""
            world.fault("used-before-counter", agent, instruction.span, how, entry.span)
    if found.touches:
        issue(world, agent.cta, threads, "load", Entry(instruction.span, None, found.touches))
    return None


HANDLERS = {
    "amd.s_waitcnt": wait_counters,
    "amd.fence": fence,
    "amd.asyncmark": async_mark,
    "amd.vmem_load": vector_load,
    "amd.vmem_store": vector_store,
    "mark": mark,
}

__all__ = ["COUNTERS", "HANDLERS", "Entry", "issue", "lds", "passed", "release", "tracked", "used", "wait", "whole"]
