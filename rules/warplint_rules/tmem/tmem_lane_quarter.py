r"""A warp addresses tensor-memory lanes that belong to another warp

## Why
Tensor memory has 128 lanes, and warp `w` of a warpgroup reaches lanes `32 * (w % 4)` to `32 * (w % 4) + 31` only (PTX
ISA, tcgen05.ld and tcgen05.st). An address in other lanes is undefined: the load faults, or brings the rows of another
warp. The usual cause is an offset made of the warp's number in the block, with no `% 4`. Lanes 0 to 31 are not
reported in any warp: shipped kernels leave the quarter out, and the hardware takes the warp's own.

## Bad
```cuda
__device__ unsigned smem(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void tmem_alloc(unsigned* slot, unsigned columns) {
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;"
               :: "r"(smem(slot)), "r"(columns) : "memory");
}
__device__ void tmem_dealloc(unsigned base, unsigned columns) {
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" :: "r"(base), "r"(columns));
}
__device__ void tmem_store(unsigned address, unsigned value) {
  asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" :: "r"(address), "r"(value) : "memory");
  asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
}
__device__ void fence_before() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
__device__ void fence_after() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }
extern "C" __global__ void __launch_bounds__(256) clear() {
  __shared__ unsigned slot;
  const unsigned warp = threadIdx.x / 32;
  if (warp == 0) tmem_alloc(&slot, 32);
  fence_before();
  __syncthreads();
  fence_after();
  if (warp >= 4) tmem_store(slot + (warp * 32 << 16), 0);
  fence_before();
  __syncthreads();
  fence_after();
  if (warp == 0) tmem_dealloc(slot, 32);
}
```

## Good
```cuda
__device__ unsigned smem(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void tmem_alloc(unsigned* slot, unsigned columns) {
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;"
               :: "r"(smem(slot)), "r"(columns) : "memory");
}
__device__ void tmem_dealloc(unsigned base, unsigned columns) {
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" :: "r"(base), "r"(columns));
}
__device__ void tmem_store(unsigned address, unsigned value) {
  asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" :: "r"(address), "r"(value) : "memory");
  asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
}
__device__ void fence_before() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
__device__ void fence_after() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }
extern "C" __global__ void __launch_bounds__(256) clear() {
  __shared__ unsigned slot;
  const unsigned warp = threadIdx.x / 32;
  if (warp == 0) tmem_alloc(&slot, 32);
  fence_before();
  __syncthreads();
  fence_after();
  if (warp >= 4) tmem_store(slot + (warp % 4 * 32 << 16), 0);
  fence_before();
  __syncthreads();
  fence_after();
  if (warp == 0) tmem_dealloc(slot, 32);
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.machine import Execution
from warplint.rule import Rule
from warplint_rules._executed import party
from warplint_rules._hazards import faults
from warplint_rules._say import Reporter

RULE = Rule(Level.ERROR, Symptom.CRASH, executes=True, local=True)
SAY = Reporter(__name__, RULE)

QUARTER = 32
"""Lanes of tensor memory that one warp reaches."""


def check_execution(execution: Execution) -> Iterator[Finding]:
    """One finding for each load or store with such an address."""
    for fault in faults(execution, "tmem-lanes"):
        lane, warp = map(int, fault.detail.split())
        own = warp % 4 * QUARTER
        yield SAY.at(
            execution.roles,
            fault.span,
            f"{party(execution, fault.who)[:1].upper()}{party(execution, fault.who)[1:]} addresses lane {lane} of "
            f"tensor memory, and reaches lanes {own} to {own + QUARTER - 1} only.",
            threads=party(execution, fault.who),
            why="A warp reaches the quarter of the 128 lanes that its number in the warpgroup names; other lanes are "
            "undefined: the access faults, or touches the rows of another warp.",
            remedy="Make the lane of `warp % 4`: `address + ((warp % 4 * 32) << 16)`.",
        )
