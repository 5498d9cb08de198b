r"""A barrier is initialised with a count the hardware does not take, or does not lie on an 8-byte boundary.

## Why
The arrival count of an mbarrier is 1 to 2^20 - 1 (PTX ISA, mbarrier.init). With 0 the first arrival is a launch
failure; with more the phase bits are overwritten and waits pass at random. A word that is not 8-byte aligned is a
misaligned address fault. The assembler checks neither.

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
constexpr int kConsumers = 31 / 32;
__global__ void __launch_bounds__(64) publish(float* out, const float* in) {
  __shared__ float tile[64];
  __shared__ unsigned long long ready;
  if (threadIdx.x == 0) init(&ready, kConsumers);
  __syncthreads();
  tile[threadIdx.x] = in[threadIdx.x];
  __syncwarp();
  if (threadIdx.x % 32 == 0) arrive(&ready);
  wait(&ready, 0);
  out[threadIdx.x] = tile[63 - threadIdx.x];
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
constexpr int kWarps = 64 / 32;
__global__ void __launch_bounds__(64) publish(float* out, const float* in) {
  __shared__ float tile[64];
  __shared__ unsigned long long ready;
  if (threadIdx.x == 0) init(&ready, kWarps);
  __syncthreads();
  tile[threadIdx.x] = in[threadIdx.x];
  __syncwarp();
  if (threadIdx.x % 32 == 0) arrive(&ready);
  wait(&ready, 0);
  out[threadIdx.x] = tile[63 - threadIdx.x];
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.program.ir import Symbol
from warplint.rule import Rule
from warplint.threads.facts import Event, Known, Roles
from warplint_rules._say import Reporter, location, spelled, unique, who
from warplint_rules._words import WORD_BYTES, Site, Word, barriers, capital, label, name_of, threads_in

RULE = Rule(Level.ERROR, Symptom.CRASH, spoils="everything")
SAY = Reporter(__name__, RULE)

MAX_COUNT = (1 << 20) - 1


def check(roles: Roles) -> Iterator[Finding]:
    """Counts of live inits, then the alignment of every word that is initialised or used."""
    known = barriers(roles)
    yield from unique(_counts(roles, known.inits))
    misplaced: dict[Word, list[Event]] = {}
    for site in (*known.inits, *known.uses):
        for word, _ in site.words or ():
            if word.offset % WORD_BYTES and _base_alignment(word.symbol) % WORD_BYTES == 0:
                misplaced.setdefault(word, []).append(site.event)
    by_site: dict[int, tuple[Event, list[Word]]] = {}
    for word, events in misplaced.items():
        by_site.setdefault(id(events[0].op), (events[0], []))[1].append(word)
    for event, words in by_site.values():
        listed = ", ".join(f"`{name_of(word)}`" for word in words[:3])
        yield SAY.at(
            roles,
            event,
            f"Barrier {listed} lies {words[0].offset % WORD_BYTES} bytes past an 8-byte boundary.",
            why="Every mbarrier operation on it is a misaligned address fault.",
            remedy=f"Align the word: offsets into `{words[0].symbol.name}` must be multiples of 8.",
            related=[
                location(roles, other.op.span, "used here")
                for word in words
                for other in misplaced[word]
                if other.op is not event.op
            ],
        )


def _counts(roles: Roles, inits: tuple[Site, ...]) -> Iterator[Finding]:
    for site in inits:
        event = site.event
        bad = _bad_count(event)
        if bad is None:
            continue
        reason = (
            "An arrival on a barrier with count 0 is a launch failure."
            if bad == 0
            else "The count overflows its 20-bit field into the phase: waits pass or block at random."
        )
        yield SAY.at(
            roles,
            event,
            f"{capital(label(site))} is initialised with count {bad} by {who(roles, event.reach)}; "
            f"{spelled(event)} takes 1 to {MAX_COUNT}.",
            why=reason,
            remedy="Give the number of arrivals that complete one phase.",
        )


def _bad_count(event: Event) -> int | None:
    value = event.values.get("count")
    if not isinstance(value, Known):
        return None
    if isinstance(value.each, int):
        counts = [value.each]
    else:
        counts = [value.at(thread) for thread in threads_in(event.reach.threads)] if event.reach.exact else []
    # The operand is 32-bit unsigned.
    return next((n for n in counts if not 1 <= n & 0xFFFFFFFF <= MAX_COUNT), None)


def _base_alignment(symbol: Symbol) -> int:
    """What the address of a shared variable is a multiple of, as far as the declaration says."""
    if symbol.kind == "dynamic_shared":
        return max(16, symbol.alignment)
    return max(symbol.alignment, symbol.element_bytes or 1) if symbol.element_bytes != 12 else 4
