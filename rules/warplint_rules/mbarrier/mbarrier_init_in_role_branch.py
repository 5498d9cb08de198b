r"""A barrier is initialised inside a role branch where no thread does it, or too late for the other roles.

## Why
An init that only one thread executes, placed under a role guard which that thread does not satisfy (thread 0 inside
warpgroup 1), is executed by nobody: the word keeps whatever shared memory held and the first waiter hangs. An init
inside one role's branch, behind the barrier that let the other roles go, races with their first use of the word. An
init under a warp guard that a thread does satisfy, followed by a CTA barrier, is normal.

## Bad
```cuda
__device__ unsigned smem(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void init(unsigned long long* b, unsigned n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(smem(b)), "r"(n) : "memory");
}
__device__ void arrive(unsigned long long* b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(smem(b)) : "memory");
}
__device__ void wait(unsigned long long* b, unsigned parity) {
  asm volatile("{\n .reg .pred p;\n W_%=:\n mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n @!p bra W_%=;\n}"
               :: "r"(smem(b)), "r"(parity) : "memory");
}
__global__ void __launch_bounds__(256) hand_off(float* out, const float* in) {
  __shared__ float tile[128];
  __shared__ unsigned long long ready;
  int warpgroup = threadIdx.x / 128;
  if (warpgroup == 1) {
    if (threadIdx.x == 0) init(&ready, 128);
  }
  __syncthreads();
  if (warpgroup == 1) {
    tile[threadIdx.x - 128] = in[threadIdx.x - 128];
    arrive(&ready);
  } else {
    wait(&ready, 0);
    out[threadIdx.x] = tile[threadIdx.x];
  }
}
```

## Good
```cuda
__device__ unsigned smem(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void init(unsigned long long* b, unsigned n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(smem(b)), "r"(n) : "memory");
}
__device__ void arrive(unsigned long long* b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(smem(b)) : "memory");
}
__device__ void wait(unsigned long long* b, unsigned parity) {
  asm volatile("{\n .reg .pred p;\n W_%=:\n mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n @!p bra W_%=;\n}"
               :: "r"(smem(b)), "r"(parity) : "memory");
}
__global__ void __launch_bounds__(256) hand_off(float* out, const float* in) {
  __shared__ float tile[128];
  __shared__ unsigned long long ready;
  int warpgroup = threadIdx.x / 128;
  if (threadIdx.x == 0) init(&ready, 128);
  __syncthreads();
  if (warpgroup == 1) {
    tile[threadIdx.x - 128] = in[threadIdx.x - 128];
    arrive(&ready);
  } else {
    wait(&ready, 0);
    out[threadIdx.x] = tile[threadIdx.x];
  }
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.rule import Rule
from warplint.threads.facts import Condition, Known, Roles
from warplint.threads.lattice import Mix
from warplint_rules._init import unordered
from warplint_rules._say import (
    Reporter,
    condition_text,
    guard_places,
    line,
    location,
    narrowing,
    spelled,
    threads,
    under,
    who,
)
from warplint_rules._words import Site, Word, barriers, capital, label, names, threads_in

RULE = Rule(
    Level.ERROR,
    Symptom.DEADLOCK,
    guide=True,
    supersedes=("mbarrier-never-initialized", "mbarrier-use-before-init-sync"),
    spoils="everything",
)
SAY = Reporter(__name__, RULE)


def check(roles: Roles) -> Iterator[Finding]:
    """One finding per outer guard: all inits under it have one cause."""
    yield from _nobody(roles)
    yield from _too_late(roles)


def _nobody(roles: Roles) -> Iterator[Finding]:
    groups: dict[tuple[str, bool], list[Site]] = {}
    for site in barriers(roles).dead:
        conditions = narrowing(site.event.guards)
        if conditions and all(_decided(guard) for guard in conditions) and _needed(roles, site):
            # With an assumed block, a guard that no thread satisfies by itself may be meant for a larger block.
            if not roles.assumed_block or all(_satisfiable(roles, guard) for guard in conditions):
                groups.setdefault((conditions[0].text, conditions[0].taken), []).append(site)
    for sites in groups.values():
        first = sites[0]
        conditions = narrowing(first.event.guards)
        words = {word for site in sites for word, _ in site.words or ()}
        yield SAY.at(
            roles,
            first.event,
            f"No thread initialises {names(words) if words else label(first)}: {spelled(first.event)} stands under "
            f"{_contradiction(roles, conditions)}.",
            why="The word keeps whatever shared memory held; the first thread that waits on it hangs, and an arrival "
            "on it may trap.",
            remedy=f"Move the init out of `{condition_text(conditions[0])}` (line {line(roles, conditions[0].span)}) "
            "to the top level, before the CTA barrier that precedes the roles, or let a thread that satisfies that "
            "condition execute it.",
            related=[
                *guard_places(roles, conditions),
                *(location(roles, site.event.op.span, "nor does any thread execute this init") for site in sites[1:]),
            ],
        )


def _decided(guard: Condition) -> bool:
    """What the condition selects is established; of an election, that none of those who come to it can be elected."""
    if guard.known:
        return True
    value = guard.value
    return isinstance(value, Mix) and all(
        isinstance(part, Known) for threads, part in value.parts if threads & guard.before.threads
    )


def _satisfiable(roles: Roles, guard: Condition) -> bool:
    value = guard.value
    if not isinstance(value, Known):
        return True
    if isinstance(value.each, int):
        return bool(value.each) == guard.taken
    return any(bool(each) == guard.taken for each in value.each)


def _contradiction(roles: Roles, conditions: list[Condition]) -> str:
    """The condition that takes the last threads away and the one before it, with what each selects."""
    last = next((i for i, guard in enumerate(conditions) if not guard.after.threads), len(conditions) - 1)
    chosen = conditions[max(0, last - 1) : last + 1]
    texts = [
        f"`{condition_text(guard)}` (line {line(roles, guard.span)}, {threads(roles, _selected(roles, guard))})"
        for guard in chosen
    ]
    return " and ".join(texts)


def _selected(roles: Roles, guard: Condition) -> int:
    """The threads of the block for which the condition by itself holds."""
    value = guard.value
    if isinstance(value, Mix):
        return sum(threads for threads, part in value.parts if not isinstance(part, Known)) & roles.everyone
    if not isinstance(value, Known):
        return guard.after.threads
    return sum(1 << thread for thread in threads_in(roles.everyone) if bool(value.at(thread)) == guard.taken)


def _needed(roles: Roles, dead: Site) -> bool:
    """A live use names the barrier and no live init covers it."""
    known = barriers(roles)
    if known.unknown_init(dead.symbol) and any(site.words is None for site in known.inits):
        return False
    words: set[Word] = {word for word, _ in dead.words or ()}
    done = {word for site in known.inits for word, _ in site.words or ()}
    if words:
        missing = words - done
        others = any(site.symbol is dead.symbol for site in known.inits)
        for use in known.uses:
            if use.symbol is not dead.symbol:
                continue
            if use.words is not None:
                if any(word in missing for word, _ in use.words):
                    return True
            elif not others:  # else the unknown word may be one of those that are initialised
                return True
        return False
    return not known.inits and any(use.symbol is dead.symbol for use in known.uses)


def _too_late(roles: Roles) -> Iterator[Finding]:
    found = [one for one in unordered(roles) if one.late is not None]
    if not found:
        return
    first = min(found, key=lambda one: one.use.event.order)
    init = min(first.inits, key=lambda site: site.event.order)
    guard = first.late
    assert guard is not None
    yield SAY.at(
        roles,
        init.event,
        f"{capital(label(init))} is initialised by {who(roles, init.event.reach)} inside the branch "
        f"`{condition_text(guard)}` (line {line(roles, guard.span)}), after the barrier behind which "
        f"{threads(roles, first.threads)} may already use it (line {line(roles, first.use.event.op.span)}).",
        why="Nothing makes the other role wait for the init: it may arrive or wait on a word that still holds whatever "
        "shared memory held, and the init then wipes out its arrival.",
        remedy="Initialise at the top level, before the CTA barrier that precedes the roles.",
        related=[
            location(roles, guard.span, "the branch of one role"),
            *(
                location(
                    roles,
                    one.use.event.op.span,
                    f"{spelled(one.use.event)} by {threads(roles, one.threads)}{under(roles, one.use.event.guards)}",
                )
                for one in found
            ),
        ],
    )
