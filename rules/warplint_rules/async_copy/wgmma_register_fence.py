r"""The first `wgmma` uses registers with no `wgmma.fence` before it

## Why
`wgmma` reads and writes the accumulators (and A, where it lies in registers) asynchronously. `wgmma.fence` orders the
accesses that the program made to these registers before it (PTX ISA 9.7.15.7.1). Without it the compiler puts one
there itself, and says in a warning that the pipeline of `wgmma` is serialised around it: the code is right, and slow.

## Bad
```cuda
__device__ unsigned long long descriptor(const void* p) {
  return 0x4000000000000000ull | ((unsigned)__cvta_generic_to_shared(p) & 0x3ffff) >> 4;
}
__device__ void multiply(float (&d)[4], unsigned long long a, unsigned long long b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b));
}
extern "C" __global__ void __launch_bounds__(128) product(float* out, const uint4* in) {
  __shared__ alignas(128) uint4 a[128];
  __shared__ alignas(128) uint4 b[16];
  float d[4] = {0.f, 0.f, 0.f, 0.f};
  a[threadIdx.x] = in[threadIdx.x];
  if (threadIdx.x < 16) b[threadIdx.x] = in[128 + threadIdx.x];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  multiply(d, descriptor(a), descriptor(b));
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  out[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
}
```

## Good
```cuda
__device__ unsigned long long descriptor(const void* p) {
  return 0x4000000000000000ull | ((unsigned)__cvta_generic_to_shared(p) & 0x3ffff) >> 4;
}
__device__ void multiply(float (&d)[4], unsigned long long a, unsigned long long b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b));
}
extern "C" __global__ void __launch_bounds__(128) product(float* out, const uint4* in) {
  __shared__ alignas(128) uint4 a[128];
  __shared__ alignas(128) uint4 b[16];
  float d[4] = {0.f, 0.f, 0.f, 0.f};
  a[threadIdx.x] = in[threadIdx.x];
  if (threadIdx.x < 16) b[threadIdx.x] = in[128 + threadIdx.x];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  multiply(d, descriptor(a), descriptor(b));
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  out[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.rule import Rule
from warplint.threads.facts import Event, Roles
from warplint_rules._say import Reporter, location, reached, sites, who

RULE = Rule(Level.NOTE, Symptom.SLOW)
SAY = Reporter(__name__, RULE)


def check(roles: Roles) -> Iterator[Finding]:
    """The first wgmma of each group of threads, where no fence stands before it on any path; one finding a kernel.

    A fence that some threads may have executed before counts: the rule is about fences that are not there at all.
    Operations that a library makes of several (a whole GEMM of a tile) fence by themselves.
    """
    fences = list(reached(roles, "wgmma.fence"))
    bare = [
        mma
        for mma in sites(reached(roles, "wgmma.mma_async"))
        if not mma.op.by_name and not any(_comes_before(fence, mma) for fence in fences)
    ]
    if not bare:
        return
    first = min(bare, key=lambda mma: mma.order)
    yield SAY.at(
        roles,
        first,
        f"No `wgmma.fence` stands before this `wgmma`, the first of {who(roles, first.reach)}.",
        why="Its registers were written before: the compiler has to insert the fence, and serialises the `wgmma` "
        "around it.",
        remedy="Execute `wgmma.fence.sync.aligned` before the first `wgmma` of each sequence.",
        related=[location(roles, mma.op.span, "the same here") for mma in bare if mma is not first][:4],
    )


def _comes_before(fence: Event, mma: Event) -> bool:
    """Some thread that executes the wgmma may have executed the fence: earlier in the text, or in the same loop."""
    looped = bool({id(loop) for loop in fence.loops} & {id(loop) for loop in mma.loops})
    return bool(fence.reach.threads & mma.reach.threads) and (fence.order < mma.order or looped)
