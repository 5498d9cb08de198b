r"""An operation meant for one thread is executed by several for one logical operation.

## Why
TMA copies, reductions, `tcgen05.mma/cp/commit` and launch-control requests are issued once for every active lane
that executes them. A commit outside the elected lane makes 31 empty groups that arrive at once, so the barrier
completes before the MMA has read its operands; a load completes 32 times the expected bytes; a reduction or an
accumulating MMA is added 32 times. A plain bulk store with equal operands writes the same data again and only costs
time.

## Bad
```cuda
__device__ void commit(unsigned bar) {
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(bar) : "memory");
}
__device__ unsigned elect() {
  unsigned p;
  asm volatile("{\n .reg .pred q;\n elect.sync _|q, 0xffffffff;\n selp.u32 %0, 1, 0, q;\n}" : "=r"(p));
  return p;
}
extern "C" __global__ void __launch_bounds__(128) issue(float* out) {
  __shared__ unsigned long long done;
  unsigned bar = (unsigned)__cvta_generic_to_shared(&done);
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(bar), "r"(1) : "memory");
  __syncthreads();
  if (threadIdx.x / 32 == 1) {
    commit(bar);
  }
}
```

## Good
```cuda
__device__ void commit(unsigned bar) {
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(bar) : "memory");
}
__device__ unsigned elect() {
  unsigned p;
  asm volatile("{\n .reg .pred q;\n elect.sync _|q, 0xffffffff;\n selp.u32 %0, 1, 0, q;\n}" : "=r"(p));
  return p;
}
extern "C" __global__ void __launch_bounds__(128) issue(float* out) {
  __shared__ unsigned long long done;
  unsigned bar = (unsigned)__cvta_generic_to_shared(&done);
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(bar), "r"(1) : "memory");
  __syncthreads();
  if (threadIdx.x / 32 == 1) {
    if (elect()) commit(bar);
  }
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.rule import Rule
from warplint.threads.facts import Event, Known, Opaque, Pointer, Roles, Uniformity, Value, warps_of
from warplint_rules._say import Reporter, guard_places, location, reached, spelled, under, warps, who
from warplint_rules.participation._dataflow import uniform_over
from warplint_rules.participation._lanes import cause, once, with_participation

RULE = Rule(Level.ERROR, Symptom.WRONG_RESULT, guide=True, spoils="schedule")
SAY = Reporter(__name__, RULE)

# Barrier initialisation by many threads has a rule of its own, which knows how initialisations are grouped.
_SINGLE = with_participation("one_thread") - {"mbarrier.init", "mbarrier.inval"}
_PLAIN_STORES = ("cp.async.bulk.s2g", "cp.async.bulk.tensor.store")


def check(roles: Roles) -> Iterator[Finding]:
    """One finding for each place (a condition and its threads) that repeats single-thread operations."""
    groups: dict[tuple[object, ...], list[tuple[Event, int]]] = {}
    for event in once(reached(roles), lambda event: event.name in _SINGLE and not event.mod("elects")):
        times = _repeats(roles, event)
        if times > 1:
            store = event.name in _PLAIN_STORES
            key = (cause(event), event.reach.threads, event.reach.elected, store)
            groups.setdefault(key, []).append((event, times))
    for group in groups.values():
        yield _finding(roles, group)


def _repeats(roles: Roles, event: Event) -> int:
    """How many threads are established to execute one logical operation; 1 when that is not established."""
    size = roles.launch.warp_size
    reach = event.reach
    if reach.split == Uniformity.LANE and not reach.elected:
        return 1
    by_warp = warps_of(reach.threads, size)
    times = 1
    if not reach.elected:
        for warp, lanes in by_warp.items():
            times = max(times, _largest_class(roles, event, lanes << (warp * size), Uniformity.WARP))
    # Warps only count together where they are known to come here together, with equal operands.
    if reach.exact and len(by_warp) > 1 and not _counted_for(roles, event, len(by_warp)):
        times = max(times, _across_warps(roles, event, by_warp))
    if times > 1 and _counted_for(roles, event, times):
        return 1
    return times


def _across_warps(roles: Roles, event: Event, by_warp: dict[int, int]) -> int:
    """Threads in all warps that issue the same operation, 1 when operands may differ between warps."""
    size = roles.launch.warp_size
    chosen = 0
    for warp, lanes in by_warp.items():
        # Of an elected warp any lane stands for the warp: its operands are compared for all lanes alike.
        chosen |= (lanes if not event.reach.elected else lanes & -lanes) << (warp * size)
    if event.reach.elected and not all(_uniform(value, by_warp, size) for value in event.values.values()):
        return 1
    return _largest_class(roles, event, chosen, Uniformity.CTA)


def _uniform(value: Value, by_warp: dict[int, int], size: int) -> bool:
    """The value is the same in all lanes of each warp."""
    match value:
        case Known(each=int()):
            return True
        case Known(each=each):
            assert isinstance(each, tuple)
            return all(
                len({each[warp * size + lane] for lane in range(size) if lanes >> lane & 1}) == 1
                for warp, lanes in by_warp.items()
            )
        case Opaque(uniformity=uniformity):
            return uniformity >= Uniformity.WARP
        case Pointer(offset=offset, cta=cta):
            return _uniform(offset, by_warp, size) and (cta is None or _uniform(cta, by_warp, size))
    return False


def _largest_class(roles: Roles, event: Event, threads: int, level: Uniformity) -> int:
    """The size of the largest set of `threads` with equal operands; 1 when an operand may differ inside the level."""
    if threads & (threads - 1) == 0:
        return 1
    # Descriptors are data to the thread analysis: it does not evaluate them.
    unevaluated = [expr for role, expr in sorted(event.op.operands.items()) if role not in event.values]
    if not all(uniform_over(roles.kernel, expr, level) for expr in unevaluated):
        return 1
    members = [index for index in range(threads.bit_length()) if threads >> index & 1]
    keys: list[list[object]] = [[] for _ in members]
    for role in sorted(event.values):
        if not _append(event.values[role], members, level, keys):
            return 1
    counts: dict[tuple[object, ...], int] = {}
    for key in keys:
        counts[tuple(key)] = counts.get(tuple(key), 0) + 1
    return max(counts.values(), default=1)


def _append(value: Value, members: list[int], level: Uniformity, keys: list[list[object]]) -> bool:
    """Adds what tells the operand of one thread from that of another; False when it may differ in unknown ways."""
    match value:
        case Known():
            for key, thread in zip(keys, members, strict=True):
                key.append(value.at(thread))
            return True
        case Opaque(uniformity=uniformity):
            return uniformity >= level
        case Pointer(symbol=symbol, offset=offset, cta=cta):
            for key in keys:
                key.append(id(symbol))
            return _append(offset, members, level, keys) and (cta is None or _append(cta, members, level, keys))
    return False


def _counted_for(roles: Roles, event: Event, times: int) -> bool:
    """A commit whose barrier is initialised for exactly that many arrivals is meant so."""
    if event.name != "tcgen05.commit":
        return False
    barrier = event.values.get("barrier")
    if not isinstance(barrier, Pointer):
        return False
    for init in reached(roles, "mbarrier.init"):
        at = init.values.get("barrier")
        if isinstance(at, Pointer) and at.symbol is barrier.symbol and init.constant("count") == times:
            return True
    return False


def _finding(roles: Roles, group: list[tuple[Event, int]]) -> Finding:
    event, times = group[0]
    store = event.name in _PLAIN_STORES
    several = event.reach.elected or len(warps_of(event.reach.threads, roles.launch.warp_size)) > 1
    message = (
        f"{spelled(event)} is executed by {who(roles, event.reach)}{under(roles, event.guards)}: "
        f"{times} times for one {'store' if store else 'operation'}."
    )
    return SAY.at(
        roles,
        event,
        message,
        level=Level.WARNING if store else Level.ERROR,
        symptom=Symptom.SLOW if store else Symptom.WRONG_RESULT,
        why=_why(event, times),
        remedy=_remedy(roles, event, several),
        related=[
            *(location(roles, other.op.span, f"{spelled(other)}, by the same threads") for other, _ in group[1:]),
            *guard_places(roles, event.guards)[-2:],
        ],
    )


def _why(event: Event, times: int) -> str:
    name = event.name
    if name in _PLAIN_STORES:
        return (
            "Every active lane issues the store again; the same bytes are written several times, and each lane "
            "waits for its own."
        )
    if name == "tcgen05.commit":
        return (
            "A commit tracks the tcgen05 operations of its own thread: the threads that issued none arrive at once, "
            "so the "
            "barrier completes before the MMA has read its operands."
        )
    if name.startswith("tcgen05."):
        return f"Each thread issues the whole operation: an accumulating MMA is added {times} times."
    if name.startswith("cp.reduce"):
        return f"Each thread issues the whole reduction: the tile is added {times} times."
    if name.startswith("clusterlaunchcontrol"):
        return "Each thread makes a request of its own: tiles are taken and lost, and the response is overwritten."
    return (
        f"Each thread issues the whole copy: {times} times the bytes complete on the barrier, which then passes a "
        "phase early or "
        "never."
    )


def _remedy(roles: Roles, event: Event, several: bool) -> str:
    if several:
        first = min(warps_of(event.reach.threads, roles.launch.warp_size), default=0)
        return (
            f"Guard it with one warp and one elected lane (`if (warp_id == {first} && elect_one())`): an election "
            "alone leaves "
            "one lane in every warp."
        )
    if event.name == "tcgen05.commit":
        lead = "Put it under the same elected lane that issues the operations it tracks"
    else:
        lead = "Put it under `elect.sync` (or `lane == 0`)"
    return f"{lead}, inside {warps(roles, event.reach.threads)}."
