"""The executed protocol as a listing: every step of every role, every phase of every barrier word."""

from __future__ import annotations

from collections.abc import Hashable

from msgspec import Struct

from warplint.handoffs.barriers import Ring, how_of
from warplint.handoffs.deadlock import awaited, over_arrival
from warplint.handoffs.recorder import Moment
from warplint.handoffs.scene import ARRIVES, FENCES, MEETS, WAITS, Scene
from warplint.handoffs.storage import NAMES, Storage
from warplint.handoffs.team import UNTOLD
from warplint.handoffs.who import COPIES, EVERYONE
from warplint.tables import Agent, Arrived, Phase, Step, Stuck, Word
from warplint.threads.facts import warps_of

MAX_ROWS = 4_000
"""Rows of phases given for one barrier word."""


class Wanted(Struct, frozen=True):
    """Which part of the protocol is wanted; empty fields want everything."""

    agents: tuple[str, ...] = ()
    """Parts of role names, or `warp N`, `thread N`."""
    barriers: tuple[str, ...] = ()
    """Names (`B2`) or parts of words (`pool + 24`)."""
    ctas: tuple[int, ...] = ()
    limit: int = 1_000_000

    def agent(self, scene: Scene, cta: int, threads: int) -> bool:
        """Some of the threads are wanted."""
        if self.ctas and cta not in self.ctas:
            return False
        if not self.agents:
            return True
        role = scene.cast.role(cta, threads).lower()
        for asked in self.agents:
            kind, _, number = asked.strip().lower().partition(" ")
            if kind in ("thread", "warp") and number.isdigit():
                index = int(number)
                if kind == "thread" and index < 4096 and threads >> index & 1:
                    return True
                if kind == "warp" and index in warps_of(threads, scene.cast.size):
                    return True
            elif asked.strip().lower() in role:
                return True
        return False

    def barrier(self, scene: Scene, key: Hashable) -> bool:
        """The barrier is wanted."""
        if not self.barriers:
            return True
        if key is None:
            return False
        name, label = scene.rings.get(key, "").lower(), scene.label(key).lower()
        return any(asked.strip().lower() == name or _inside(asked.strip().lower(), label) for asked in self.barriers)


def _inside(asked: str, label: str) -> bool:
    """`asked` stands in a label and does not end in the middle of a number: `pool + 8` is not `pool + 80`."""
    at = label.find(asked)
    while asked and at != -1:
        end = at + len(asked)
        if end == len(label) or not (label[end].isdigit() and label[end - 1].isdigit()):
            return True
        at = label.find(asked, at + 1)
    return False


def trace(scene: Scene, storage: Storage, wanted: Wanted) -> tuple[tuple[Step, ...], int]:
    """The wanted steps in the order of execution, and how many more there are."""
    steps = []
    cut = 0
    stuck_at = {(b.who.cta, b.span, b.target) for b in scene.outcome.blocked}
    for moment in scene.moments:
        if moment.op in UNTOLD or not wanted.agent(scene, moment.cta, moment.threads):
            continue
        if not wanted.barrier(scene, moment.key):
            continue
        if len(steps) >= wanted.limit:
            cut += 1
            continue
        blocked = moment.waited and moment.passed < 0 and (
            (moment.cta, moment.span, moment.key) in stuck_at or moment.key is None or moment.op not in WAITS
        )  # fmt: skip
        steps.append(
            Step(
                moment.number,
                moment.cta,
                scene.role(moment),
                scene.cast.threads(moment.threads),
                format(moment.threads, "x"),
                scene.line(moment.span),
                moment.op,
                said(scene, storage, moment),
                scene.rings.get(moment.key, "") if moment.key is not None else "",
                moment.phase,
                moment.expect or moment.complete or dict(moment.details).get("bytes", 0),
                moment.count or (moment.times if moment.op == "access" else 0),
                blocked,
                moment.passed,
            )
        )
    return tuple(steps), cut


def said(scene: Scene, storage: Storage, moment: Moment) -> str:
    """One step in words."""
    name = scene.name(moment.key) if moment.key is not None else ""
    details = dict(moment.details)
    if moment.op in WAITS:
        if moment.phase == -1:
            return f"wait on {name}, parity {moment.parity}: passes, the barrier is fresh"
        text = f"wait for phase {moment.phase} of {name}, parity {moment.parity}"
        return text + (" (the test failed and was given up)" if moment.gave_up else "")
    how = ARRIVES.get(moment.op)
    if how == "copy":
        into = ", ".join(_stages(storage, moment, True))
        size = f" {details['bytes']} bytes" if "bytes" in details else ""
        word = COPIES.get(moment.op, moment.op)
        return f"{word}{size}{f' into {into}' if into else ''}, completes on {name}, phase {moment.phase}"
    if how is not None:
        parts = []
        if how == "commit":
            parts.append("commit")
        elif moment.count:
            parts.append(f"arrive {moment.count}" if moment.count != 1 else "arrive")
        if moment.expect:
            parts.append(f"expect {moment.expect} bytes")
        if moment.complete:
            parts.append(f"complete {moment.complete} bytes")
        return f"{' and '.join(parts) or how} on {name}, phase {moment.phase}"
    if moment.op in MEETS:
        if MEETS[moment.op] == "CTA barrier":
            return "CTA barrier"
        verb = moment.op.removeprefix("barrier.cluster.")
        if MEETS[moment.op] == "cluster barrier":
            return f"cluster barrier {verb}"
        count = f", {details['threads']} threads" if "threads" in details else ""
        return f"{moment.op.removesuffix('.named')} on {name}{count}"
    if moment.op == "mbarrier.init":
        record = scene.outcome.barriers.get(moment.key)
        return f"init {name}, count {record.count if record is not None else '?'}"
    if moment.op == "mbarrier.inval":
        return f"inval {name}"
    if moment.op in FENCES:
        text = FENCES[moment.op]
        text += (moment.fence or "ld") if moment.op == "tcgen05.wait" else ""
        return text + (f" {details['group']}" if "group" in details else "")
    if moment.op == "access":
        verbs: dict[str, list[str]] = {}
        for touch in moment.touches:
            names = storage.names([touch]) or [touch.region.name]
            verbs.setdefault(touch.what, []).extend(names)
        parts = []
        for what, names in verbs.items():
            lines = scene.lines(moment.places.get(what, ()))
            more = f" (lines {lines[0]}-{lines[-1]})" if len(lines) > 1 else ""
            parts.append(f"{NAMES.get(what, what)} {', '.join(dict.fromkeys(names))}{more}")
        return ", ".join(parts) + (f", {moment.times} accesses" if moment.times > 1 else "")
    reads, writes = _stages(storage, moment, False), _stages(storage, moment, True)
    text = NAMES.get(moment.op, moment.op)
    if reads:
        text += f" reads {', '.join(reads)}"
    if writes:
        text += f"{' and' if reads else ''} writes {', '.join(writes)}"
    shown = [f"{role} {value}" for role, value in moment.details if role in ("columns", "registers", "bytes")]
    return text + (f" ({', '.join(shown)})" if shown else "")


def _stages(storage: Storage, moment: Moment, write: bool) -> list[str]:
    """The buffers a moment reads or writes, with the stage where there are several: `S1[0]`."""
    found = []
    for touch in moment.touches:
        if touch.write != write:
            continue
        for piece in storage.pieces:
            if piece.holds(touch):
                text = piece.buffer.name
                if len(piece.areas) > 1:
                    at = next(i for i, area in enumerate(piece.areas) if touch.lo < area.hi and area.lo < touch.hi)
                    text += f"[{at}]"
                found.append(text)
    return list(dict.fromkeys(found))


def agents(scene: Scene, wanted: Wanted) -> tuple[Agent, ...]:
    """The wanted roles; all threads where there are no roles."""
    groups = [(g.name, g.ctas, g.warps) for g in scene.cast.groups]
    for cta in scene.ctas:
        idle = scene.cast.everyone
        for _, ctas, warps in groups:
            idle &= ~warps if cta in ctas else idle
        if not idle:
            continue
        name = EVERYONE if idle == scene.cast.everyone else "other warps"
        same = next((row for row in groups if row[0] == name and row[2] == idle), None)
        if same is not None:
            same[1].append(cta)
        else:
            groups.append((name, [cta], idle))
    rows = []
    for name, ctas, warps in sorted(groups, key=lambda row: ((row[2] & -row[2]).bit_length(), row[1])):
        chosen = tuple(cta for cta in ctas if wanted.agent(scene, cta, warps))
        if chosen:
            rows.append(Agent(name, chosen, scene.cast.threads(warps), format(warps, "x")))
    return tuple(rows)


# ------------------------------------------------------------------------------------------------- barriers
def words(scene: Scene, rings: list[Ring], wanted: Wanted) -> tuple[Word, ...]:
    """The phases of each wanted barrier word; equal phases in a row are told as one."""
    made = []
    for ring in rings:
        if ring.kind != "mbarrier":
            continue
        for key in ring.keys:
            record = scene.outcome.barriers.get(key)
            if record is None or not wanted.barrier(scene, key) or (wanted.ctas and record.cta not in wanted.ctas):
                continue
            copies: dict[int, list[Moment]] = {}
            for moment in ring.arrivals:
                if moment.key == key and ARRIVES.get(moment.op) == "copy":
                    copies.setdefault(moment.phase, []).append(moment)
            waits: dict[int, dict[tuple[str, int], None]] = {}
            for moment in ring.waits:
                if moment.key == key:
                    waits.setdefault(moment.phase, {}).setdefault((scene.role(moment), scene.line(moment.span)))
            # An untouched barrier has told nothing of its count yet.
            pending = record.pending if record.phases or record.current else record.count
            broken = over_arrival(record)
            rows: list[Phase] = []
            over = 0
            last = max([len(record.phases), *waits, *copies])
            for number in range(last + 1):
                completed = number < len(record.phases)
                arrivals = (
                    record.phases[number] if completed else record.current if number == len(record.phases) else []
                )
                told = [
                    Arrived(
                        scene.cast.role(a.cta, a.threads), scene.cast.threads(a.threads), scene.line(a.span), how_of(a),
                        a.count, a.expect or a.complete,
                    )
                    for a in arrivals if a.how != "copy"
                ] + [
                    Arrived(scene.role(m), scene.cast.threads(m.threads), scene.line(m.span), "copy", 0,
                            dict(m.details).get("bytes", 0))
                    for m in copies.get(number, ())
                ]  # fmt: skip
                waited = tuple(waits.get(number, ()))
                if not completed and not told and not waited:
                    continue
                missing = "" if completed else _missing(pending, record.tx, number == len(record.phases))
                if broken is not None and number == len(record.phases):
                    missing = f"nothing: it got more arrivals than its count (line {scene.line(broken.span)})"
                row = Phase(number, number, tuple(told), completed, waited, missing)
                before = rows[-1] if rows else None
                if before is not None and completed and before.completed and _same(before, row):
                    rows[-1] = Phase(before.number, number, before.arrivals, True, before.waited, "")
                elif len(rows) < MAX_ROWS:
                    rows.append(row)
                else:
                    over += 1
            made.append(Word(ring.name, scene.label(key), record.cta, record.count, tuple(rows), over))
    return tuple(made)


def _same(one: Phase, two: Phase) -> bool:
    return one.arrivals == two.arrivals and one.waited == two.waited


def _missing(pending: int, tx: int, current: bool) -> str:
    if not current:
        return "earlier phases are not over"
    parts = []
    if pending > 0:
        parts.append(f"{pending} arrival{'s' if pending != 1 else ''}")
    if tx > 0:
        parts.append(f"{tx} bytes")
    if tx < 0:
        parts.append(f"expectation of {-tx} bytes that have come")
    return ", ".join(parts)


def stuck(scene: Scene, wanted: Wanted) -> tuple[Stuck, ...]:
    """Who is blocked at the end."""
    rows = []
    for one in scene.outcome.blocked:
        if wanted.ctas and one.who.cta not in wanted.ctas:
            continue
        rows.append(
            Stuck(
                scene.cast.role(one.who.cta, one.who.threads), scene.cast.threads(one.who.threads), one.who.cta,
                scene.line(one.span), f"waits for {awaited(scene, one)}",
            )
        )  # fmt: skip
    return tuple(rows)
