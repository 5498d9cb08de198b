"""The protocol of a kernel as plain data: what `warplint handoffs` and `warplint run` print. Imports nothing of ours.

Lines are 1-based lines of the source file; 0 stands for no line. Thread sets are given in words and as a hexadecimal
bitset over the linear thread index of the block (bit = thread). Bytes are byte offsets into one shared variable;
`end` is exclusive. Tensor memory is counted in columns. The documented schemas are made from these types.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct


# ------------------------------------------------------------------------------------------------- handoffs
class Doing(Struct, frozen=True):
    """One kind of operation of a role."""

    op: str
    """Canonical operation, `ordinary load` or `ordinary store`."""
    lines: tuple[int, ...]
    threads: str
    """Who of the role executes it: "lane 0 of warp 7"."""
    times: int
    """How often it was executed in this execution."""


class Registers(Struct, frozen=True):
    """A `setmaxnreg` of a role."""

    registers: int
    line: int


class Role(Struct, frozen=True):
    """Warps that do the same work, in the CTAs of the cluster in which they do."""

    name: str
    ctas: tuple[int, ...]
    threads: str
    mask: str
    count: int
    guards: tuple[str, ...]
    """Conditions that lead to its work, outermost first, each with its line: "`wg == 1` (line 40)"."""
    registers: tuple[Registers, ...]
    operations: tuple[Doing, ...]


class User(Struct, frozen=True):
    """Who reads or writes a piece of storage."""

    role: str
    op: str
    proxy: str
    """`generic`, `async` or `tensor`."""
    lines: tuple[int, ...]


class Buffer(Struct, frozen=True):
    """A piece of storage: a shared-memory buffer, tensor-memory columns."""

    name: str
    """`S1` ... for shared memory, `T1` ... for tensor memory."""
    space: str
    """`shared` or `tensor`."""
    variable: str
    starts: tuple[int, ...]
    """First byte (column) of each stage; empty for accesses whose address is not known."""
    size: int
    """Bytes (columns) of one stage."""
    size_is: str
    """`stated` (the source gives it), `inferred` (from the distance of the stages or from expected bytes), `at most`
    (stages are further apart than the expected bytes fill), `at least` (only the start is known) or `unknown`."""
    ctas: tuple[int, ...]
    writers: tuple[User, ...]
    readers: tuple[User, ...]


class Producer(Struct, frozen=True):
    """Who contributes to the phases of a barrier."""

    role: str
    how: str
    """`arrive`, `arrive.expect_tx`, `expect_tx`, `commit`, `copy`, `cp.async`, `sync`."""
    lines: tuple[int, ...]
    arrivals: int
    """Arrivals in one phase (threads of a named or CTA barrier)."""
    bytes: int
    """Bytes expected in one phase."""
    before: tuple[str, ...] = ()
    """Fences and waits that the role executes since its last hand-off: "tcgen05.wait ld (line 460)"."""


class Consumer(Struct, frozen=True):
    """Who waits for the phases of a barrier."""

    role: str
    lines: tuple[int, ...]
    parity: int
    """Parity of its first wait; -1 where there is none."""
    first: str
    """What its first wait does: "passes at once (fresh barrier)" or "waits for phase 0"."""
    after: tuple[str, ...] = ()
    """Fences right after the wait."""


class Handoff(Struct, frozen=True):
    """One barrier, or a ring of them (one for each stage), and who hands over to whom."""

    name: str
    """`B1` ... in the order of the inits."""
    kind: str
    """`mbarrier`, `named barrier`, `CTA barrier` or `cluster barrier`."""
    words: tuple[str, ...]
    """The barrier words as the source's variables: `pool + 8`; ids of named barriers."""
    ctas: tuple[int, ...]
    count: int
    """Arrivals that complete a phase (threads of a named barrier); 0 for all threads."""
    init_lines: tuple[int, ...]
    producers: tuple[Producer, ...]
    consumers: tuple[Consumer, ...]
    carries: tuple[str, ...]
    """Storage that its producers accessed since their last hand-off: what it hands over or releases."""
    phases: tuple[int, ...]
    """Phases completed, for each word of the first of its CTAs."""
    left: tuple[str, ...]
    """What is unfinished at the end: "phase 3 of pool + 8: 1 of 128 arrivals"."""


class Lifetime(Struct, frozen=True):
    """When a piece of storage comes to be, is reused and ends."""

    name: str
    """Of the buffer or barrier."""
    begins: str
    first_use: str
    last_use: str
    ends: str
    reuse: tuple[str, ...]
    """What its writer waits for before it writes again: "B2 (line 382), arrivals by MMA"."""
    release: str
    """What orders its end after the last use."""
    hazards: tuple[str, ...]
    """Accesses that nothing orders."""


class Waiting(Struct, frozen=True):
    """One blocked party, and why what it waits for does not come."""

    who: str
    role: str
    line: int
    what: str
    """"phase 1 of B5 (pool + 40)"."""
    has: str
    """"1 of 128 arrivals, from line 402 by thread 0"."""
    needs: tuple[str, ...]
    """Who could still contribute, and what keeps them."""


class Deadlock(Struct, frozen=True):
    """A blocked execution."""

    established: bool
    """It rests on facts; False when something about the execution could not be established (`incomplete`, sizes that
    are loaded): another run may not block."""
    scenario: str
    waiting: tuple[Waiting, ...]
    cycle: tuple[str, ...]
    """Waits that need each other, in order, the first one not repeated; empty where a chain ends in an arrival that
    nobody makes."""
    summary: str


class Edge(Struct, frozen=True):
    """Of the graph of roles and barriers: a role arrives at a barrier, or waits at it."""

    role: str
    barrier: str
    kind: str
    """`arrives` or `waits`."""
    label: str
    lines: tuple[int, ...]
    blocked: bool = False


class Protocol(Struct, frozen=True):
    """The four tables of one kernel, from one execution."""

    kernel: str
    path: str
    line: int
    facts: tuple[tuple[str, str], ...]
    scenario: str
    """The inputs of the execution that the tables show."""
    scenarios: tuple[str, ...]
    """All that were executed, in order."""
    unexecuted: str
    """Why there are no tables; empty when there are."""
    incomplete: tuple[tuple[str, int], ...]
    """What could not be established (reason, line): the tables may lack it."""
    roles: tuple[Role, ...] = ()
    storage: tuple[Buffer, ...] = ()
    handoffs: tuple[Handoff, ...] = ()
    lifetimes: tuple[Lifetime, ...] = ()
    edges: tuple[Edge, ...] = ()
    deadlock: Deadlock | None = None


# ------------------------------------------------------------------------------------------------------ run
class Step(Struct, frozen=True):
    """One line of the executed protocol."""

    number: int
    """Position in the order of execution."""
    cta: int
    role: str
    threads: str
    mask: str
    line: int
    op: str
    text: str
    """The operation in words: "wait for phase 0 of B1 (parity 0)"."""
    barrier: str
    phase: int
    """Phase it arrives in or waits for; -1: passes a fresh barrier; -2: none."""
    bytes: int
    count: int
    """Arrivals; for ordinary accesses, how many."""
    blocked: bool = False
    """It never went on."""
    passed: int = -1
    """Number after which a wait that blocked went on."""


class Arrived(Struct, frozen=True):
    """One contribution to a phase."""

    role: str
    threads: str
    line: int
    how: str
    count: int
    bytes: int


class Phase(Struct, frozen=True):
    """One phase of a barrier word (or `last - number + 1` equal ones in a row)."""

    number: int
    last: int
    arrivals: tuple[Arrived, ...]
    completed: bool
    waited: tuple[tuple[str, int], ...]
    """(role, line) of those who waited for it."""
    missing: str
    """For one that did not complete: what it still needs."""


class Word(Struct, frozen=True):
    """One barrier word and its phases."""

    barrier: str
    label: str
    cta: int
    count: int
    phases: tuple[Phase, ...]
    cut: int
    """Rows that are not given."""


class Stuck(Struct, frozen=True):
    """An agent that is blocked at the end."""

    role: str
    threads: str
    cta: int
    line: int
    text: str


class Agent(Struct, frozen=True):
    """A role of the listing."""

    name: str
    ctas: tuple[int, ...]
    threads: str
    mask: str


class Run(Struct, frozen=True):
    """The executed protocol of one kernel in one scenario."""

    kernel: str
    path: str
    line: int
    facts: tuple[tuple[str, str], ...]
    scenario: str
    finished: bool
    """Every thread left the kernel or is blocked; False when a bound stopped the execution."""
    unexecuted: str
    incomplete: tuple[tuple[str, int], ...]
    agents: tuple[Agent, ...] = ()
    storage: tuple[Buffer, ...] = ()
    """What the names of storage in the steps mean."""
    steps: tuple[Step, ...] = ()
    cut: int = 0
    """Steps that are not given."""
    words: tuple[Word, ...] = ()
    blocked: tuple[Stuck, ...] = ()
    deadlock: Deadlock | None = None


# ------------------------------------------------------------------------------------------------ documents
class HandoffsDocument(Struct, frozen=True):
    """What `warplint handoffs --format json` writes."""

    schema: Literal["warplint-handoffs/1"]
    kernels: tuple[Protocol, ...]


class RunDocument(Struct, frozen=True):
    """What `warplint run --json` writes."""

    schema: Literal["warplint-run/1"]
    kernels: tuple[Run, ...]


def schemas() -> dict[str, dict[str, Any]]:
    """The JSON schemas (draft 2020-12) of both documents by name; `docs/schema` holds them."""
    from msgspec.json import schema

    found = {}
    for kind, document in (("handoffs", HandoffsDocument), ("run", RunDocument)):
        made = schema(document)
        made["$schema"] = "https://json-schema.org/draft/2020-12/schema"
        found[f"warplint-{kind}-1"] = made
    return found
