"""cp.async, bulk and tensor copies, and their completion. Facts: PTX ISA 9.7.9.25-27; OPS.md section 3.

A copy that completes on an mbarrier is delivered when every agent has run as far as it can: then all copies of the
phase
have been issued, and one whose size the source does not tell (a tensor map's box) fills exactly what was expected.
"""

from __future__ import annotations

from collections.abc import Hashable

from msgspec import Struct, field

from warplint.machine import values as v
from warplint.machine.agent import Agent, Wait
from warplint.machine.barriers import Arrival, label_of
from warplint.machine.compile import Instruction
from warplint.machine.semantics.mbarriers import check_initialised, contribute, words
from warplint.machine.semantics.memory import touch
from warplint.machine.slots import written_run
from warplint.machine.values import Value
from warplint.machine.world import World
from warplint.source import Span


class Flight(Struct):
    """A copy under way to an mbarrier."""

    key: Hashable
    bytes: int | None
    span: Span
    cta: int
    threads: int
    knowledge: dict[Hashable, int] = field(default_factory=dict)


def load_to_mbarrier(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """Bulk and tensor loads (and st.async): write shared memory, then complete_tx on the barrier they name."""
    op = instruction.op
    assert op is not None
    found = words(world, agent, operands, threads)
    size = operands.get("bytes")
    number = size if isinstance(size, int) else None
    name = "CLC response" if op.name.startswith("clusterlaunch") else "TMA load" if "tensor" in op.name else "bulk copy"
    if op.name.startswith("clusterlaunch"):
        number = 16
    if found is None:
        world.note(f"the barrier that `{op.spelling}` completes on is not known", instruction.span)
        touch(world, agent, threads, operands.get("dst", 0), number, instruction.span, name, write=True, proxy="async",
              pending="mbarrier")  # fmt: skip
        return None
    mask = operands.get("cta_mask")
    everywhere = op.name.startswith("clusterlaunch") and bool(op.mods.get("multicast"))
    destination = operands.get("dst", 0)
    data = (operands["value"],) if op.name == "st.async" and "value" in operands else ()
    for key, by in found:
        assert isinstance(key, tuple)
        targets: list[int] = [key[0]]
        spread = everywhere or isinstance(mask, int)
        if isinstance(mask, int):
            targets = [cta for cta in range(world.scenario.ctas) if mask >> cta & 1]
        elif everywhere:
            targets = list(range(world.scenario.ctas))
        strands = world.strands_of(agent, by)
        knowledge = world.strands.published(strands)
        # With cta_group::2 the barrier may be that of the pair's leader, whichever CTA of the pair gets the data.
        named = operands.get("barrier")
        paired = op.mods.get("cta_group") == 2 and isinstance(named, v.Place) and named.cta is not None
        for cta in targets:
            owner = (cta & ~1 | key[0] & 1 if paired else cta) if spread else key[0]
            target = (owner, *key[1:])
            barrier = world.mbarriers.get(target)
            if barrier is None:
                world.fault("uninitialised", agent, instruction.span, label_of(target))
                continue
            check_initialised(world, agent, target, by, instruction.span)
            place = destination
            if spread and isinstance(place, v.Place):
                place = v.Place(place.base, place.offset, cta)
            copies = [1 << t for t in agent.members if by >> t & 1]
            if len(copies) > 1 and isinstance(place, v.Place) and isinstance(place.offset, int):
                world.fault("copied-by-many", agent, instruction.span, str(len(copies)))
            touch(world, agent, by, place, number, instruction.span, name, write=True, proxy="async",
                  done=((("mbar", target), barrier.completed + 1),), data=data)  # fmt: skip
            for each in copies:
                world.flights.append(Flight(target, number, instruction.span, agent.cta, each, knowledge))
            world.step(agent, instruction.span, f"{name} to {label_of(target)}, phase {barrier.completed}", target, by)
    return None


def deliver(world: World) -> bool:
    """Let the copies under way arrive. True when something was delivered."""
    if not world.flights:
        return False
    groups: dict[Hashable, list[Flight]] = {}
    for flight in world.flights:
        groups.setdefault(flight.key, []).append(flight)
    kept: list[Flight] = []
    delivered = False
    for key, copies in groups.items():
        barrier = world.mbarriers.get(key)
        if barrier is None:
            continue
        sizes = [flight.bytes for flight in copies if flight.bytes is not None]
        known = sum(sizes)
        open_copies = len(copies) - len(sizes)
        if open_copies and barrier.tx <= known:
            # Nothing is expected yet: what a copy of unknown size brings cannot be told. It stays under way.
            kept.extend(copies)
            continue
        total = barrier.tx if open_copies else known
        merged: dict[Hashable, int] = {}
        for flight in copies:
            for part, value in flight.knowledge.items():
                if merged.get(part, 0) < value:
                    merged[part] = value
        first = copies[0]
        agent = next((a for a in world.agents if a.cta == first.cta), None)
        arrival = Arrival(first.cta, first.threads, first.span, 0, 0, total, "copy")
        contribute(world, agent, key, arrival, merged)
        delivered = True
    world.flights = kept
    return delivered


def store_to_global(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """Bulk and tensor stores and reductions: read shared memory until their bulk group is waited for."""
    size = operands.get("bytes")
    number = size if isinstance(size, int) else None
    source = operands.get("src", 0)
    assert instruction.op is not None
    name = "TMA store" if "tensor" in instruction.op.name else "bulk store"
    length = number
    if number is None and isinstance(source, v.Place) and isinstance(source.offset, int):
        length = written_run(world, agent, source)
    access = touch(world, agent, threads, source, length, instruction.span, name, write=False, proxy="async",
                   pending="bulk-group", inferred=number is None)  # fmt: skip
    world.groups.issue("bulk", world.strands_of(agent, threads), access, instruction.span)
    world.step(agent, instruction.span, name, "bulk", threads)
    return None


def commit_bulk(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """cp.async.bulk.commit_group: each executing thread closes its own group."""
    world.groups.commit("bulk", world.strands_of(agent, threads), instruction.span)
    return None


def _wait(world: World, agent: Agent, instruction: Instruction, allowed: Value, threads: int, mechanism: str) -> None:
    if not isinstance(allowed, int):
        world.note("the number of groups that may stay pending is not known", instruction.span)
        return
    world.groups.wait(mechanism, world.strands_of(agent, threads), allowed)
    world.step(
        agent, instruction.span, f"wait until at most {allowed} {mechanism} groups are pending", mechanism, threads
    )


def wait_bulk(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """cp.async.bulk.wait_group N: at most the N latest groups of this thread are still pending."""
    _wait(world, agent, instruction, operands.get("group", 0), threads, "bulk")
    return None


def cp_async(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """cp.async: a per-thread copy into shared memory, outside the async proxy."""
    size = operands.get("bytes")
    access = touch(world, agent, threads, operands.get("dst", 0), size if isinstance(size, int) else None,
                   instruction.span, "cp.async", write=True, pending="cp.async")  # fmt: skip
    world.groups.issue("cp.async", world.strands_of(agent, threads), access, instruction.span)
    return None


def attach_cp_async(world: World, agent: Agent, threads: int, key: Hashable, value: int) -> None:
    """cp.async.mbarrier.arrive: the thread's cp.async so far complete with that phase of the barrier."""
    for strand in world.strands_of(agent, threads):
        state = world.groups.of("cp.async", strand)
        for access in [*state.open, *(a for group, _ in state.committed for a in group)]:
            access.pending, access.done = "", ((key, value),)
        state.open, state.spans = [], []


def commit_cp(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """cp.async.commit_group."""
    world.groups.commit("cp.async", world.strands_of(agent, threads), instruction.span)
    return None


def wait_cp(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """cp.async.wait_group N and wait_all; wait_all also covers what is not committed."""
    assert instruction.op is not None
    if "group" not in operands or instruction.op.mods.get("all"):
        world.groups.commit("cp.async", world.strands_of(agent, threads), instruction.span)
    _wait(world, agent, instruction, operands.get("group", 0), threads, "cp.async")
    return None


HANDLERS = {
    "cp.async.bulk.g2s": load_to_mbarrier,
    "cp.async.bulk.s2s": load_to_mbarrier,
    "cp.async.bulk.tensor.load": load_to_mbarrier,
    "multicast.cluster": load_to_mbarrier,
    "st.async": load_to_mbarrier,
    "red.async": load_to_mbarrier,
    "clusterlaunchcontrol.try_cancel": load_to_mbarrier,
    "cp.async.bulk.s2g": store_to_global,
    "cp.async.bulk.tensor.store": store_to_global,
    "cp.reduce.async.bulk": store_to_global,
    "cp.async.bulk.commit_group": commit_bulk,
    "cp.async.bulk.wait_group": wait_bulk,
    "cp.async": cp_async,
    "cp.async.commit_group": commit_cp,
    "cp.async.wait_group": wait_cp,
}
