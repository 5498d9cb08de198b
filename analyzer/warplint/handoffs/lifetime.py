"""The lifetime table: where storage comes from, what it is reused after, what ends it and what orders the end."""

from __future__ import annotations

from warplint.handoffs.barriers import Ring
from warplint.handoffs.recorder import Moment, Site, Use
from warplint.handoffs.scene import MEETS, WAITS, Scene, each_once, fence_words
from warplint.handoffs.storage import NAMES, Piece, Storage
from warplint.machine.barriers import label_of
from warplint.machine.footprint import Order
from warplint.tables import Lifetime

SAID = {
    Order.UNJOINED: "nothing orders them",
    Order.SAME_WARP: "no __syncwarp between lanes of one warp",
    Order.INCOMPLETE: "completion not waited for",
    Order.NO_FENCE: "no fence.proxy.async by the writer",
    Order.LATE_FENCE: "fence.proxy.async after the hand-over",
    Order.ISSUER_FENCE: "fence.proxy.async only by the issuer",
    Order.NO_BEFORE_FENCE: "no tcgen05.fence::before_thread_sync",
    Order.NO_AFTER_FENCE: "no tcgen05.fence::after_thread_sync",
}
"""Hazards that the table speaks of; a generic read before an asynchronous write without a proxy fence is common."""
COMPLETES = {
    "TMA store": "cp.async.bulk.wait_group", "bulk store": "cp.async.bulk.wait_group", "wgmma": "wgmma.wait_group",
}  # fmt: skip
"""Asynchronous readers, and the wait that says that they are done with what they read."""
MAX_REUSE = 5
MAX_WRITES = 400
"""Writes of one buffer that are looked at for what they wait for."""


def lifetimes(
    scene: Scene, storage: Storage, rings: list[Ring], carried: dict[str, tuple[str, ...]]
) -> tuple[Lifetime, ...]:
    """One row for each buffer, then for each ring of mbarriers. `carried`: the buffers that each ring hands over."""
    arrivers = {ring.name: {scene.role(moment) for moment in ring.arrivals} for ring in rings}
    rows = [_buffer(scene, piece, arrivers, carried) for piece in storage.pieces if piece.buffer.starts]
    return (*rows, *(_barrier(scene, ring) for ring in rings if ring.kind == "mbarrier"))


def _use(scene: Scene, site: Site, use: Use) -> str:
    what, role = NAMES.get(site.what, site.what), scene.cast.role(site.cta, use.threads)
    return f"{what} (line {scene.line(site.span)})" + (f" by {role}" if role != what else "")


def _buffer(scene: Scene, piece: Piece, arrivers: dict[str, set[str]], carried: dict[str, tuple[str, ...]]) -> Lifetime:
    uses = [both for area in piece.areas for both in area.uses]
    first = min(uses, key=lambda both: (both[1].first, both[0].span.start))
    last = max(uses, key=lambda both: (both[1].last, both[0].span.start))
    begins, ends, release = "with the block", "with the block", ""
    if piece.buffer.space == "tensor":
        begins, ends, release = _allocation(scene, piece, last[1].last)
    return Lifetime(
        piece.buffer.name,
        begins,
        _use(scene, *first),
        _use(scene, *last),
        ends,
        _reuse(scene, piece, arrivers, carried),
        release,
        _hazards(scene, piece),
    )


def _allocation(scene: Scene, piece: Piece, last: int) -> tuple[str, str, str]:
    """tcgen05.alloc and dealloc of the columns of a buffer, and what stands between its last use and the dealloc."""
    cta = piece.buffer.ctas[0]
    allocs = [m for m in scene.moments if m.op == "tcgen05.alloc" and m.cta == cta]
    frees = [m for m in scene.moments if m.op == "tcgen05.dealloc" and m.cta == cta]
    begins = each_once(f"{_columns(m)} (line {scene.line(m.span)}) by {scene.cast.threads(m.threads)}" for m in allocs)
    ends = each_once(f"{_columns(m)} (line {scene.line(m.span)}) by {scene.cast.threads(m.threads)}" for m in frees)
    if not frees:
        return "; ".join(begins) or "never allocated", "never freed", ""
    free = frees[0]
    for order in scene.outcome.hazards:
        if order.second.what == "tcgen05.dealloc" and order.first.tensor and order.first.region.cta == cta:
            what = NAMES.get(order.first.what, order.first.what)
            return "; ".join(begins), "; ".join(ends), f"NOT ordered after {what} (line {scene.line(order.first.span)})"
    between = [m for m in scene.before(free) if m.key is not None and (m.op in WAITS or m.op in MEETS)]
    for meeting in between:
        # it counts when it was over after the last use
        over = meeting.passed if meeting.waited else meeting.number
        if over >= last:
            return "; ".join(begins), "; ".join(ends), f"{scene.name(meeting.key)} (line {scene.line(meeting.span)})"
    return "; ".join(begins), "; ".join(ends), "program order of the freeing threads"


def _is_wait(moment: Moment) -> bool:
    return moment.key is not None and (moment.op in WAITS or moment.op in MEETS) and "arrive" not in moment.op


def _columns(moment: Moment) -> str:
    return f"{moment.op} {dict(moment.details).get('columns', '?')} columns"


def _reuse(
    scene: Scene, piece: Piece, arrivers: dict[str, set[str]], carried: dict[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """Barriers that the writers wait for between two writes of one stage: those that hand it over, else those that its
    readers arrive at, else all.
    """
    readers = {user.role for user in piece.buffer.readers}
    told: dict[str, None] = {}
    read: dict[str, None] = {}
    anyhow: dict[str, None] = {}
    windows = 0
    completes = {COMPLETES[user.op] for user in piece.buffer.readers if user.op in COMPLETES}
    for moment in scene.moments:
        wrote = [touch for touch in moment.touches if touch.write and piece.holds(touch)]
        if not wrote or windows > MAX_WRITES:
            continue
        windows += 1
        found: list[Moment] = []
        again = False
        for other in scene.before(moment):
            if other.op in completes or _is_wait(other):
                found.append(other)
            elif any(t.write and t.region == wrote[0].region and t.lo == wrote[0].lo for t in other.touches):
                again = True
                break
        if again:
            for wait in found[::-1]:
                if wait.op in completes:
                    told.setdefault(fence_words(wait, scene.line))
                    continue
                text = f"{scene.rings.get(wait.key, scene.label(wait.key))} (line {scene.line(wait.span)})"
                arrives = arrivers.get(scene.rings.get(wait.key, ""), set()) & readers
                over = piece.buffer.name in carried.get(scene.rings.get(wait.key, ""), ())
                (told if arrives and over else read if arrives else anyhow).setdefault(text)
    return each_once(told or read or anyhow, MAX_REUSE)


def _hazards(scene: Scene, piece: Piece) -> tuple[str, ...]:
    pairs: dict[tuple[str, str, Order], list[tuple[int, int]]] = {}
    for hazard in scene.outcome.hazards:
        one, two = hazard.first, hazard.second
        if hazard.order in SAID and two.what != "tcgen05.dealloc" and all(piece.covers(a) for a in (one, two)):
            key = (NAMES.get(one.what, one.what), NAMES.get(two.what, two.what), hazard.order)
            pairs.setdefault(key, []).append((scene.line(one.span), scene.line(two.span)))
    said = []
    for (one, two, order), places in pairs.items():
        more = f", and {len(places) - 1} more such pairs" if len(places) > 1 else ""
        said.append(f"{one} (line {places[0][0]}), then {two} (line {places[0][1]}): {SAID[order]}{more}")
    return each_once(said, 6)


def _barrier(scene: Scene, ring: Ring) -> Lifetime:
    inits = [m for m in scene.moments if m.op == "mbarrier.init" and m.key in ring.keys]
    gone = [m for m in scene.moments if m.op == "mbarrier.inval" and m.key in ring.keys]
    users = sorted([*ring.arrivals, *ring.waits], key=lambda moment: moment.number)
    begins = each_once(
        (f"mbarrier.init (line {scene.line(m.span)}) by {scene.cast.threads(m.threads)}" for m in inits), 4
    )
    release = ""
    labels = {label_of(key) for key in ring.keys}
    early = next((f for f in scene.outcome.faults if f.kind.startswith("used-before") and f.detail in labels), None)
    if early is not None:
        release = f"init NOT ordered before line {scene.line(early.span)}"
    elif inits and users:
        end = next((u for u in users if u.threads & ~inits[0].threads or u.cta != inits[0].cta), None)
        if end is not None:
            release = f"init made known by {_published(scene, inits[-1], end)}"
    ends = each_once(f"mbarrier.inval (line {scene.line(m.span)})" for m in gone)
    return Lifetime(
        ring.name,
        "; ".join(begins) or "never initialised",
        _moment(scene, users[0]) if users else "never used",
        _moment(scene, users[-1]) if users else "never used",
        "; ".join(ends) or "with the block",
        (),
        release,
        (),
    )


def _published(scene: Scene, init: Moment, use: Moment) -> str:
    """The first barrier that the using threads pass after the init."""
    for other in scene.moments[scene.index[init.number] : scene.index[use.number]]:
        if _is_wait(other) and other.op in MEETS and other.cta == use.cta and other.threads & use.threads:
            return f"{scene.rings.get(other.key, scene.label(other.key))} (line {scene.line(other.span)})"
    return "no barrier that is known"


def _moment(scene: Scene, moment: Moment) -> str:
    return f"{moment.op} (line {scene.line(moment.span)}) by {scene.role(moment)}"
