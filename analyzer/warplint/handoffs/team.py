"""The roles table: each role with its threads, the guards that lead to its work, its registers and operations."""

from __future__ import annotations

from warplint.handoffs.recorder import Moment
from warplint.handoffs.scene import Scene
from warplint.handoffs.who import EVERYONE, SETUP, Group
from warplint.place import shorten
from warplint.source import Span
from warplint.tables import Doing, Registers, Role
from warplint.threads.facts import Condition, Event

MOST = 0.6
"""Share of a role's hand-offs from which a condition is one of the role."""
MAX_GUARDS = 6
GUARD_TEXT = 100
UNTOLD = frozenset({"elect.sync", "shfl.sync", "vote.sync", "mapa", "activemask", "match.sync", "redux.sync"})
"""Operations that only compute who goes where."""


def team(scene: Scene) -> tuple[Role, ...]:
    """The roles in the order of their first warp, then what all warps do together."""
    by_site: dict[Span, list[Event]] = {}
    for event in scene.roles.events:
        by_site.setdefault(event.op.span, []).append(event)
    rows = []
    groups = sorted(scene.cast.groups, key=lambda g: ((g.warps & -g.warps).bit_length(), g.ctas))
    for group in groups:
        own = [m for m in scene.moments if m.cta in group.ctas and not scene.cast.whole(m.threads) & ~group.warps
               and (m.cta, m.span) not in scene.cast.common]  # fmt: skip
        rows.append(_role(scene, group.name, group, own, by_site))
    held = [(set(group.ctas), group.warps) for group in groups]
    common = [
        m for m in scene.moments
        if (m.cta, m.span) in scene.cast.common
        or not any(m.cta in ctas and not scene.cast.whole(m.threads) & ~warps for ctas, warps in held)
    ]  # fmt: skip
    if common:
        everyone = Group(scene.cast.everyone, scene.ctas, EVERYONE)
        rows.append(_role(scene, EVERYONE, everyone, common, {}))
    return tuple(rows)


def _role(scene: Scene, name: str, group: Group, moments: list[Moment], by_site: dict[Span, list[Event]]) -> Role:
    doing: dict[str, tuple[list[Moment], set[Span]]] = {}
    for moment in moments:
        if moment.op in UNTOLD:
            continue
        places = moment.places if moment.op == "access" else {moment.op: [moment.span]}
        for op, spans in places.items():
            done, seen = doing.setdefault(op, ([], set()))
            done.append(moment)
            seen.update(spans)
    operations = []
    for op, (done, spans) in doing.items():
        threads = 0
        for moment in done:
            threads |= moment.threads
        times = sum(moment.times for moment in done)
        operations.append(Doing(op, scene.lines(spans), scene.cast.threads(threads), times))
    registers = {
        (dict(m.details)["registers"], scene.line(m.span))
        for m in scene.moments
        if m.op == "setmaxnreg" and m.cta in group.ctas and m.threads & group.warps and "registers" in dict(m.details)
        and name != EVERYONE
    }  # fmt: skip
    return Role(
        name,
        tuple(group.ctas),
        scene.cast.threads(group.warps),
        format(group.warps, "x"),
        group.warps.bit_count(),
        _guards(scene, moments, by_site),
        tuple(Registers(*both) for both in sorted(registers, key=lambda both: both[1])),
        tuple(operations),
    )


def _guards(scene: Scene, moments: list[Moment], by_site: dict[Span, list[Event]]) -> tuple[str, ...]:
    """The conditions that most of a role's hand-offs have in common and that leave threads out."""
    spans = dict.fromkeys(m.span for m in moments if m.key is not None and m.op not in SETUP)
    spans = spans or dict.fromkeys(m.span for m in moments if m.op not in SETUP and m.op != "access")
    chains = [
        [guard for guard in event.guards if guard.stmt is not None] for span in spans for event in by_site.get(span, ())
    ]
    said: list[str] = []
    need = MOST * len(chains)
    depth = 0
    while chains:
        count: dict[tuple[int, bool], list[list[Condition]]] = {}
        for chain in chains:
            if len(chain) > depth:
                count.setdefault((id(chain[depth].stmt), chain[depth].taken), []).append(chain)
        chains = max(count.values(), key=len, default=[])
        if len(chains) < need or not chains:
            break
        guard = chains[0][depth]
        depth += 1
        if guard.kind == "loop" or (
            guard.before.threads == guard.after.threads and guard.before.elected == guard.after.elected
        ):
            continue
        text = shorten(guard.text, GUARD_TEXT)
        said.append(f"{text if guard.taken else f'!({text})'} (line {scene.line(guard.span)})")
    return tuple(said[:MAX_GUARDS])
