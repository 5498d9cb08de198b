"""CTA, named and cluster barriers, and thread fences. Facts: PTX ISA 9.7.13.1, 9.7.13.3, 9.7.13.4; OPS.md section 1."""

from __future__ import annotations

from collections.abc import Callable

from warplint.machine import values as v
from warplint.machine.agent import Agent, Wait
from warplint.machine.barriers import NamedBarrier
from warplint.machine.compile import Instruction
from warplint.machine.values import Value
from warplint.machine.world import World
from warplint.threads.facts import Uniformity, warps_of


def _hardware(world: World, cta: int, ident: int) -> NamedBarrier:
    barrier = world.named.get((cta, ident))
    if barrier is None:
        barrier = world.named[(cta, ident)] = NamedBarrier(cta, ident)
    return barrier


def cta_barrier(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """`__syncthreads` and barrier 0 without a count: every thread of the CTA that has not exited."""
    strands = world.strands_of(agent, threads)
    barrier = _hardware(world, agent.cta, 0)
    state = world.extra.setdefault(("cta", agent.cta), {"arrived": 0})
    assert isinstance(state, dict)
    if not barrier.came:
        state["arrived"] = 0
    state["arrived"] |= threads
    generation = barrier.generation
    knowledge = world.strands.published(strands)
    for warp in warps_of(threads, world.warp_size):
        if warp not in barrier.lanes:
            barrier.arrive(warp, -1, instruction.span, True, knowledge)
    barrier.need = -1
    _raise(barrier, knowledge)
    if instruction.op is not None and instruction.op.name == "bar.red.cta":
        # A reduction over the data of all threads: unknown, and the same for all.
        result = v.Unknown(("bar.red", instruction.span, generation, agent.cta), Uniformity.CTA)
        agent.results[(instruction.op, "value")] = result
    world.changed = True
    world.step(agent, instruction.span, f"CTA barrier, generation {generation}", ("cta", agent.cta), threads)

    def ready() -> bool:
        if barrier.generation == generation and not world.live[agent.cta] & ~state["arrived"]:
            exited = world.everyone & ~world.live[agent.cta] & ~state["arrived"]
            if exited:  # the barrier is released by their exit, which comes after all that they did
                _raise(barrier, world.strands.published(world.strands.of(agent.cta, exited)))
            barrier.complete(len(barrier.came))
        if barrier.generation == generation:
            return False
        world.strands.acquire(world.strands_of(agent, threads), barrier.handed[generation])
        return True

    return (
        None if ready() else Wait("cta barrier", instruction.span, ready, ("bar", agent.cta, 0), generation=generation)
    )


def _raise(barrier: NamedBarrier, knowledge: dict) -> None:
    from warplint.machine.strands import raise_to

    raise_to(barrier.knowledge, knowledge)


def named(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """bar.sync / bar.arrive with an id: counts executions by warps (`NamedBarrier`), whatever their active lanes."""
    assert instruction.op is not None
    waits = instruction.op.name != "bar.arrive.named"
    ident, count = operands.get("id"), operands.get("threads")
    if isinstance(ident, tuple) or isinstance(count, tuple):
        return _per_warp(world, agent, instruction, operands, threads, waits)
    if not isinstance(ident, int):
        world.note(f"the id of `{instruction.op.spelling}` is not known", instruction.span)
        return None
    if count is None or count == 0:
        if ident == 0:
            return cta_barrier(world, agent, instruction, operands, threads)
        count = world.block
    if not isinstance(count, int):
        world.note(f"the thread count of `{instruction.op.spelling}` is not known", instruction.span)
        return None
    ready = _join(world, agent, instruction, ident, count, threads, waits)
    if not waits or ready():
        return None
    return Wait("named barrier", instruction.span, ready, ("bar", agent.cta, ident),
                generation=world.named[(agent.cta, ident)].generation)  # fmt: skip


def _join(
    world: World, agent: Agent, instruction: Instruction, ident: int, count: int, threads: int, waits: bool
) -> Callable[[], bool]:
    barrier = _hardware(world, agent.cta, ident)
    generation = barrier.generation
    strands = world.strands_of(agent, threads)
    knowledge = world.strands.published(strands)
    need = -(-count // world.warp_size)
    for warp, lanes in warps_of(threads, world.warp_size).items():
        if barrier.arrive(warp, need, instruction.span, waits, knowledge, lanes):
            world.fault("named-count-differs", agent, instruction.span, str(ident), barrier.span)
    barrier.complete()
    world.changed = True
    word = "bar.sync" if waits else "bar.arrive"
    world.step(agent, instruction.span, f"{word} {ident}, {count}", ("bar", agent.cta, ident), threads)

    def ready() -> bool:
        if barrier.generation == generation:
            return False
        world.strands.acquire(world.strands_of(agent, threads), barrier.handed[generation])
        return True

    return ready


def _per_warp(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int, waits: bool
) -> Wait | None:
    """An id or count that differs between warps: each warp goes to its own barrier.

    Those that wait at different barriers go on independently of each other: the agent is divided.
    """
    ident, count = operands.get("id"), operands.get("threads")
    groups: dict[tuple[int, int], int] = {}
    for warp, lanes in warps_of(threads, world.warp_size).items():
        members = lanes << (warp * world.warp_size)
        first = (members & -members).bit_length() - 1
        which = ident[first] if isinstance(ident, tuple) else ident
        number = count[first] if isinstance(count, tuple) else count
        if not isinstance(which, int) or not isinstance(number, int):
            world.note("the id or count of a named barrier is not known", instruction.span)
            return None
        target = (which, number or world.block)
        groups[target] = groups.get(target, 0) | members
    if not waits:
        for (which, number), members in groups.items():
            _join(world, agent, instruction, which, number, members, waits)
        return None
    (which, number), mine = next(iter(groups.items()))
    if len(groups) > 1:
        inactive = agent.threads & ~threads
        world.divide(agent, [mine | inactive, *list(groups.values())[1:]])
    ready = _join(world, agent, instruction, which, number, mine, waits)
    if ready():
        return None
    return Wait("named barrier", instruction.span, ready, ("bar", agent.cta, which),
                generation=world.named[(agent.cta, which)].generation)  # fmt: skip


def cluster_arrive(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """barrier.cluster.arrive: release unless relaxed."""
    assert instruction.op is not None
    strands = world.strands_of(agent, threads)
    relaxed = instruction.op.mods.get("sem") == "relaxed"
    fenced = {s.index for s in strands if world.extra.get(("cluster-fence", s.index)) == s.now}
    publish = [s for s in strands if not relaxed or s.index in fenced]
    knowledge = world.strands.published(publish)
    if relaxed:
        # fence.mbarrier_init releases exactly the inits before it.
        for strand in strands:
            # Nor is memory released; what has been executed is known all the same, and what the tensor pipeline of a
            # thread has completed.
            for part, value in strand.clock.items():
                told = ("exec", part) if isinstance(part, int) else part
                if isinstance(told, tuple) and told[0] in ("exec", "tcgen05") and knowledge.get(told, 0) < value:
                    knowledge[told] = value
            knowledge[("exec", strand.index)] = knowledge[("relaxed", strand.index)] = strand.now
            for index in world.strands.lineage(strand.index):
                if index in world.init_fences:
                    knowledge[index] = max(knowledge.get(index, 0), world.init_fences[index])
                    break
            strand.now += 1
    if world.cluster.arrive(agent.cta, threads, knowledge, instruction.span):
        world.fault("cluster-re-arrival", agent, instruction.span)
    for strand in strands:
        world.extra[("cluster-generation", strand.index)] = world.cluster.generation
    agent.env["cluster-generation"] = world.cluster.generation
    world.cluster.complete(world.live)
    world.changed = True
    world.step(agent, instruction.span, "cluster barrier arrive", "cluster", threads)
    return None


def cluster_wait(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """barrier.cluster.wait: acquire of the generation this thread arrived in."""
    generation = agent.env.get("cluster-generation")
    passed = agent.env.get("cluster-passed")
    if not isinstance(generation, int) or (isinstance(passed, int) and passed > generation):
        # No arrive at all, or none since the wait before.
        world.fault("cluster-wait-without-arrive", agent, instruction.span)
        return None
    cluster = world.cluster

    def ready() -> bool:
        if cluster.generation == generation:
            cluster.complete(world.live)
        if cluster.generation <= generation:
            return False
        world.strands.acquire(world.strands_of(agent, threads), cluster.handed[generation])
        agent.env["cluster-passed"] = generation + 1
        return True

    return None if ready() else Wait("cluster barrier", instruction.span, ready, "cluster", generation=generation)


def grid_barrier(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """A barrier of the whole grid (`grid.sync()`): the other CTAs of the grid are taken to come.

    The runtime makes it of `__syncthreads`, a counter in global memory and `__syncthreads` (cooperative_groups.h). The
    CTAs of a cluster join as at a cluster barrier of its own.
    """
    if len(world.live) == 1:
        return cta_barrier(world, agent, instruction, operands, threads)
    grid = world.grid
    generation = grid.generation
    grid.arrive(agent.cta, threads, world.strands.published(world.strands_of(agent, threads)), instruction.span)
    world.changed = True
    world.step(agent, instruction.span, f"grid barrier, generation {generation}", "grid", threads)

    def ready() -> bool:
        if grid.generation == generation:
            grid.complete(world.live)
        if grid.generation == generation:
            return False
        world.strands.acquire(world.strands_of(agent, threads), grid.handed[generation])
        return True

    return None if ready() else Wait("grid barrier", instruction.span, ready, "grid", generation=generation)


def grid_control(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """griddepcontrol: other grids are taken to come and to go; it joins no threads (PTX ISA 9.7.13.13)."""
    assert instruction.op is not None
    world.step(agent, instruction.span, instruction.op.name, None, threads)
    return None


def proxy_fence(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """fence.proxy.async: each executing thread orders its own accesses between the proxies."""
    assert instruction.op is not None
    if instruction.op.mods.get("space") != "global":
        world.memory.fence(world.strands_of(agent, threads))
    return None


def init_fence(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """fence.mbarrier_init.release.cluster: earlier inits of this thread go with its next (relaxed) cluster arrive."""
    for strand in world.strands_of(agent, threads):
        world.init_fences[strand.index] = strand.now
        strand.now += 1
    return None


def tensor_fence_before(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """tcgen05.fence::before_thread_sync."""
    world.memory.before_thread_sync(world.strands_of(agent, threads))
    return None


def tensor_fence_after(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """tcgen05.fence::after_thread_sync."""
    world.memory.after_thread_sync(world.strands_of(agent, threads))
    return None


def thread_fence(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """__threadfence and fence.acq_rel: orders, joins nobody."""
    for strand in world.strands_of(agent, threads):
        strand.now += 1
        world.extra[("cluster-fence", strand.index)] = strand.now
    if world.polls is not None:
        world.polls.fence(agent, threads)
    return None


HANDLERS = {
    "bar.sync.cta": cta_barrier,
    "bar.red.cta": cta_barrier,
    "bar.sync.named": named,
    "bar.arrive.named": named,
    "barrier.nonaligned": named,
    "barrier.cluster.arrive": cluster_arrive,
    "barrier.cluster.wait": cluster_wait,
    "grid.sync": grid_barrier,
    "griddepcontrol.wait": grid_control,
    "griddepcontrol.launch_dependents": grid_control,
    "fence.proxy.async": proxy_fence,
    "fence.mbarrier_init.release.cluster": init_fence,
    "fence.acq_rel.cluster": thread_fence,
    "tcgen05.fence.before_thread_sync": tensor_fence_before,
    "tcgen05.fence.after_thread_sync": tensor_fence_after,
}
