"""What the lanes of an AMD wave exchange: shuffles, votes, readfirstlane. Nobody waits; the active lanes take part.

Facts: LLVM AMDGPUUsage (intrinsics), AMD ISA (DS_BPERMUTE_B32, DPP).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from warplint.machine import values as v
from warplint.machine.agent import Agent, Wait
from warplint.machine.compile import Instruction
from warplint.machine.semantics import warps
from warplint.machine.values import Value
from warplint.machine.world import World
from warplint.threads.facts import Uniformity, warps_of


def _first(world: World, agent: Agent, value: tuple[int, ...], threads: int) -> Value:
    """The value of the lowest active lane, for each wave."""
    result = list(value)
    size = world.warp_size
    for wave, lanes in warps_of(threads, size).items():
        lowest = wave * size + (lanes & -lanes).bit_length() - 1
        end = min((wave + 1) * size, len(result))
        result[wave * size : end] = [value[lowest]] * (end - wave * size)
    return agent.narrowed(tuple(result))


def read_first_lane(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """`readfirstlane`: the value of the lowest active lane, for the whole wave."""
    assert instruction.op is not None
    value = operands.get("value", 0)
    result: Value = value
    if isinstance(value, tuple):
        result = _first(world, agent, value, threads)
    elif isinstance(value, v.Place) and isinstance(value.offset, tuple):
        result = v.Place(value.base, _first(world, agent, value.offset, threads), value.cta)
    elif isinstance(value, v.Unknown):
        result = v.Unknown(("first lane", value.key), max(value.floor, Uniformity.WARP))
    agent.results[(instruction.op, "value")] = result
    return None


def permute(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """`__shfl*`, `ds_bpermute`, `readlane`: exact where data and source lane are known; nobody waits for anybody."""
    assert instruction.op is not None
    op = instruction.op
    width = operands.get("width", world.warp_size)
    mode = "idx" if op.name == "amd.readlane" else {"bfly": "xor"}.get(str(op.mods.get("mode")), op.mods.get("mode"))
    value, lane = operands.get("value"), operands.get("lane")
    if isinstance(value, tuple) and isinstance(lane, int) and isinstance(width, int) and mode in warps.MODES:
        if 0 < width <= world.warp_size and width & (width - 1) == 0:
            result = warps.moved(value, lane, str(mode), width, agent.members)
            agent.results[(op, "value")] = agent.narrowed(result)
            return None
    if isinstance(value, tuple):
        unknown = v.Unknown(("permute", id(instruction), agent.number, agent.steps), Uniformity.LANE)
        agent.results[(op, "value")] = unknown
        return None
    return warps.shuffle(world, agent, instruction, operands, threads)


def ballot(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """`__ballot`, `__any`, `__all`: the active lanes vote, no lane waits; one value for each wave."""
    op = instruction.op
    assert op is not None
    if op.mods.get("kind") == "shfl":
        return permute(world, agent, instruction, operands, threads)
    value, mode = operands.get("value"), str(op.mods.get("mode", ""))
    votes = agent.mask_where(value) if value is not None else None
    if votes is None or mode not in COMBINE:
        return warps.vote(world, agent, instruction, operands, threads)
    size = world.warp_size
    found = [0] * world.block
    for wave, lanes in warps_of(threads, size).items():
        end = min((wave + 1) * size, world.block)
        yes = votes >> wave * size & lanes
        found[wave * size : end] = [COMBINE[mode](yes, lanes)] * (end - wave * size)
    agent.results[(op, "value")] = agent.narrowed(tuple(found))
    return None


COMBINE: Mapping[str, Callable[[int, int], int]] = {
    "ballot": lambda yes, lanes: yes,
    "any": lambda yes, lanes: int(yes != 0),
    "all": lambda yes, lanes: int(yes == lanes),
}
"""What a vote gives, from the lanes that say yes and those that were asked."""


def move(world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int) -> Wait | None:
    """DPP and swizzles: data moves between lanes in ways that are not followed."""
    assert instruction.op is not None
    value = operands.get("value")
    unknown = v.Unknown(("dpp", id(instruction), agent.number, agent.steps), Uniformity.LANE)
    agent.results[(instruction.op, "value")] = value if isinstance(value, int) else unknown
    return None


HANDLERS = {
    "amd.readfirstlane": read_first_lane,
    "amd.readlane": permute,
    "amd.ds_bpermute": permute,
    "amd.dpp": move,
    "amd.ballot": ballot,
    "hip.warp_sync_builtins": ballot,
}
