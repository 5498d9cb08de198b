"""Running one agent until it blocks, parks, divides or leaves."""

from __future__ import annotations

from collections.abc import Hashable

from warplint.machine import values as v
from warplint.machine.agent import Agent, Status
from warplint.machine.compile import Instruction, Kind
from warplint.machine.lines import bare, lost, settled
from warplint.machine.slicing import BYTES
from warplint.machine.values import Value
from warplint.machine.ways import guess
from warplint.machine.world import World
from warplint.program import ir
from warplint.threads.facts import Uniformity

STRICT = frozenset({"elect.sync", "shfl.sync", "vote.sync", "match.sync", "redux.sync", "bar.warp.sync"})
"""Warp collectives that hang when a named lane never comes (OPS.md, measured on hardware)."""
TOGETHER = STRICT | {
    "tcgen05.alloc", "tcgen05.dealloc", "tcgen05.ld", "tcgen05.st", "tcgen05.wait", "ldmatrix", "stmatrix",
    "setmaxnreg",
    "wgmma.mma_async", "wgmma.commit_group", "wgmma.wait_group", "bar.sync.cta", "bar.red.cta", "bar.sync.named",
    "bar.arrive.named", "barrier.nonaligned", "grid.sync",
}  # fmt: skip
"""Operations of a whole warp."""
MEETING = TOGETHER - {"bar.sync.cta", "bar.red.cta", "bar.sync.named", "bar.arrive.named", "barrier.nonaligned",
                      "grid.sync"}  # fmt: skip
"""Those whose lanes have all come when it is executed (a barrier tells more)."""
SLICE = 4_000
"""Instructions one agent runs before the others get a turn."""


class View:
    """An agent as expressions see it (`compile.Context`)."""

    __slots__ = ("agent", "env", "memo", "results", "world")

    def __init__(self, world: World, agent: Agent) -> None:
        self.world, self.agent, self.env, self.results = world, agent, agent.env, agent.results
        self.memo = world.memo

    def special(self, name: str) -> Value:
        """A built-in coordinate."""
        return self.world.special(self.agent, name)

    def spend(self, work: int) -> None:
        """Count costly work for the budget."""
        self.world.memory.work += work

    def number(self, key: Hashable) -> int:
        """A number for an unknown that is the same for all threads of the CTA."""
        return self.world.choose(key)

    def load(self, pointer: Value, node: ir.Load) -> Value:
        """Data is unknown; what all threads of a CTA read alike gets a number from the scenario."""
        trial = self.world.trial
        if trial is not None and pointer is not bare(pointer):
            # It is read somewhere else in each repetition.
            return lost(self.load(settled(pointer), node), trial, pointer)
        if node.volatile and self.world.polls is not None:
            span = self.world.code.instructions[self.agent.pc].span
            seen = self.world.polls.read(self.agent, pointer, span, acquires=False)
            if seen is not None:
                return v.cast(node.type, seen)
        key: Hashable = ("load", v.key_of(pointer))
        floor = v.floor_of(pointer)
        if isinstance(pointer, v.Place):
            if not node.volatile:
                word = self.world.words.read(self.world, self.agent, pointer, BYTES.get(node.type))
                if word is not None:
                    return v.cast(node.type, word)
            floor = min(Uniformity.CTA, v.floor_of(pointer.offset))
            tally = pointer.base in self.world.tallied
            key = ("tally" if tally else "load", id(pointer.base), v.key_of(pointer.offset), BYTES.get(node.type),
                   self.world.dirty.get(pointer.base, 0))  # fmt: skip
        if node.volatile:
            self.world.note("control depends on a volatile or atomic value that other threads change", None)
            return v.Unknown((*key, self.world.numbers, self.agent.steps), min(floor, Uniformity.WARP))
        if floor >= Uniformity.CTA:
            return self.world.choose((*key, self.agent.cta if floor is Uniformity.CTA else 0))
        return v.Unknown(key, floor)

    def fresh(self, symbol: ir.Symbol) -> Value:
        """A parameter or global: one number for the whole grid; an unassigned local: unknown."""
        if symbol.kind in ("param", "global", "constant"):
            if symbol.pointer or symbol.dims:
                return v.Place(symbol, 0)
            return self.world.choose(("param", symbol.name))
        if symbol.kind in ("shared", "dynamic_shared"):
            if symbol.dims or symbol.kind == "dynamic_shared":
                return v.Place(symbol, 0)
            word = self.world.words.read(self.world, self.agent, v.Place(symbol, 0), symbol.element_bytes)
            if word is not None:
                return word
            return self.world.choose(("word", id(symbol), self.world.dirty.get(symbol, 0), self.agent.cta))
        return v.Unknown(("local", id(symbol)), Uniformity.CTA)


def run_agent(world: World, agent: Agent) -> int:
    """Run one agent; returns the number of instructions executed."""
    code = world.code.instructions
    steps = 0
    view = View(world, agent)
    polls = world.polls
    while steps < SLICE:
        if polls is not None:
            polls.settle(agent)
        instruction = code[agent.pc]
        agent.steps += 1
        steps += 1
        kind = instruction.kind
        if kind is Kind.ASSIGN:
            assign(agent, view, instruction)
            agent.pc += 1
        elif kind is Kind.BRANCH:
            if not _branch(world, agent, view, instruction):
                return steps
            view = View(world, agent)
        elif kind is Kind.JUMP:
            wait = polls.again(agent, instruction) if instruction.polls and polls is not None else None
            agent.pc = instruction.target
            if wait is not None:
                agent.status, agent.wait = Status.BLOCKED, wait
                return steps
            if instruction.loop and world.repeats is not None:
                world.repeats.round(agent, instruction.span, world.executed + steps)
        elif kind is Kind.MERGE:
            if not world.merge(agent):
                return steps
            view = View(world, agent)
            agent.pc += 1
        elif kind is Kind.DO:
            if _operate(world, agent, view, instruction):
                if view.env is not agent.env:  # lanes that it waited for have joined
                    view = View(world, agent)
                agent.pc += 1
            else:
                return steps
        elif kind is Kind.EXIT:
            world.leave(agent)
            return steps
        elif kind is Kind.OPAQUE:
            assert instruction.opaque is not None
            say = world.assume if instruction.assumed else world.note
            say(instruction.opaque.reason, instruction.span)
            for symbol in instruction.opaque.writes:
                agent.env[symbol] = v.Unknown(("opaque", id(instruction), agent.steps), Uniformity.LANE)
            agent.pc += 1
        else:
            _access(world, agent, view, instruction)
            agent.pc += 1
    return steps


def assign(agent: Agent, view: View, instruction: Instruction) -> None:
    """Execute an assignment."""
    assert instruction.value is not None
    value = agent.narrowed(instruction.value(view))
    if instruction.index is None:
        agent.env[instruction.key] = value
        return
    index = settled(instruction.index(view))
    if isinstance(index, int):
        agent.env[(instruction.key, index)] = value
    else:
        for key in [k for k in agent.env if isinstance(k, tuple) and k[0] is instruction.key]:
            agent.env[key] = v.Unknown(("element", id(instruction), agent.steps), Uniformity.LANE)


def _branch(world: World, agent: Agent, view: View, instruction: Instruction) -> bool:
    """Take a branch. False when the agent must stop here for now."""
    assert instruction.test is not None
    if instruction.loop:
        visits = world.visits.get((agent.number, agent.pc), 0) + 1
        world.visits[(agent.number, agent.pc)] = visits
        if visits > world.budget.iterations:
            world.note(f"loop was cut off after {world.budget.iterations} iterations", instruction.span)
            agent.pc = instruction.target
            world.visits[(agent.number, agent.pc)] = 0
            return True
    value = agent.narrowed(instruction.test(view))
    mask = agent.mask_where(value)
    if mask is None:
        mask = guess(world, agent, instruction, value)
    instruction.sides |= (mask != 0) | (mask != agent.threads) << 1
    if instruction.simple is not None and not instruction.loop:
        _masked(world, agent, view, instruction, mask)
        agent.pc = instruction.merge + 1
        return True
    if mask == agent.threads:
        agent.pc += 1
    elif not mask:
        if instruction.loop:
            world.visits[(agent.number, agent.pc)] = 0  # the next time it is entered counts anew
        agent.pc = instruction.target
    else:
        world.split(agent, mask, instruction, agent.pc + 1, instruction.target)
    return True


def _masked(world: World, agent: Agent, view: View, instruction: Instruction, mask: int) -> None:
    """Execute both sides of a branch that neither waits nor jumps away, each for its threads."""
    assert instruction.simple is not None
    rest = agent.threads & ~mask
    end = instruction.merge
    middle = instruction.target
    if not rest or not mask:
        begin, stop = (agent.pc + 1, middle - 1) if mask else (middle, end)
        _straight(world, agent, view, begin, stop)
        return
    env = agent.env
    before = {key: env.get(key) for key in instruction.simple}
    after: list[tuple[list[int], dict[Hashable, Value]]] = []
    for threads, begin, stop in ((mask, agent.pc + 1, middle - 1), (rest, middle, end)):
        if begin >= stop:
            continue
        part = Agent(agent.number, agent.cta, threads, begin, env, agent.results, agent.splits)
        part.steps = agent.steps
        _straight(world, part, View(world, part), begin, stop)
        after.append((part.members, {key: env[key] for key in instruction.simple if key in env}))
        for key, old in before.items():
            if old is None:
                env.pop(key, None)
            else:
                env[key] = old
    for members, values in after:
        for key, value in values.items():
            old = env.get(key)
            env[key] = value if old is None else agent.narrowed(v.mix(old, value, members, world.block))


def _straight(world: World, agent: Agent, view: View, begin: int, stop: int) -> None:
    """Run instructions that never wait, from `begin` up to `stop`."""
    code = world.code.instructions
    agent_pc = agent.pc
    at = begin
    while at < stop:
        instruction = code[at]
        kind = instruction.kind
        agent.pc = at
        agent.steps += 1
        if kind is Kind.ASSIGN:
            assign(agent, view, instruction)
        elif kind is Kind.BRANCH:
            assert instruction.test is not None
            value = agent.narrowed(instruction.test(view))
            mask = agent.mask_where(value)
            if mask is None:
                mask = guess(world, agent, instruction, value)
            instruction.sides |= (mask != 0) | (mask != agent.threads) << 1
            _masked(world, agent, view, instruction, mask)
            at = instruction.merge
        elif kind is Kind.JUMP:
            at = instruction.target - 1
        elif kind is Kind.DO:
            _operate(world, agent, view, instruction)
        elif kind is not Kind.MERGE:
            _access(world, agent, view, instruction)
        at += 1
    agent.pc = agent_pc


def _access(world: World, agent: Agent, view: View, instruction: Instruction) -> None:
    if instruction.kind is Kind.MARK:
        world.handlers["mark"](world, agent, instruction, {}, agent.threads)
        return
    handler = world.handlers.get("store" if instruction.kind is Kind.STORE else "read")
    if handler is None or instruction.value is None:
        return
    threads = agent.threads
    if instruction.predicate is not None:
        # A condition on data may let any of the threads read: all are taken.
        mask = agent.mask_where(agent.narrowed(instruction.predicate(view)))
        threads = threads if mask is None else mask
        world.doubtful = mask is None
    if threads:
        operands = {"address": instruction.value(view)}
        for number, value in enumerate(instruction.data):
            operands[f"data.{number}"] = value(view)
        if world.trial is not None:
            operands = {role: settled(operand) for role, operand in operands.items()}
        handler(world, agent, instruction, operands, threads)
    world.doubtful = False


def _operate(world: World, agent: Agent, view: View, instruction: Instruction) -> bool:
    """Execute an operation. False when the agent blocks."""
    assert instruction.op is not None
    threads = agent.threads
    if instruction.predicate is not None:
        mask = agent.mask_where(agent.narrowed(instruction.predicate(view)))
        if mask is None:
            world.note(f"the predicate of `{instruction.op.spelling}` is not known", instruction.span)
            mask = agent.threads
        if not mask:
            return True
        threads = mask
    handler = world.handlers.get(instruction.op.name)
    agent.last = instruction.span
    if handler is None:
        return True
    if instruction.op.name in TOGETHER and not world.whole_warps(agent.threads):
        mask = instruction.operands.get("mask")
        strict = instruction.op.name in STRICT
        wait = world.converge(agent, instruction, settled(agent.narrowed(mask(view))) if mask else None, strict)
        if wait is not None:
            agent.status, agent.wait = Status.BLOCKED, wait
            return False
        view = View(world, agent)
        if instruction.predicate is None:
            threads = agent.threads
    if instruction.op.name in MEETING:
        world.strands.meet(agent.cta, threads)
    operands = {role: agent.narrowed(operand(view)) for role, operand in instruction.operands.items()}
    if world.trial is not None:
        operands = {role: settled(operand) for role, operand in operands.items()}
    observer = world.observer
    if observer is not None:
        observer.before(world, agent, instruction, operands, threads)
    instruction.executed = True
    wait = handler(world, agent, instruction, operands, threads)
    if observer is not None:
        observer.after(world, agent, instruction, wait)
    if wait is None:
        return True
    agent.status, agent.wait = Status.BLOCKED, wait
    agent.pc += 1
    return False
