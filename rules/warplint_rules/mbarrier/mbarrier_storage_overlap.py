r"""A barrier word lies inside the destination of an asynchronous copy.

## Why
The copy engine writes over the barrier while it is in use. The phase, the counts and the pending bytes become data
bits: waits pass early or never, and an arrival may end the kernel with a launch failure.

## Bad
```cuda
__device__ unsigned smem(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void init(unsigned long long* b, unsigned n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(smem(b)), "r"(n) : "memory");
}
__device__ void fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ void expect(unsigned long long* b, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(smem(b)), "r"(bytes) : "memory");
}
__device__ void wait(unsigned long long* b, unsigned parity) {
  asm volatile("{\n .reg .pred p;\n W_%=:\n mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n @!p bra W_%=;\n}"
               :: "r"(smem(b)), "r"(parity) : "memory");
}
__device__ void load(void* dst, const void* src, unsigned bytes, unsigned long long* b) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"(smem(dst)), "l"(src), "r"(bytes), "r"(smem(b)) : "memory");
}
constexpr int kTile = 1024, kScales = 64;
__global__ void __launch_bounds__(32) fetch(float* out, const char* in) {
  extern __shared__ __align__(1024) unsigned char pool[];
  unsigned long long* full = (unsigned long long*)(pool + kTile);
  if (threadIdx.x == 0) {
    init(full, 1);
    fence_init();
    expect(full, kTile + kScales);
    load(pool, in, kTile + kScales, full);
  }
  __syncwarp();
  wait(full, 0);
  out[threadIdx.x] = ((float*)pool)[threadIdx.x];
}
```

## Good
```cuda
__device__ unsigned smem(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void init(unsigned long long* b, unsigned n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(smem(b)), "r"(n) : "memory");
}
__device__ void fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ void expect(unsigned long long* b, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(smem(b)), "r"(bytes) : "memory");
}
__device__ void wait(unsigned long long* b, unsigned parity) {
  asm volatile("{\n .reg .pred p;\n W_%=:\n mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n @!p bra W_%=;\n}"
               :: "r"(smem(b)), "r"(parity) : "memory");
}
__device__ void load(void* dst, const void* src, unsigned bytes, unsigned long long* b) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"(smem(dst)), "l"(src), "r"(bytes), "r"(smem(b)) : "memory");
}
constexpr int kTile = 1024, kScales = 64;
__global__ void __launch_bounds__(32) fetch(float* out, const char* in) {
  extern __shared__ __align__(1024) unsigned char pool[];
  unsigned long long* full = (unsigned long long*)(pool + kTile + kScales);
  if (threadIdx.x == 0) {
    init(full, 1);
    fence_init();
    expect(full, kTile + kScales);
    load(pool, in, kTile + kScales, full);
  }
  __syncwarp();
  wait(full, 0);
  out[threadIdx.x] = ((float*)pool)[threadIdx.x];
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.rule import Rule
from warplint.threads.facts import Roles
from warplint_rules._regions import Region, destinations
from warplint_rules._say import Reporter, line, location, spelled, who
from warplint_rules._words import WORD_BYTES, Site, Word, barriers, capital, names

RULE = Rule(Level.ERROR, Symptom.CRASH, supersedes=("smem-regions-overlap",))
SAY = Reporter(__name__, RULE)


def check(roles: Roles) -> Iterator[Finding]:
    """One finding for all barrier words that are initialised together and overwritten by copies."""
    known = barriers(roles)
    if known.invals:
        return  # the words may be given back before the copy
    copies = list(destinations(roles))
    inits: dict[Word, Site] = {}
    for site in known.inits:
        for word, _ in site.words or ():
            inits.setdefault(word, site)
    if not copies or not inits:
        return
    hit: dict[Word, Region] = {}
    for word in inits:
        for copy in copies:
            if copy.symbol is word.symbol and copy.start < word.offset + WORD_BYTES and word.offset < copy.end:
                hit.setdefault(word, copy)
                break
    if not hit:
        return
    first = min(hit, key=lambda word: inits[word].event.order)
    copy = hit[first]
    event = inits[first].event
    extent = f"bytes {copy.start}-{copy.end - 1} of `{copy.symbol.name}`"
    at_least = "" if copy.exact else "at least "
    yield SAY.at(
        roles,
        event,
        f"{capital(names(hit))} {'lies' if len(hit) == 1 else 'lie'} inside the destination of {spelled(copy.event)} "
        f"(line {line(roles, copy.event.op.span)}), which writes {at_least}{extent}.",
        why="The copy overwrites the phase and the counts of a barrier in use: waits pass early or never, and an "
        "arrival may trap.",
        remedy=f"Move the barriers out of the buffer, or the buffer behind byte "
        f"{max(word.offset for word in hit) + WORD_BYTES - 1} of `{copy.symbol.name}`.",
        related=[
            location(roles, copy.event.op.span, f"the copy, by {who(roles, copy.event.reach)}"),
            *(location(roles, inits[word].event.op.span, "initialised here") for word in hit if word != first),
        ],
    )
