r"""The memory of a valid mbarrier is used for data, or as a new barrier.

## Why
From its `mbarrier.init` to its `mbarrier.inval` the 64-bit word is an opaque object: any other access to it is
undefined, and so is a second `mbarrier.init` (PTX ISA, mbarrier.inval). A scratch array in a union with the barriers,
or a pool that is handed out again, overwrites the pending count, and what still completes on the barrier (a copy, a
commit) writes into the new data.

## Bad
```cuda
// warplint: --arch sm_90a
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
__global__ void __launch_bounds__(64) sum(float* out, const float* in) {
  __shared__ union { unsigned long long done; float partial[2]; } u;
  if (threadIdx.x == 0) init(&u.done, 64);
  __syncthreads();
  arrive(&u.done);
  wait(&u.done, 0);
  __syncthreads();
  if (threadIdx.x % 32 == 0) u.partial[threadIdx.x / 32] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = u.partial[0] + u.partial[1];
}
```

## Good
```cuda
// warplint: --arch sm_90a
__device__ unsigned smem(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void init(unsigned long long* b, unsigned n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(smem(b)), "r"(n) : "memory");
}
__device__ void inval(unsigned long long* b) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" :: "r"(smem(b)) : "memory");
}
__device__ void arrive(unsigned long long* b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(smem(b)) : "memory");
}
__device__ void wait(unsigned long long* b, unsigned parity) {
  asm volatile("{\n .reg .pred p;\n W_%=:\n mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n @!p bra W_%=;\n}"
               :: "r"(smem(b)), "r"(parity) : "memory");
}
__global__ void __launch_bounds__(64) sum(float* out, const float* in) {
  __shared__ union { unsigned long long done; float partial[2]; } u;
  if (threadIdx.x == 0) init(&u.done, 64);
  __syncthreads();
  arrive(&u.done);
  wait(&u.done, 0);
  __syncthreads();
  if (threadIdx.x == 0) inval(&u.done);
  __syncthreads();
  if (threadIdx.x % 32 == 0) u.partial[threadIdx.x / 32] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = u.partial[0] + u.partial[1];
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.machine import Execution
from warplint.machine.outcome import Fault
from warplint.rule import Rule
from warplint_rules._executed import established, party
from warplint_rules._say import Reporter, location

RULE = Rule(Level.WARNING, Symptom.WRONG_RESULT, executes=True, last_resort=True)
SAY = Reporter(__name__, RULE)


def check_execution(execution: Execution) -> Iterator[Finding]:
    """Accesses to the words of valid barriers, and initialisations of them; each barrier once."""
    said: set[object] = set()
    for outcome in filter(established, execution.outcomes):
        for fault in outcome.faults:
            if fault.kind in ("barrier-storage", "reinitialised") and fault.other not in said:
                said.add(fault.other)
                yield _finding(execution, fault)


def _finding(execution: Execution, fault: Fault) -> Finding:
    who = party(execution, fault.who)
    what = "used for data" if fault.kind == "barrier-storage" else "initialised again"
    message = f"The memory of `{fault.detail}` is {what} by {who} while it is still a valid mbarrier."
    return SAY.at(
        execution.roles,
        fault.span,
        message,
        threads=who,
        why="The word is an opaque object until `mbarrier.inval` has ended it: what still completes on it writes into "
        "the new contents, and the new contents are taken for its counts.",
        remedy="Let one thread execute `mbarrier.inval` after a barrier behind the last use, and put a barrier before "
        "the memory is used again; or give the barrier memory of its own.",
        related=[location(execution.roles, fault.other, "initialised here")] if fault.other is not None else [],
    )
