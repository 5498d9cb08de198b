r"""Two regions of shared memory with different uses overlap by their constant offsets.

## Why
The word that receives the tensor-memory address, the barriers and the tiles live in one pool by hand-computed
offsets. When two of them share bytes, one use destroys the other: the address that `dealloc` reads back is data, or
a barrier's phase is overwritten.

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
__device__ void tmem_alloc(unsigned* slot, unsigned columns) {
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;"
               :: "r"(smem(slot)), "r"(columns) : "memory");
}
__device__ void tmem_dealloc(unsigned base, unsigned columns) {
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" :: "r"(base), "r"(columns));
}
__global__ void __launch_bounds__(128) setup(unsigned* out) {
  extern __shared__ __align__(128) unsigned char pool[];
  unsigned* slot = (unsigned*)(pool + 4);
  unsigned long long* ready = (unsigned long long*)pool;
  if (threadIdx.x == 0) init(ready, 128);
  if (threadIdx.x < 32) tmem_alloc(slot, 32);
  __syncthreads();
  unsigned base = *slot;
  arrive(ready);
  wait(ready, 0);
  out[threadIdx.x] = base;
  __syncthreads();
  if (threadIdx.x < 32) tmem_dealloc(base, 32);
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
__device__ void tmem_alloc(unsigned* slot, unsigned columns) {
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;"
               :: "r"(smem(slot)), "r"(columns) : "memory");
}
__device__ void tmem_dealloc(unsigned base, unsigned columns) {
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" :: "r"(base), "r"(columns));
}
__global__ void __launch_bounds__(128) setup(unsigned* out) {
  extern __shared__ __align__(128) unsigned char pool[];
  unsigned* slot = (unsigned*)(pool + 8);
  unsigned long long* ready = (unsigned long long*)pool;
  if (threadIdx.x == 0) init(ready, 128);
  if (threadIdx.x < 32) tmem_alloc(slot, 32);
  __syncthreads();
  unsigned base = *slot;
  arrive(ready);
  wait(ready, 0);
  out[threadIdx.x] = base;
  __syncthreads();
  if (threadIdx.x < 32) tmem_dealloc(base, 32);
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.rule import Rule
from warplint.threads.facts import Event, Roles
from warplint_rules._regions import destinations
from warplint_rules._say import Reporter, line, location, spelled, who
from warplint_rules._tmem import Slot, slot_reads, tmem, written_slots
from warplint_rules._words import WORD_BYTES, barriers, names

RULE = Rule(Level.WARNING, Symptom.WRONG_RESULT, supersedes=("mbarrier-storage-reused",))
SAY = Reporter(__name__, RULE)

SLOT_BYTES = 4


def check(roles: Roles) -> Iterator[Finding]:
    """The word that an allocation writes, against barriers and against the destinations of copies."""
    for alloc in tmem(roles).allocs:
        for slot in sorted(written_slots(alloc) or (), key=lambda slot: slot[1]):
            yield from _against_barriers(roles, alloc, slot)
            yield from _against_copies(roles, alloc, slot)


def _against_barriers(roles: Roles, alloc: Event, slot: Slot) -> Iterator[Finding]:
    symbol, at = slot
    for site in barriers(roles).inits:
        for word, _ in site.words or ():
            if word.symbol is symbol and word.offset < at + SLOT_BYTES and at < word.offset + WORD_BYTES:
                yield SAY.at(
                    roles,
                    alloc,
                    f"{spelled(alloc)} by {who(roles, alloc.reach)} writes the tensor-memory address to byte {at} of "
                    f"`{symbol.name}`, inside {names([word])} (line {line(roles, site.event.op.span)}).",
                    why="The address destroys the barrier's phase and counts, or the barrier the address.",
                    remedy="Give the address a word of its own.",
                    related=[location(roles, site.event.op.span, "the barrier is initialised here")],
                )
                return


def _against_copies(roles: Roles, alloc: Event, slot: Slot) -> Iterator[Finding]:
    symbol, at = slot
    for copy in destinations(roles):
        if copy.symbol is not symbol or not (copy.start < at + SLOT_BYTES and at < copy.end):
            continue
        # An address that is read before the copy and kept in a register is safe.
        if not any(read.slot == slot and read.order > copy.event.order for read in slot_reads(roles)):
            continue
        yield SAY.at(
            roles,
            copy.event,
            f"{spelled(copy.event)} by {who(roles, copy.event.reach)} overwrites the tensor-memory address at byte "
            f"{at} of `{symbol.name}`, which is read again later.",
            why="The later read finds data, not the address: tensor memory is accessed or freed at a wrong place.",
            remedy="Move the address out of the buffer, or keep it in a register.",
            related=[location(roles, alloc.op.span, "the allocation writes it here")],
        )
        return
