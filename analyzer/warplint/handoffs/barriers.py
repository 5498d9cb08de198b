"""The hand-off table: rings of mbarriers and the other barriers, who hands over to whom, what, and in which phase."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from msgspec import Struct, field

from warplint.handoffs.recorder import Moment
from warplint.handoffs.scene import ARRIVES, FENCES, MEETS, WAITS, Scene, each_once, fence_words, word_label
from warplint.handoffs.storage import Storage
from warplint.handoffs.who import EVERYONE
from warplint.machine.barriers import Arrival
from warplint.machine.outcome import BarrierRecord
from warplint.source import Span
from warplint.tables import Consumer, Handoff, Producer

MAX_WINDOWS = 8
"""Arrivals (and waits) of one place whose surroundings are looked at."""


class Ring(Struct, eq=False):
    """Barrier words used by the same places of the same roles, one a stage; every CTA's are together."""

    name: str
    kind: str
    keys: list[Hashable] = field(default_factory=list)
    arrivals: list[Moment] = field(default_factory=list)
    waits: list[Moment] = field(default_factory=list)


class Rings:
    """All barriers of one execution, grouped; names them in `scene.rings`."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.all: list[Ring] = []
        self._mbarriers()
        self._others()
        for ring in self.all:
            for key in ring.keys:
                scene.rings[key] = ring.name

    def _mbarriers(self) -> None:
        scene = self.scene
        arrivals: dict[Hashable, list[Moment]] = {}
        waits: dict[Hashable, list[Moment]] = {}
        for moment in scene.moments:
            if moment.op in ARRIVES and moment.key is not None:
                arrivals.setdefault(moment.key, []).append(moment)
            elif moment.op in WAITS and moment.key is not None:
                waits.setdefault(moment.key, []).append(moment)
        # Words of all CTAs together: (variable, offset) -> keys.
        words: dict[tuple[Hashable, int], list[Hashable]] = {}
        for key in (*scene.outcome.barriers, *arrivals, *waits):
            if isinstance(key, tuple) and len(key) == 3 and key[0] not in ("bar", "cta"):
                same = words.setdefault((key[1], key[2]), [])
                if key not in same:
                    same.append(key)
        made: list[tuple[Ring, set[tuple[Span, str]], set[tuple[Span, str]], int]] = []
        order = {key: at for at, key in enumerate(words)}
        for word, keys in sorted(words.items(), key=lambda item: (_variable(item[0][0]), order[item[0]], item[0][1])):
            into = [m for key in keys for m in arrivals.get(key, ())]
            out = [m for key in keys for m in waits.get(key, ())]
            ins = {(m.span, scene.role(m)) for m in into}
            outs = {(m.span, scene.role(m)) for m in out}
            records = [scene.outcome.barriers[key] for key in keys if key in scene.outcome.barriers]
            count = records[0].count if records else -1
            ring = None
            for other, others_in, others_out, others_count in made:
                if not (ins & others_in or outs & others_out) or count != others_count:
                    continue
                # A side that shows nothing (a blocked kernel) speaks for neither.
                alike = (bool(ins & others_in) or not ins or not others_in) and (
                    bool(outs & others_out) or not outs or not others_out
                )
                if alike and _variable_of(other) is word[0]:
                    ring = other
                    others_in |= ins
                    others_out |= outs
                    break
            if ring is None:
                ring = Ring(f"B{len(made) + 1}", "mbarrier")
                made.append((ring, ins, outs, count))
            ring.keys.extend(sorted(keys, key=_cta))
            ring.arrivals.extend(into)
            ring.waits.extend(out)
        self.all.extend(ring for ring, _, _, _ in made)

    def _others(self) -> None:
        found: dict[Hashable, Ring] = {}
        numbers = Counter[str]()
        for moment in self.scene.moments:
            kind = MEETS.get(moment.op)
            if kind is None or moment.key is None:
                continue
            key = moment.key
            ident = ("bar", key[2]) if isinstance(key, tuple) and key[0] == "bar" else kind
            if isinstance(key, tuple) and key[0] == "cta":
                kind = "CTA barrier"
                ident = kind
            ring = found.get(ident)
            if ring is None:
                numbers[kind] += 1
                name = kind if not isinstance(ident, tuple) else f"N{ident[1]}"
                ring = found[ident] = Ring(name, kind)
                self.all.append(ring)
            if key not in ring.keys:
                ring.keys.append(key)
            if not moment.op.endswith("wait"):
                ring.arrivals.append(moment)
            if "arrive" not in moment.op:
                ring.waits.append(moment)


def _variable(base: Hashable) -> tuple[int, str]:
    return (getattr(base, "span", Span(0, 0)).start, getattr(base, "name", ""))


def _variable_of(ring: Ring) -> Hashable:
    key = ring.keys[0]
    return key[1] if isinstance(key, tuple) else None


def _cta(key: Hashable) -> int:
    return key[0] if isinstance(key, tuple) and isinstance(key[0], int) else 0


# --------------------------------------------------------------------------------------------------- table
def handoff(scene: Scene, storage: Storage, ring: Ring) -> Handoff:
    """The row of one ring."""
    records = [scene.outcome.barriers[key] for key in ring.keys if key in scene.outcome.barriers]
    producers = _mbarrier_producers(scene, ring, records) if ring.kind == "mbarrier" else _meeting(scene, ring)
    first_cta = min((_cta(key) for key in ring.keys), default=0)
    labels = list(dict.fromkeys(word_label(key) for key in ring.keys)) if ring.kind != "cluster barrier" else []
    count = records[0].count if records else max((dict(m.details).get("threads", 0) for m in ring.arrivals), default=0)
    return Handoff(
        ring.name,
        ring.kind,
        tuple(labels),
        tuple(sorted({_cta(key) if ring.kind == "mbarrier" else _place(key) for key in ring.keys})),
        count,
        scene.lines(record.init for record in records),
        producers,
        _consumers(scene, ring),
        _carries(scene, storage, ring),
        tuple(len(record.phases) for record in records if record.cta == first_cta),
        _left(scene, records),
    )


def _place(key: Hashable) -> int:
    return key[1] if isinstance(key, tuple) and isinstance(key[1], int) else 0


def _mbarrier_producers(scene: Scene, ring: Ring, records: list[BarrierRecord]) -> tuple[Producer, ...]:
    """By role and kind; arrivals and bytes of a phase are those that most phases have."""
    per_phase: dict[tuple[str, str], Counter[tuple[int, int]]] = {}
    for record in records:
        for phase in record.phases or ([record.current] if record.current else []):
            sums: dict[tuple[str, str], tuple[int, int]] = {}
            for arrival in phase:
                key = (scene.cast.role(arrival.cta, arrival.threads), how_of(arrival))
                count, expected = sums.get(key, (0, 0))
                sums[key] = (count + arrival.count, expected + arrival.expect)
            for key, both in sums.items():
                per_phase.setdefault(key, Counter())[both] += 1
    places: dict[tuple[str, str], list[Moment]] = {}
    for moment in ring.arrivals:
        places.setdefault((scene.role(moment), ARRIVES[moment.op]), []).append(moment)
    made = []
    for (role, how), moments in places.items():
        seen = per_phase.get((role, how), Counter({(0, 0): 1}))
        arrivals, expected = sorted(seen.items(), key=lambda item: (-item[1], item[0]))[0][0]
        if how == "copy":
            arrivals = expected = 0
        before = each_once(text for moment in _sample(moments) for text in _before(scene, moment))
        made.append(Producer(role, how, scene.lines(m.span for m in moments), arrivals, expected, before))
    return tuple(made)


def how_of(arrival: Arrival) -> str:
    """How an arrival came, in the words of `ARRIVES`."""
    if arrival.how == "expect_tx":
        return "arrive.expect_tx" if arrival.count else "expect_tx"
    return arrival.how


def _meeting(scene: Scene, ring: Ring) -> tuple[Producer, ...]:
    places: dict[str, list[Moment]] = {}
    for moment in ring.arrivals:
        places.setdefault(scene.role(moment), []).append(moment)
    if len(places) > 1 and _covers_all(scene, ring):
        places = {EVERYONE: ring.arrivals}
    made = []
    for role, moments in places.items():
        counts = Counter(moment.threads.bit_count() for moment in moments)
        threads = max(counts)
        before = each_once(text for moment in _sample(moments) for text in _before(scene, moment))
        how = "arrive" if all("arrive" in m.op for m in moments) else "sync"
        if role == EVERYONE:
            threads = scene.cast.total
        made.append(Producer(role, how, scene.lines(m.span for m in moments), threads, 0, before))
    return tuple(made)


def _covers_all(scene: Scene, ring: Ring) -> bool:
    if ring.kind == "named barrier":
        return False
    reached: dict[tuple[int, Span], int] = {}
    for moment in ring.arrivals:
        key = (moment.cta, moment.span)
        reached[key] = reached.get(key, 0) | moment.threads
    return all(threads == scene.cast.everyone for threads in reached.values())


def _consumers(scene: Scene, ring: Ring) -> tuple[Consumer, ...]:
    places: dict[str, list[Moment]] = {}
    for moment in ring.waits:
        places.setdefault(scene.role(moment), []).append(moment)
    if ring.kind != "mbarrier":
        if len(places) > 1 and _covers_all(scene, ring):
            places = {EVERYONE: ring.waits}
        return tuple(Consumer(role, scene.lines(m.span for m in moments), -1, "") for role, moments in places.items())
    made = []
    for role, moments in places.items():
        first = moments[0]
        text = "passes at once: fresh barrier" if first.phase < 0 else f"waits for phase {first.phase}"
        after = each_once(text for moment in _sample(moments) for text in _after(scene, moment))
        made.append(Consumer(role, scene.lines(m.span for m in moments), first.parity, text, after))
    return tuple(made)


def _sample(moments: list[Moment]) -> list[Moment]:
    """The first few of each place."""
    seen: Counter[Span] = Counter()
    chosen = []
    for moment in moments:
        seen[moment.span] += 1
        if seen[moment.span] <= MAX_WINDOWS:
            chosen.append(moment)
    return chosen


def _hands_over(moment: Moment) -> bool:
    return moment.op in WAITS or moment.op in MEETS or (moment.op in ARRIVES and ARRIVES[moment.op] != "copy")


def _before(scene: Scene, moment: Moment) -> list[str]:
    """Fences and completion waits of the same threads since their last hand-off, in program order."""
    if ARRIVES.get(moment.op) == "copy":
        return []
    found = []
    for other in scene.before(moment):
        if _hands_over(other):
            break
        if other.op in FENCES and not other.op.endswith("after_thread_sync"):
            found.append(fence_words(other, scene.line))
    return found[::-1]


def _after(scene: Scene, moment: Moment) -> list[str]:
    """Fences that directly follow a wait."""
    found = []
    for other in scene.after(moment):
        if other.op not in FENCES or other.op in ("tcgen05.fence.before_thread_sync", "tcgen05.wait"):
            break
        found.append(fence_words(other, scene.line))
    return found


def _carries(scene: Scene, storage: Storage, ring: Ring) -> tuple[str, ...]:
    """Buffers that producers touched since their last hand-off and consumers touch until their next wait, one of them
    writing: what is handed over, or released. Hand-offs with nothing in between are taken together.
    """
    if ring.kind in ("CTA barrier", "cluster barrier"):
        return ()
    given: set[tuple[str, bool]] = set()
    for moment in _sample(ring.arrivals):
        mine = set(storage.touched(moment))
        if ARRIVES.get(moment.op) != "copy":
            for other in scene.before(moment):
                if mine and other.op not in WAITS and _hands_over(other):
                    break
                mine |= storage.touched(other)
        given |= mine
    taken: set[tuple[str, bool]] = set()
    for moment in _sample(ring.waits):
        mine = set()
        for other in scene.after(moment):
            if mine and (other.op in WAITS or other.op in MEETS):
                break
            mine |= storage.touched(other)
        taken |= mine
    both = {name for name, write in given for other, wrote in taken if name == other and (write or wrote)}
    return tuple(piece.buffer.name for piece in storage.pieces if piece.buffer.name in both)[:12]


def _left(scene: Scene, records: list[BarrierRecord]) -> tuple[str, ...]:
    """What a barrier still waits for, or got too much of, at the end."""
    said = []
    for record in records:
        got = sum(arrival.count for arrival in record.current)
        parts = []
        if got and got + max(record.pending, 0) > record.count and record.faults:
            parts.append(f"{got} arrivals, count {record.count}")
        elif got:
            parts.append(f"{got} of {got + max(record.pending, 0)} arrivals")
        if record.tx:
            parts.append(f"{record.tx} bytes missing" if record.tx > 0 else f"{-record.tx} bytes too many")
        if parts:
            said.append(f"phase {len(record.phases)} of {scene.label(record.key)}: {', '.join(parts)}")
        for kind, arrival in record.faults[:2]:
            said.append(f"{kind} on {scene.label(record.key)} (line {scene.line(arrival.span)})")
    return each_once(said, 6)
