"""Puts the tables together: executes a kernel with recorders, and derives `Protocol` or `Run` from one execution."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from warplint.handoffs.barriers import Ring, Rings, handoff
from warplint.handoffs.deadlock import established, explain
from warplint.handoffs.lifetime import lifetimes
from warplint.handoffs.listing import Wanted, agents, stuck, trace, words
from warplint.handoffs.recorder import Recorder
from warplint.handoffs.scene import Scene
from warplint.handoffs.storage import Storage
from warplint.handoffs.team import team
from warplint.machine import Execution, execute
from warplint.machine.outcome import Outcome
from warplint.tables import Deadlock, Edge, Protocol, Run
from warplint.threads.facts import Roles

Facts = tuple[tuple[str, str], ...]


class Recorded(Struct, frozen=True, eq=False):
    """All executions of one kernel, each with its recording."""

    roles: Roles
    execution: Execution
    recorders: tuple[Recorder, ...]

    @property
    def chosen(self) -> int:
        """The execution that is shown unless another is asked for: the first that blocks on facts, else the first that
        runs to its end (and does about as much as the first one), else the first.
        """
        outcomes = list(enumerate(self.execution.outcomes))
        hangs = [at for at, outcome in outcomes if outcome.blocked and established(outcome)]
        # With sizes of 0 a kernel may end at once, which shows nothing.
        least = len(self.recorders[0].moments) // 2 if self.recorders else 0
        ends = [
            at for at, outcome in outcomes
            if outcome.finished and not outcome.blocked and len(self.recorders[at].moments) >= least
        ]  # fmt: skip
        return (hangs or ends or [0])[0]

    @property
    def scenarios(self) -> tuple[str, ...]:
        """The inputs of each execution, with what came of it where it blocked."""
        return tuple(o.scenario + (" (blocks)" if o.blocked else "") for o in self.execution.outcomes)


def record(roles: Roles) -> Recorded:
    """Execute a kernel in all its scenarios and record each."""
    recorders: list[Recorder] = []

    def observe(_: object) -> Recorder:
        recorders.append(Recorder())
        return recorders[-1]

    execution = execute(roles, observe=observe)
    # The machine makes more trials than it keeps outcomes of.
    made = {id(one.world.outcome): one for one in recorders if one.world is not None}
    return Recorded(roles, execution, tuple(made.get(id(outcome), Recorder()) for outcome in execution.outcomes))


def _scene(recorded: Recorded, index: int) -> Scene:
    return Scene(recorded.roles, recorded.execution.outcomes[index], recorded.recorders[index])


def why(execution: Execution, outcome: Outcome) -> Deadlock | None:
    """Why an outcome of an execution without recorders is blocked; None when it is not.

    Executes the kernel once more with recorders: only for kernels that hang.
    """
    if not outcome.blocked:
        return None
    at = next(at for at, one in enumerate(execution.outcomes) if one is outcome)
    recorded = record(execution.roles)
    scene = _scene(recorded, at)
    _ = Rings(scene)  # gives the barriers their names
    return explain(scene)


def protocol(recorded: Recorded, index: int, facts: Facts, incomplete: Sequence[tuple[str, int]]) -> Protocol:
    """The four tables of execution `index`."""
    scene = _scene(recorded, index)
    storage = Storage(scene)
    rings = Rings(scene).all
    table = tuple(handoff(scene, storage, ring) for ring in rings)
    reasons = [*incomplete]
    if storage.cut:
        reasons.append((f"{storage.cut} more pieces of storage are not shown", 0))
    if scene.recorder.cut:
        reasons.append((f"{scene.recorder.cut} more operations were executed than are recorded", 0))
    kernel = recorded.roles.kernel
    return Protocol(
        kernel.name,
        kernel.source.path,
        scene.line(kernel.span),
        facts,
        scene.outcome.scenario,
        recorded.scenarios,
        "",
        tuple(reasons),
        team(scene),
        tuple(piece.buffer for piece in storage.pieces),
        table,
        lifetimes(scene, storage, rings, {row.name: row.carries for row in table}),
        edges(scene, rings),
        explain(scene),
    )


def edges(scene: Scene, rings: list[Ring]) -> tuple[Edge, ...]:
    """The graph of roles and barriers, in the order of the hand-off table."""
    stuck_at = {
        (scene.rings.get(b.target, ""), scene.cast.role(b.who.cta, b.who.threads)) for b in scene.outcome.blocked
    }
    found: list[Edge] = []
    for ring in rings:
        if ring.kind in ("CTA barrier", "cluster barrier"):
            continue
        row: dict[tuple[str, str], set[int]] = {}
        hows: dict[tuple[str, str], dict[str, None]] = {}
        for moments, kind in ((ring.arrivals, "arrives"), (ring.waits, "waits")):
            for moment in moments:
                key = (scene.role(moment), kind)
                row.setdefault(key, set()).add(scene.line(moment.span))
                hows.setdefault(key, {}).setdefault(moment.op.rpartition(".")[2] if kind == "arrives" else "wait")
        for (role, kind), lines in row.items():
            blocked = kind == "waits" and (ring.name, role) in stuck_at
            label = ", ".join(hows[(role, kind)])
            found.append(Edge(role, ring.name, kind, label, tuple(sorted(lines)), blocked))
    return tuple(found)


def run(recorded: Recorded, index: int, facts: Facts, incomplete: Sequence[tuple[str, int]], wanted: Wanted) -> Run:
    """What execution `index` did, as far as it is wanted."""
    scene = _scene(recorded, index)
    rings = Rings(scene).all
    storage = Storage(scene)
    steps, cut = trace(scene, storage, wanted)
    kernel = recorded.roles.kernel
    return Run(
        kernel.name,
        kernel.source.path,
        scene.line(kernel.span),
        facts,
        scene.outcome.scenario,
        scene.outcome.finished,
        "",
        tuple(incomplete),
        agents(scene, wanted),
        tuple(piece.buffer for piece in storage.pieces),
        steps,
        cut + scene.recorder.cut,
        words(scene, rings, wanted),
        stuck(scene, wanted),
        explain(scene),
    )
