"""wgmma and register reallocation. Facts: PTX ISA 9.7.15, 9.7.19.5; OPS.md."""

from __future__ import annotations

from warplint.machine import values as v
from warplint.machine.agent import Agent, Wait
from warplint.machine.compile import Instruction
from warplint.machine.semantics.memory import touch
from warplint.machine.slots import consume
from warplint.machine.values import Value
from warplint.machine.world import World
from warplint.patterns import late
from warplint.threads.facts import warps_of

REGISTER_FILE = 65_536
MAX_REGISTERS = 255
LANES = 32
ROWS = 64
"""M of every wgmma (PTX ISA 9.7.15.2)."""
SLICE_BYTES = 32
"""One wgmma reads this much of K in each row of A and column of B, whatever the element type (PTX ISA 9.7.15.2)."""
_SHAPE = late(r"n(\d+)k")


def multiply(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """wgmma.mma_async: reads operand tiles through the async proxy until its group is waited for."""
    strands = world.strands_of(agent, threads)
    world.groups.issue("wgmma", strands, None, instruction.span)
    for role, extent in (("desc_a", ROWS), ("desc_b", _columns(instruction))):
        operand = operands.get(role)
        if isinstance(operand, v.Packed):
            if extent:
                consume(world, agent.cta, operand.place, extent * SLICE_BYTES, strands)
            access = touch(world, agent, threads, operand.place, None, instruction.span, "wgmma", write=False,
                           proxy="async", pending="wgmma")  # fmt: skip
            if access is not None:
                access.open = access.threads
                for strand in strands:
                    world.groups.of("wgmma", strand).open.append(access)
        elif role in operands and not isinstance(operand, int):
            world.remark(
                "the shared-memory operand of a wgmma is not known: its order is not looked at", instruction.span
            )
    return None


def _columns(instruction: Instruction) -> int:
    """N of the instruction; 0 when unknown."""
    assert instruction.op is not None
    mods = instruction.op.mods
    columns = mods.get("columns")
    if isinstance(columns, int):
        return columns
    found = _SHAPE.search(str(mods.get("shape", "")))
    return int(found[1]) if found else 0


def commit(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """wgmma.commit_group."""
    world.groups.commit("wgmma", world.strands_of(agent, threads), instruction.span)
    return None


def wait(world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int) -> Wait | None:
    """wgmma.wait_group N: all but the N latest groups are over for the executing threads."""
    allowed = operands.get("group", 0)
    if isinstance(allowed, int):
        world.groups.wait("wgmma", world.strands_of(agent, threads), allowed)
    else:
        world.note("the number of wgmma groups that may stay pending is not known", instruction.span)
    return None


def initial_registers(world: World) -> int | None:
    """Registers of one thread at launch, at most: what `__launch_bounds__` or `__maxnreg__` leaves. None when
    unknown.
    """
    launch = world.kernel.launch
    if launch.max_registers:
        return launch.max_registers
    if launch.block is None:
        return None
    blocks = max(launch.min_blocks or 1, 1)
    return min(REGISTER_FILE // (world.block * blocks) // 8 * 8, MAX_REGISTERS + 1)


def set_registers(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """setmaxnreg: dec returns registers to the CTA's pool, inc waits until the pool has them."""
    assert instruction.op is not None
    target = operands.get("registers")
    start = initial_registers(world)
    if not isinstance(target, int) or start is None:
        return None
    pool = world.register_pools.setdefault(agent.cta, {"free": 0})
    held = world.registers.setdefault(agent.cta, {})
    warps = list(warps_of(threads, world.warp_size))

    def change() -> bool:
        wanted = sum((target - held.get(warp, start)) * LANES for warp in warps)
        if wanted > pool["free"]:
            return False
        pool["free"] -= wanted
        for warp in warps:
            held[warp] = target
        world.changed = True
        world.step(agent, instruction.span, f"setmaxnreg {target}", "registers", threads)
        return True

    return None if change() else Wait("setmaxnreg", instruction.span, change, ("registers", agent.cta, target))


HANDLERS = {
    "wgmma.mma_async": multiply,
    "wgmma.commit_group": commit,
    "wgmma.wait_group": wait,
    "setmaxnreg": set_registers,
}
