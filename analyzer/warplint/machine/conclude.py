"""What is left when an execution is over: blocked agents, groups, phases, tensor memory, peers that exited too
early.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from warplint.machine.agent import Status
from warplint.machine.outcome import BlockedRecord, Fault, LeftOver, NamedRecord, Party
from warplint.source import Span

if TYPE_CHECKING:
    from warplint.machine.world import World

GROUPS = (("bulk", "bulk-group", "uncommitted-bulk"), ("cp.async", "cp.async", "uncommitted-cp.async"),
          ("wgmma", "wgmma", "uncommitted-wgmma"))  # fmt: skip


def conclude(world: World) -> None:
    """Complete the outcome of an execution in which nothing can run any more."""
    outcome = world.outcome
    outcome.finished = True
    if world.polls is not None:
        world.polls.conclude()
    for agent in world.agents:
        wait = agent.wait
        if agent.status is Status.BLOCKED and wait is not None:
            who = world.party(agent)
            outcome.blocked.append(BlockedRecord(who, wait.span, wait.what, wait.target, wait.parity, wait.phase))
    for (cta, ident), barrier in world.named.items():
        if barrier.need is not None and barrier.need > 0:
            outcome.named[("bar", cta, ident)] = NamedRecord(
                cta, ident, barrier.need, barrier.generation, tuple(barrier.came), frozenset(barrier.distinct)
            )
    for flight in world.flights:
        record = outcome.barriers.get(flight.key)
        if record is not None and flight.span not in record.unexpected:
            record.unexpected.append(flight.span)
    _groups(world)
    _fills(world)
    for allocation in world.allocations:
        if allocation.live and not outcome.blocked:
            who = Party(allocation.cta, allocation.threads)
            outcome.leftovers.append(LeftOver("tmem", who, allocation.span, str(allocation.columns)))
    for record in outcome.barriers.values():
        if record.transaction and record.unwaited > 0 and not outcome.blocked:
            last = record.phases[-1]
            span = next((a.span for a in last if a.expect or a.complete), record.init)
            first = last[0]
            outcome.leftovers.append(
                LeftOver(
                    "transaction-phase", Party(first.cta, first.threads), span, f"{record.label}: {record.unwaited}"
                )
            )
    if all(blocked.what == "cluster barrier" for blocked in outcome.blocked):
        _cluster_barriers(world)
    if not outcome.blocked:
        from warplint.machine.semantics.tensor import pairs

        pairs(world)
        _peers(world)


def _cluster_barriers(world: World) -> None:
    """CTAs that take part in the cluster barrier, but not equally often: at a place to which only one of them comes."""
    sites = world.cluster.sites
    times = {cta: len(set().union(*at.values())) for cta, at in sites.items()}
    if len(set(times.values())) < 2:
        return
    most, least = max(times, key=lambda cta: times[cta]), min(times, key=lambda cta: times[cta])
    alone = [span for span in sites[most] if span not in sites[least]]
    if alone:
        shared = next((span for span in sites[most] if span in sites[least]), None)
        detail = f"{times[most]} {times[least]} {least}"
        who = Party(most, world.everyone)
        world.outcome.faults.append(Fault("cluster-barrier-unmatched", who, alone[0], detail, shared))


def _groups(world: World) -> None:
    seen: set[tuple[str, Span]] = set()
    for mechanism, pending, uncommitted in GROUPS:
        for strand, state in world.groups.live(mechanism):
            if strand.threads & world.live[strand.cta]:
                continue
            places = [(uncommitted, span) for span in state.spans]
            if any(True for _ in state.committed):
                places += [(pending, span) for span in state.issued]
            for kind, span in places:
                if (kind, span) not in seen:
                    seen.add((kind, span))
                    world.outcome.leftovers.append(LeftOver(kind, Party(strand.cta, strand.threads), span))


def _fills(world: World) -> None:
    """Compare what MMAs read of each fill with what its phase expected."""
    read: dict[tuple[Hashable, int], int] = {}
    for access, starts in world.fills.values():
        after = [
            at for key, at in world.slot_starts if key == access.region.key and at > access.lo and at not in starts
        ]
        total = sum(starts.values())
        if after:
            total = min(total, min(after) - access.lo)
        for key, number in access.done:
            if isinstance(key, tuple) and key[0] == "mbar":
                read[(key[1], number)] = read.get((key[1], number), 0) + total
    for (key, number), total in read.items():
        record = world.outcome.barriers.get(key)
        if record is None or not 0 < number <= len(record.phases):
            continue
        arrivals = record.phases[number - 1]
        expected = sum(arrival.expect for arrival in arrivals)
        for arrival in arrivals:
            if arrival.expect:
                old = record.consumed.get(arrival.span)
                if old is None or total - expected > old[1] - old[0]:
                    record.consumed[arrival.span] = (expected, total)
                break


def _peers(world: World) -> None:
    """Accesses to a CTA of the cluster that nothing orders before its exit."""
    for who, target, times, done, span in world.remote.values():
        known = world.exit_clocks.get(target, {})
        if done is not None:
            if known.get(done[0], 0) >= done[1]:
                continue
        elif all(world.strands.covers(known, strand, time) for strand, time in times):
            continue
        kind = "asynchronous" if done is not None else ""
        if not any(f.kind == "exited-peer" and f.span == span for f in world.outcome.faults):
            world.outcome.faults.append(Fault("exited-peer", who, span, kind))
