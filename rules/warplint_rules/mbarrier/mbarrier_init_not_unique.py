r"""More than one thread initialises one barrier word.

## Why
`mbarrier.init` on a word that is already a live barrier is undefined. When several warps do it, the later init
wipes out arrivals that came in between, and a phase never completes. Lanes of one warp that repeat the init in
lockstep usually get away with it; a guard such as `warp_in_warpgroup == 1`, which holds once in each warpgroup,
does not.

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
__global__ void __launch_bounds__(256) exchange(float* out, const float* in) {
  __shared__ float tile[256];
  __shared__ unsigned long long ready;
  int warp_in_warpgroup = (threadIdx.x / 32) % 4;
  if (warp_in_warpgroup == 1 && threadIdx.x % 32 == 0) init(&ready, 256);
  __syncthreads();
  tile[threadIdx.x] = in[threadIdx.x];
  arrive(&ready);
  wait(&ready, 0);
  out[threadIdx.x] = tile[255 - threadIdx.x];
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
__global__ void __launch_bounds__(256) exchange(float* out, const float* in) {
  __shared__ float tile[256];
  __shared__ unsigned long long ready[4];
  if (threadIdx.x < 4) init(&ready[threadIdx.x], 64);
  __syncthreads();
  tile[threadIdx.x] = in[threadIdx.x];
  arrive(&ready[threadIdx.x / 64]);
  wait(&ready[threadIdx.x / 64], 0);
  out[threadIdx.x] = tile[threadIdx.x ^ 63];
}
```
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from warplint.finding import Finding, Level, Symptom
from warplint.rule import Rule
from warplint.threads.facts import Event, Known, Opaque, Pointer, Roles, Uniformity, Value
from warplint_rules._order import order_of
from warplint_rules._say import Reporter, line, location, spelled, threads, under, who
from warplint_rules._words import Barriers, Site, Word, barriers, capital, exclusive, label, names, warps

RULE = Rule(Level.ERROR, Symptom.DEADLOCK, spoils="schedule")
SAY = Reporter(__name__, RULE)


def check(roles: Roles) -> Iterator[Finding]:
    """Sites that repeat their init over threads, then pairs of sites that initialise one word."""
    known = barriers(roles)
    yield from _one_site(roles, known)
    if not known.invals and not known.opaque:
        yield from _two_sites(roles, known)


def _one_site(roles: Roles, known: Barriers) -> Iterator[Finding]:
    # Consecutive sites under the same guards are one barrier array, or one init block: one finding.
    groups: dict[tuple[int, ...], list[tuple[Site, int]]] = {}
    for site in known.inits:
        repeated = _repeated(roles, site)
        if repeated:
            key = tuple(id(guard.stmt) for guard in site.event.guards)
            groups.setdefault(key, []).append((site, repeated))
    for sites in groups.values():
        first, who_repeats = max(sites, key=lambda pair: len(warps(roles, pair[1])))
        event = first.event
        several = len(warps(roles, who_repeats)) > 1
        words = {word for site, _ in sites for word, _ in site.words or ()}
        what = names(words) if words else label(first)
        by = who(roles, event.reach) if event.reach.elected else threads(roles, who_repeats)
        yield SAY.at(
            roles,
            event,
            f"{capital(what)} {'is' if len(words) < 2 else 'are'} initialised more than once: {spelled(event)} is "
            f"executed by {by}{under(roles, event.guards)}.",
            level=None if several else Level.WARNING,
            why="Each init restarts the phase and drops the arrivals counted so far; between warps nothing keeps one "
            "of them from coming after the first arrival."
            if several
            else "The lanes of the warp write the same value in lockstep today, but initialising a live barrier again "
            "is undefined, and nothing keeps the lanes together.",
            remedy="Let exactly one thread of the block execute it, e.g. `if (threadIdx.x == 0)`; several threads may "
            "share the work when each takes other words.",
            related=[location(roles, site.event.op.span, "and here") for site, _ in sites if site is not first],
        )


def _repeated(roles: Roles, site: Site) -> int:
    """The threads that initialise one word together at this site; 0 when each word certainly has one, or not known."""
    event = site.event
    if not event.reach.exact:
        return 0
    if site.words is not None:
        best = 0
        for _, members in site.words:
            if _executions(roles, event, members) > _executions(roles, event, best):
                best = members
        return best if _executions(roles, event, best) > 1 else 0
    # The word varies over iterations, but every thread names the same one.
    same = _uniformity(event.values["barrier"])
    if same >= Uniformity.CTA and _executions(roles, event, site.threads) > 1:
        return site.threads
    return 0


def _uniformity(value: Value) -> Uniformity:
    if isinstance(value, Pointer):
        return Uniformity.LANE if value.cta is not None else _uniformity(value.offset)
    if isinstance(value, Known):
        return Uniformity.GRID if value.constant is not None else Uniformity.LANE
    return value.uniformity if isinstance(value, Opaque) else Uniformity.LANE


def _executions(roles: Roles, event: Event, members: int) -> int:
    return len(warps(roles, members)) if event.reach.elected else members.bit_count()


def _two_sites(roles: Roles, known: Barriers) -> Iterator[Finding]:
    by_word: dict[Word, list[tuple[Site, int]]] = {}
    for site in known.inits:
        if site.event.reach.exact:
            for word, members in site.words or ():
                by_word.setdefault(word, []).append((site, members))
    order = order_of(roles)
    if order.uncertain:
        return
    pairs: dict[tuple[int, int], tuple[Site, Site, list[Word]]] = {}
    for word, sites in by_word.items():
        for (a, of_a), (b, of_b) in pairwise(sites):
            if a.event.op is b.event.op or exclusive(a.event, b.event):
                continue
            first, second = min(warps(roles, of_a)), min(warps(roles, of_b))
            # Re-use of a word after a barrier is another matter (mbarrier-storage-reused).
            if first == second or order.ordered(a.event, first, b.event, second):
                continue
            key = (id(a.event.op), id(b.event.op))
            pairs.setdefault(key, (a, b, []))[2].append(word)
    seen: set[tuple[int, ...]] = set()
    for a, b, words in pairs.values():
        block = tuple(id(guard.stmt) for guard in (*a.event.guards, *b.event.guards))
        if block in seen:
            continue
        seen.add(block)
        yield SAY.at(
            roles,
            b.event,
            f"{capital(names(words))} is initialised by {who(roles, b.event.reach)}{under(roles, b.event.guards)} and "
            f"also by {who(roles, a.event.reach)} (line {line(roles, a.event.op.span)}), with nothing that orders the "
            "two.",
            why="The later init restarts the phase and drops the arrivals counted so far.",
            remedy="Keep one of the two inits, before the CTA barrier that precedes the first use.",
            related=[location(roles, a.event.op.span, "the other init")],
        )
