"""Waves of AMD GPUs: workgroup, split and named barriers.

A barrier counts waves: each execution by a wave is one arrival, whatever lanes are active, and a wave that has ended no
longer counts (LLVM, AMDGPUExecutionSynchronization). `s_barrier` orders execution only; what memory it hands over is
what the wave has waited for before (`amd_counters`). `__syncthreads` is a release fence, `s_barrier` and an acquire
fence. The lanes of a wave are never out of step, and meet again where their paths meet.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import partial

from msgspec import Struct, field

from warplint.machine import values as v
from warplint.machine.agent import Agent, Wait
from warplint.machine.compile import Instruction
from warplint.machine.semantics import amd_counters
from warplint.machine.semantics.memory import touch
from warplint.machine.strands import raise_to
from warplint.machine.values import Value
from warplint.machine.world import World
from warplint.source import Span
from warplint.threads.facts import Uniformity, warps_of

WORKGROUP = (-1, -2)
"""Ids of the workgroup barrier of gfx12: for the program, and for the trap handler."""
CLUSTER = (-3, -4)
FENCED = frozenset({"hip.__syncthreads", "grid.sync"})
"""Workgroup barriers with the fences of `__syncthreads` around them."""


class Workgroup(Struct, eq=False):
    """The barrier of one workgroup, or a named one: which waves have arrived in the current generation."""

    need: int | None = None
    """Arrivals a named barrier waits for; None: all waves that have not ended."""
    arrived: dict[int, Span] = field(default_factory=dict)
    count: int = 0
    generation: int = 0
    signals: dict[int, int] = field(default_factory=dict)
    """Wave -> the generation it has signalled in and not waited for yet."""
    knowledge: dict[Hashable, int] = field(default_factory=dict)
    handed: list[Mapping[Hashable, int]] = field(default_factory=list)

    def complete(self, waves: set[int]) -> None:
        """Close the generation when all that it waits for are there; `waves` are those that have not ended."""
        over = waves <= self.arrived.keys() if self.need is None else self.count >= self.need
        if self.arrived and over:
            self.generation += 1
            self.handed.append(self.knowledge)
            self.knowledge, self.arrived, self.count = {}, {}, 0


def _barrier(world: World, key: Hashable) -> Workgroup:
    return world.extra.setdefault(("workgroup", key), Workgroup())


def _living(world: World, cta: int) -> set[int]:
    return set(warps_of(world.live[cta], world.warp_size))


def _arrive(world: World, agent: Agent, group: Workgroup, threads: int, span: Span) -> None:
    """The waves of `threads` arrive; a wave hands over what all its lanes did, as far as it has been waited for."""
    lanes = amd_counters.whole(world, threads)
    amd_counters.passed(world, agent.cta, threads, span)
    raise_to(group.knowledge, world.strands.published(world.strands.of(agent.cta, lanes)))
    for wave in warps_of(threads, world.warp_size):
        group.arrived[wave] = span
        group.count += 1
    world.changed = True


def _acquire(world: World, cta: int, threads: int, knowledge: Mapping[Hashable, int]) -> None:
    world.strands.acquire(world.strands.of(cta, amd_counters.whole(world, threads)), knowledge)


def workgroup_barrier(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """`s_barrier`, and `__syncthreads` with its fences: all waves of the workgroup that have not ended.

    Lanes of a wave that has arrived already come in a second arrival, once the first is over.
    """
    op = instruction.op
    assert op is not None
    group = _barrier(world, agent.cta)
    waves = warps_of(threads, world.warp_size)
    late = [wave for wave in waves if wave in group.arrived]
    if late and len(late) < len(waves):
        again = amd_counters.whole(world, sum(waves[wave] << wave * world.warp_size for wave in late)) & agent.threads
        world.divide(agent, [agent.threads & ~again, again])
        threads &= agent.threads
        waves = warps_of(threads, world.warp_size)
    agent.results[(op, "value")] = v.Unknown(("barrier", id(instruction), group.generation), Uniformity.CTA)
    ready = _meeting(world, agent, threads, instruction.span, op.name in FENCED)
    return None if ready() else Wait("cta barrier", instruction.span, ready, ("bar", agent.cta, 0))


def _meeting(world: World, agent: Agent, threads: int, span: Span, fenced: bool) -> Callable[[], bool]:
    """Arrives at the workgroup's barrier as soon as that can be, and says whether all have come."""
    group, cta = _barrier(world, agent.cta), agent.cta
    waves = warps_of(threads, world.warp_size)
    generation = -1

    def ready() -> bool:
        nonlocal generation
        if generation < 0:
            if any(wave in group.arrived for wave in waves):
                group.complete(_living(world, cta))
                if any(wave in group.arrived for wave in waves):
                    return False
            if fenced:
                amd_counters.release(world, agent, threads, span)
            generation = group.generation
            world.step(agent, span, f"workgroup barrier, generation {generation}", ("cta", cta), threads)
            _arrive(world, agent, group, threads, span)
        if group.generation == generation:
            group.complete(_living(world, cta))
        if group.generation == generation:
            return False
        _acquire(world, cta, threads, group.handed[generation])
        return True

    return ready


def all_reduce(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """TileLang's `AllReduce`: halves the distance until `scale`; across waves through a buffer, between two barriers.

    Source: TileLang 0.1.15, tl_templates/hip/reduce.h. Inside a wave it shuffles, and nobody waits.
    """
    op = instruction.op
    assert op is not None
    agent.results[(op, "value")] = v.Unknown(("reduced", id(instruction), agent.steps), Uniformity.LANE)
    width, scale, base = operands.get("threads"), operands.get("scale", 1), operands.get("base", 0)
    if not (isinstance(width, int) and isinstance(scale, int) and isinstance(base, int)):
        world.note(f"how many threads `{op.spelling}` reduces over is not known", instruction.span)
        return None
    place = operands.get("dst", 0)
    rounds: list[int] = []
    offset = width // 2
    while offset >= max(scale, world.warp_size):
        rounds.append(offset)
        offset //= 2

    def touched(distance: int, write: bool) -> bool:
        if not isinstance(place, v.Place):
            world.note(f"the buffer of `{op.spelling}` is not known", instruction.span)
            return True
        index = v.binary("-", tuple(range(world.block)), base)
        at = v.binary("+", place.offset, v.binary("*", v.binary("^", index, distance), 4))
        touch(world, agent, threads, v.Place(place.base, agent.narrowed(at), place.cta), 4, instruction.span,
              "store of a reduction" if write else "load of a reduction", write=write)  # fmt: skip
        return True

    waiting: list[Callable[[], bool]] = []

    def meet() -> bool:
        if not waiting:
            waiting.append(_meeting(world, agent, threads, instruction.span, True))
        if not waiting[0]():
            return False
        waiting.clear()
        return True

    steps: list[Callable[[], bool]] = []
    for distance in rounds:
        steps += [meet, partial(touched, 0, True), meet, partial(touched, distance, False)]

    def ready() -> bool:
        while steps and steps[0]():
            steps.pop(0)
        return not steps

    return None if ready() else Wait("cta barrier", instruction.span, ready, ("bar", agent.cta, 0))


def split_barrier(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """`s_barrier_signal` and `s_barrier_wait` (gfx12): arriving and waiting apart."""
    op = instruction.op
    assert op is not None
    ident = operands.get("id", -1)
    if ident == 0:
        return None
    if ident in CLUSTER:
        return _cluster(world, agent, ident, threads, instruction) if world.scenario.ctas > 1 else None
    if not isinstance(ident, int):
        world.note("a barrier whose id is not known is not followed", instruction.span)
        return None
    if op.mods.get("kind") != "wait":
        if ident not in WORKGROUP:
            return _signal(world, agent, _barrier(world, (agent.cta, ident)), threads, instruction)
        return _signal(world, agent, _barrier(world, agent.cta), threads, instruction)
    if ident in WORKGROUP:
        return _wait(world, agent, _barrier(world, agent.cta), threads, instruction)
    joined = {world.extra.get(("joined", agent.cta, wave)) for wave in warps_of(threads, world.warp_size)}
    if len(joined) != 1 or None in joined:
        world.note("which named barrier a wave waits for is not known", instruction.span)
        return None
    return _wait(world, agent, _barrier(world, joined.pop()), threads, instruction)


def _signal(world: World, agent: Agent, group: Workgroup, threads: int, instruction: Instruction) -> None:
    for wave in warps_of(threads, world.warp_size):
        if wave in group.signals and group.signals[wave] == group.generation:
            world.fault("wave-signalled-twice", agent, instruction.span, "", group.arrived.get(wave))
    world.step(agent, instruction.span, f"signals, generation {group.generation}", ("cta", agent.cta), threads)
    generation = group.generation
    _arrive(world, agent, group, threads, instruction.span)
    group.complete(_living(world, agent.cta))
    for wave in warps_of(threads, world.warp_size):
        group.signals[wave] = generation


def _wait(world: World, agent: Agent, group: Workgroup, threads: int, instruction: Instruction) -> Wait | None:
    waves = warps_of(threads, world.warp_size)
    if any(wave not in group.signals for wave in waves):
        world.fault("wait-without-signal", agent, instruction.span)
    generations = [group.signals.pop(wave, group.generation) for wave in waves]
    generation, cta = max(generations, default=group.generation), agent.cta
    world.step(agent, instruction.span, f"waits for generation {generation}", ("cta", cta), threads)

    def ready() -> bool:
        if group.generation <= generation:
            group.complete(_living(world, cta))
        if group.generation <= generation:
            return False
        _acquire(world, cta, threads, group.handed[generation])
        return True

    return None if ready() else Wait("cta barrier", instruction.span, ready, ("bar", cta, 0))


def _cluster(world: World, agent: Agent, ident: Value, threads: int, instruction: Instruction) -> Wait | None:
    """The barrier of a cluster (gfx1250): one wave of each workgroup signals, every wave may wait."""
    op = instruction.op
    assert op is not None
    group = _barrier(world, ("cluster", ident))
    group.need = world.scenario.ctas
    cta, span = agent.cta, instruction.span
    if op.mods.get("kind") != "wait":
        world.step(agent, span, f"signals the cluster, generation {group.generation}", ("cluster",), threads)
        _arrive(world, agent, group, threads, span)
        group.complete(set())
        return None
    waits = [("cluster waits", ident, cta, wave) for wave in warps_of(threads, world.warp_size)]
    generation = max((world.extra.get(key, 0) for key in waits), default=0)
    world.extra.update((key, generation + 1) for key in waits)
    world.step(agent, span, f"waits for the cluster, generation {generation}", ("cluster",), threads)

    def ready() -> bool:
        if group.generation <= generation:
            return False
        _acquire(world, cta, threads, group.handed[generation])
        return True

    return None if ready() else Wait("cluster barrier", span, ready, ("cluster", ident, 0))


def named_barrier(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """Named barriers of gfx1250: init sets how many waves signal; a wave waits for the one it joined last."""
    op = instruction.op
    assert op is not None
    kind = str(op.mods.get("kind", ""))
    ident = operands.get("id")
    waves = warps_of(threads, world.warp_size)
    if kind == "leave":
        for wave in waves:
            world.extra.pop(("joined", agent.cta, wave), None)
        return None
    if isinstance(ident, v.Place) and isinstance(ident.offset, int):
        key: Hashable = (agent.cta, id(ident.base), ident.offset)
    elif isinstance(ident, int):
        key = (agent.cta, ident)
    else:
        world.note(f"the barrier of `{op.spelling}` is not known", instruction.span)
        return None
    group = _barrier(world, key)
    count = operands.get("count")
    if kind == "init" or (kind == "signal_var" and isinstance(count, int) and count):
        if not isinstance(count, int):
            world.note(f"how many waves `{op.spelling}` waits for is not known", instruction.span)
            return None
        group.need = count
    if kind == "join":
        for wave in waves:
            world.extra[("joined", agent.cta, wave)] = key
    elif kind == "signal_var":
        if group.need is None:
            world.note(f"how many waves `{op.spelling}` waits for is not known", instruction.span)
        _signal(world, agent, group, threads, instruction)
    return None


HANDLERS = {
    "hip.__syncthreads": workgroup_barrier,
    "grid.sync": workgroup_barrier,
    "amd.all_reduce": all_reduce,
    "amd.s_barrier": workgroup_barrier,
    "amd.s_barrier_signal_wait": split_barrier,
    "amd.named_barrier": named_barrier,
}
