"""Warp-level operations: election, shuffles, votes, and what joins the lanes of a warp. Facts: PTX ISA 9.7.9,
9.7.13.
"""

from __future__ import annotations

from warplint.machine import values as v
from warplint.machine.agent import Agent, Wait
from warplint.machine.compile import Instruction
from warplint.machine.values import Value
from warplint.machine.world import RESPONSES, World
from warplint.threads.facts import Uniformity, warps_of


def elect(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """elect.sync: one lane of each warp; the machine takes the lowest, as the hardware does today."""
    assert instruction.op is not None
    known = world.elected.get(threads)
    if known is None:
        chosen, leader = [0] * world.block, [0] * world.block
        for warp, lanes in warps_of(threads, world.warp_size).items():
            first, lane = warp * world.warp_size, (lanes & -lanes).bit_length() - 1
            chosen[first + lane] = 1
            leader[first : first + world.warp_size] = [lane] * len(leader[first : first + world.warp_size])
        known = world.elected[threads] = (agent.narrowed(tuple(chosen)), agent.narrowed(tuple(leader)))
    agent.results[(instruction.op, "value")], agent.results[(instruction.op, "lane")] = known
    return None


MODES = ("idx", "xor", "up", "down")
"""How a shuffle finds its source lane."""


def moved(value: tuple[int, ...], lane: int, mode: str, width: int, members: list[int]) -> tuple[int, ...]:
    """A shuffle of known data inside groups of `width` lanes; a source outside the group leaves the own value."""
    result = list(value)
    for thread in members:
        base, own = thread // width * width, thread % width
        source = {"idx": lane % width, "xor": own ^ lane, "up": own - lane, "down": own + lane}[mode]
        inside = 0 <= source < width and base + source < len(value)
        result[thread] = value[base + source] if inside else value[thread]
    return tuple(result)


def shuffle(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """shfl.sync: exact where data and source lane are known."""
    assert instruction.op is not None
    value, lane = operands.get("value"), operands.get("lane")
    mode = str(instruction.op.mods.get("mode", "idx"))
    result: Value = v.Unknown(("shfl", id(instruction), agent.number, agent.steps), Uniformity.LANE)
    if isinstance(value, int):
        result = value
    elif isinstance(value, tuple) and isinstance(lane, int) and mode in MODES:
        result = agent.narrowed(moved(value, lane, mode, world.warp_size, agent.members))
    elif isinstance(value, v.Place | v.Packed) and not isinstance(getattr(value, "offset", 0), tuple):
        result = value
    elif isinstance(value, v.Unknown) and isinstance(lane, int) and mode == "idx":
        result = v.Unknown(("shfl", value.key, lane), max(value.floor, Uniformity.WARP))
    agent.results[(instruction.op, "value")] = result
    return None


def vote(world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int) -> Wait | None:
    """Votes and reductions give one value to the warp; a number where all lanes agree on a known input."""
    assert instruction.op is not None
    value = operands.get("value")
    mode = instruction.op.mods.get("mode", instruction.op.mods.get("op", ""))
    result: Value = v.Unknown(("vote", id(instruction), v.key_of(value) if value is not None else 0), Uniformity.WARP)
    if isinstance(value, int) and mode in ("all", "any"):
        result = int(value != 0)
    agent.results[(instruction.op, "value")] = result
    return None


def join(world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int) -> Wait | None:
    """__syncwarp: the executing lanes of a warp join."""
    world.strands.join_warps(world.strands_of(agent, threads))
    return None


def mapa(world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int) -> Wait | None:
    """mapa: the same shared-memory address in another CTA of the cluster."""
    assert instruction.op is not None
    source, target = operands.get("src", operands.get("address")), operands.get("cta")
    result: Value = v.Unknown(("mapa", id(instruction)), Uniformity.LANE)
    if isinstance(source, v.Place) and isinstance(target, int | tuple):
        result = v.Place(source.base, source.offset, target)
    agent.results[(instruction.op, "value")] = result
    return None


def query_cancel(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """clusterlaunchcontrol.query_cancel: work is obtained `Scenario.rounds.outer` times, then no more.

    Every reader is told the same.

    The n-th query of a thread at one place reads the n-th response.
    """
    op = instruction.op
    assert op is not None
    # Counted by thread, since threads may come here together or apart.
    key = ("clc", agent.pc)
    number = agent.env.get(key, 0)
    agent.env[key] = v.binary("+", number, 1)
    kind = str(op.mods.get("kind", ""))
    result: Value = 0
    if kind.startswith("is_canceled"):
        tiles = world.outcome.asked[RESPONSES] = world.scenario.rounds.outer
        result = v.binary("<", number, tiles)
    elif not kind.startswith(("get_first_ctaid::y", "get_first_ctaid::z")):
        start = world.scenario.coordinates.get("ctaid.x", 0) + world.scenario.ctas
        result = v.binary("+", v.binary("*", number, world.scenario.ctas), start)
    for output in ("value", "x", "first"):
        agent.results[(op, output)] = result
    return None


HANDLERS = {
    "clusterlaunchcontrol.query_cancel": query_cancel,
    "elect.sync": elect,
    "shfl.sync": shuffle,
    "vote.sync": vote,
    "match.sync": vote,
    "redux.sync": vote,
    "activemask": vote,
    "bar.warp.sync": join,
    "hip.__syncwarp": join,
    "mapa": mapa,
}
