"""Why a blocked execution is blocked: who waits for what, who could still bring it, and what keeps those.

The graph of waits has an edge from a blocked agent to each blocked agent that could contribute to what it waits for. A
cycle in it is a deadlock proper; where there is none, a chain ends in an arrival that nobody will make any more.
"""

from __future__ import annotations

from collections.abc import Hashable

from warplint.handoffs.recorder import Moment
from warplint.handoffs.scene import ARRIVES, MEETS, Scene, each_once
from warplint.machine.barriers import Arrival, label_of
from warplint.machine.outcome import BarrierRecord, BlockedRecord, Outcome
from warplint.source import Span
from warplint.tables import Deadlock, Waiting
from warplint.threads.facts import Known

TOO_MANY = "more than the phase expects"
OVER = "more often than the count leaves"
HOPELESS = ("nobody", "that no copy brings", "does not arrive", TOO_MANY, OVER)
"""Parts of needs that cannot be met."""
STARVED = "every place that arrives on it has done so in this phase"
MAX_BLOCKED = 24
"""Blocked agents that are looked at."""


class Source:
    """A place from which an awaited contribution may come, and the blocked agents that could still execute it."""

    def __init__(self, span: Span, op: str, cta: int, threads: int) -> None:
        self.span, self.op, self.cta, self.threads = span, op, cta, threads


def explain(scene: Scene) -> Deadlock | None:
    """The blocked state of an execution; None when nobody is blocked."""
    # Lanes that only wait for the rest of their warp are victims.
    blocked = sorted(scene.outcome.blocked, key=lambda b: (b.what == "warp", b.what == "cta barrier"))[:MAX_BLOCKED]
    if not blocked:
        return None
    needs: list[tuple[str, ...]] = []
    edges: list[tuple[int, int, str]] = []
    for index, one in enumerate(blocked):
        texts, targets = _needs(scene, one, blocked)
        needs.append(texts)
        edges += [(index, target, text) for target, text in targets]
    waiting = tuple(
        Waiting(
            scene.who(one.who.cta, one.who.threads),
            scene.cast.role(one.who.cta, one.who.threads),
            scene.line(one.span),
            awaited(scene, one),
            _has(scene, one),
            text,
        )
        for one, text in zip(blocked, needs, strict=True)
    )
    ring = _cycle(len(blocked), [(a, b) for a, b, _ in edges])
    cycle = []
    for at, index in enumerate(ring):
        following = ring[(at + 1) % len(ring)]
        why = next(text for a, b, text in edges if (a, b) == (index, following))
        row = waiting[index]
        cycle.append(f"{row.who} waits at line {row.line} for {row.what}, which needs {why}")
    return Deadlock(
        established(scene.outcome), scene.outcome.scenario, waiting, tuple(cycle), _summary(waiting, ring, needs)
    )


def established(outcome: Outcome) -> bool:
    """The execution rests on facts: nothing in it was taken on trust, and its sizes are parameters, not loaded data."""
    return outcome.from_inputs and not outcome.incomplete


def _summary(waiting: tuple[Waiting, ...], ring: list[int], needs: list[tuple[str, ...]]) -> str:
    for row in waiting:
        if any(STARVED in text for text in row.needs):
            return f"{row.role} (line {row.line}) waits for {row.what}: {row.has}; {row.needs[0]}"
    for row in waiting:
        if row.needs and all(any(part in text for part in HOPELESS) for text in row.needs):
            return f"{row.role} (line {row.line}) waits for {row.what}: {row.needs[0]}"
    if len(ring) > 1:
        chain = " -> ".join(f"{waiting[i].role} (line {waiting[i].line})" for i in (*ring, ring[0]))
        return f"a cycle of waits: {chain}"
    if ring:
        row = waiting[ring[0]]
        return f"{row.role} (line {row.line}) waits for {row.what}, which only itself would bring"
    return f"{waiting[0].role} (line {waiting[0].line}) waits for {waiting[0].what}"


def _cycle(count: int, edges: list[tuple[int, int]]) -> list[int]:
    """The shortest cycle of waits, starting at the smallest index; empty when there is none."""
    if not edges:
        return []
    import networkx

    graph = networkx.DiGraph()
    graph.add_nodes_from(range(count))
    graph.add_edges_from(edges)
    best: list[int] = []
    for component in networkx.strongly_connected_components(graph):
        part = graph.subgraph(component)
        for start in sorted(component):
            for following in sorted(part.successors(start)):
                if following == start:
                    found = [start]
                else:
                    try:
                        found = networkx.shortest_path(part, following, start)
                    except networkx.NetworkXNoPath:
                        continue
                    found = [start, *found[:-1]]
                pivot = found.index(min(found))
                found = found[pivot:] + found[:pivot]
                # A cycle between several roles says more than a role that waits for itself.
                rank = (len(found) == 1, len(found), found)
                if not best or rank < (len(best) == 1, len(best), best):
                    best = found
    return best


# -------------------------------------------------------------------------------------------- one blocked agent
def _record(scene: Scene, one: BlockedRecord) -> BarrierRecord | None:
    return scene.outcome.barriers.get(one.target) if one.what == "mbarrier" else None


def awaited(scene: Scene, one: BlockedRecord) -> str:
    """What a blocked agent waits for: "phase 1 (parity 1) of B5 (pool + 40)"."""
    if one.what == "mbarrier" and one.phase & 1 != one.parity:
        return f"parity {one.parity} of {scene.name(one.target)}"
    if one.what == "mbarrier":
        return f"phase {one.phase} (parity {one.parity}) of {scene.name(one.target)}"
    if one.what == "warp":
        return "the other lanes of its warp"
    if one.what == "setmaxnreg":
        return "registers of the pool"
    if one.what == "shared word":
        return f"another value of `{_word(one)}`"
    return scene.name(_key(one)) if one.target is not None else one.what


def _word(one: BlockedRecord) -> str:
    """The polled word of shared memory that a blocked agent waits for."""
    return label_of(one.target[1:]) if isinstance(one.target, tuple) else "shared memory"


def _key(one: BlockedRecord) -> Hashable:
    """The barrier of a block, as moments name it."""
    if one.what == "cta barrier" and isinstance(one.target, tuple):
        return ("cta", one.target[1])
    return one.target


def _has(scene: Scene, one: BlockedRecord) -> str:
    record = _record(scene, one)
    if record is None:
        present = _present(scene, one)
        return f"also there: {'; '.join(present)}" if present else ""
    current = len(record.phases)
    if one.phase < current:
        missed = f"it completed {current} time{'s' if current != 1 else ''} already; "
        return f"{missed}phase {current} is under way, and a wait for parity {one.parity} passes only when that is over"
    got = sum(arrival.count for arrival in record.current)
    # An untouched barrier has told nothing of its count yet.
    total = got + max(record.pending, 0) if record.phases or record.current else record.count
    text = f"{got} of {total} arrivals"
    if over_arrival(record) is not None:
        text = f"{got} arrivals, though its count is {record.count}"
    froms = each_once(
        (f"line {scene.line(a.span)} by {scene.cast.role(a.cta, a.threads)}" for a in record.current if a.count),
        3,
    )
    if froms:
        text += f" (from {'; '.join(froms)})"
    if record.tx > 0:
        text += f", {record.tx} bytes still missing"
    elif record.tx < 0:
        text += f", {-record.tx} bytes more than expected"
    if current < one.phase:
        text = f"phase {current} is the current one: {text}"
    return text


def over_arrival(record: BarrierRecord) -> Arrival | None:
    """The arrival in the current phase that was more than the count allows: what follows is undefined (PTX)."""
    return next((a for kind, a in record.faults if kind == "over-arrival" and a in record.current), None)


def _present(scene: Scene, one: BlockedRecord) -> list[str]:
    """Who has arrived at a named, CTA or cluster barrier and waits there."""
    there = [b for b in scene.outcome.blocked if b is not one and b.what == one.what and b.target == one.target]
    return list(each_once((scene.who(b.who.cta, b.who.threads) for b in there), 4))


def _needs(
    scene: Scene, one: BlockedRecord, blocked: list[BlockedRecord]
) -> tuple[tuple[str, ...], list[tuple[int, str]]]:
    """In words, what would let it go on; and the blocked agents that could bring it, with the place."""
    record = _record(scene, one)
    if record is None:
        return _meeting_needs(scene, one, blocked)
    assert isinstance(record.key, tuple)
    got = sum(arrival.count for arrival in record.current)
    if record.pending <= 0 and record.tx > 0 and one.phase >= len(record.phases):
        text = f"{record.tx} bytes that no copy brings: more bytes are expected than copied"
        return (text,), []
    over = over_arrival(record)
    if over is not None and one.phase >= len(record.phases):
        return (f"line {scene.line(over.span)} arrives {over.count} times, {OVER}: the barrier is broken",), []
    if record.pending <= 0 and record.tx < 0 and one.phase >= len(record.phases):
        return (f"copies brought {-record.tx} bytes {TOO_MANY}: the phase cannot complete",), []
    made = {arrival.span for arrival in record.current if arrival.count}
    texts: list[str] = []
    targets: list[tuple[int, str]] = []
    sources = _sources(scene, record, blocked)
    for source in sources:
        line = scene.line(source.span)
        if source.op in ("copy", "expect_tx", "complete_tx") and record.tx <= 0:
            # bytes are not what is missing
            if source.op == "expect_tx":
                texts.append(f"line {line} only expects bytes: it does not arrive")
            continue
        alive = [
            (index, other)
            for index, other in enumerate(blocked)
            if other.who.cta == source.cta and other.who.threads & source.threads
            and scene.ahead.reaches(other, source.span)
        ]  # fmt: skip
        if not alive:
            whom = scene.cast.role(source.cta, source.threads)
            past = [o for o in blocked if o.who.cta == source.cta and o.who.threads & source.threads]
            where = f"is past it, at line {scene.line(past[0].span)}" if past else "has left the kernel"
            texts.append(f"{source.op} at line {line}: nobody comes there any more ({whom} {where})")
            continue
        for index, other in alive:
            who = scene.cast.role(other.who.cta, other.who.threads)
            text = f"{source.op} at line {line} by {who}"
            if other is one:
                texts.append(f"{text}, which is itself waiting here")
            else:
                texts.append(f"{text}, which waits at line {scene.line(other.span)} for {awaited(scene, other)}")
            targets.append((index, text))
    arriving = [source for source in sources if source.op not in ("copy", "expect_tx", "complete_tx")]
    if not arriving and record.tx <= 0:
        texts.append("nobody: no operation that arrives on it was executed, and nobody who is left comes to one")
    elif got and made >= {source.span for source in arriving} and record.pending > 0:
        texts.insert(0, f"{record.pending} more arrival{'s' if record.pending > 1 else ''} to come, but {STARVED}")
    return each_once(texts, 6), targets


def _sources(scene: Scene, record: BarrierRecord, blocked: list[BlockedRecord]) -> list[Source]:
    """Places that contribute to a barrier word: those that did to its ring, and those that blocked agents would."""
    ring = scene.rings.get(record.key)
    found: dict[tuple[Span, int], Source] = {}
    for moment in scene.moments:
        how = ARRIVES.get(moment.op)
        if how is None or moment.key is None:
            continue
        if moment.key == record.key or (scene.rings.get(moment.key) == ring and _same_cta(moment, record)):
            source = found.setdefault((moment.span, moment.cta), Source(moment.span, how, moment.cta, 0))
            source.threads |= moment.threads
    for one in blocked:
        for span, how in scene.ahead.names(one, record.key):
            source = found.setdefault((span, one.who.cta), Source(span, how, one.who.cta, 0))
            source.threads |= one.who.threads
    return sorted(found.values(), key=lambda source: (source.span.start, source.cta))


def _same_cta(moment: Moment, record: BarrierRecord) -> bool:
    return isinstance(moment.key, tuple) and moment.key[0] == record.cta


def _meeting_needs(
    scene: Scene, one: BlockedRecord, blocked: list[BlockedRecord]
) -> tuple[tuple[str, ...], list[tuple[int, str]]]:
    """A CTA, named or cluster barrier, a warp collective, or registers: the others of the block that are not there."""
    if one.what == "shared word":
        sets = [step for step in scene.outcome.steps if step.target == one.target and step.text.startswith("sets ")]
        last = f"the last store is at line {scene.line(sets[-1].span)} and {sets[-1].text}" if sets else "nobody stores"
        return (f"{last}, which does not end the loop, and nobody stores again",), []
    there = 0
    for other in scene.outcome.blocked:
        if other.what == one.what and other.target == one.target and other.who.cta == one.who.cta:
            there |= other.who.threads
    texts: list[str] = []
    targets: list[tuple[int, str]] = []
    size = scene.cast.size
    for index, other in enumerate(blocked):
        if other.what == one.what and other.target == one.target:
            continue
        if other.who.cta != one.who.cta and one.what != "cluster barrier":
            continue
        if one.what == "warp" and not scene.cast.whole(one.who.threads) & other.who.threads:
            continue
        if one.what == "named barrier" and not _takes_part(scene, one, other.who.threads):
            continue
        who = scene.cast.role(other.who.cta, other.who.threads)
        texts.append(f"{who}, which waits at line {scene.line(other.span)} for {awaited(scene, other)}")
        targets.append((index, who))
    if one.what == "cta barrier":
        missing = scene.cast.everyone & ~there
        for other in scene.outcome.blocked:
            if other.who.cta == one.who.cta:
                missing &= ~other.who.threads
        if missing and not targets:
            texts.append(f"nobody: {scene.cast.threads(missing)} left the kernel")
    elif one.what == "named barrier" and not targets:
        want = max((dict(m.details).get("threads", 0) for m in scene.moments if m.key == one.target), default=0)
        have = sum(size for warp in range(-(-scene.cast.total // size)) if there >> warp * size & ((1 << size) - 1))
        texts.append(f"nobody: {have} of {want} threads are there and no other warp comes")
    elif one.what == "warp" and not targets:
        texts.append("nobody: the other lanes have left the kernel or never come here")
    elif one.what == "cluster barrier" and not targets:
        texts.append("nobody: some threads of the cluster never arrive")
    return each_once(texts, 6), targets


def _takes_part(scene: Scene, one: BlockedRecord, threads: int) -> bool:
    """Some of the threads use this named barrier somewhere."""
    ident = one.target[2] if isinstance(one.target, tuple) else None
    for event in scene.roles.events:
        if event.name in MEETS and "id" in event.values and event.reach.threads & threads:
            value = event.values["id"]
            if not isinstance(value, Known) or value.each == ident or (
                isinstance(value.each, tuple) and ident in value.each
            ):  # fmt: skip
                return True
    return False
