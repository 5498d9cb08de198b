"""A kernel waits for all blocks of its grid, and the same file launches it without a cooperative launch.

## Why
A block that spins on a grid-wide barrier keeps its multiprocessor. If the grid has more blocks than fit at once,
the blocks that have not started never arrive: the kernel hangs, on a smaller GPU or with a larger grid than the one
it was tried on. A cooperative launch refuses grids that do not fit.

## Bad
```cuda
__device__ int ld_acquire(const int* p) {
  int v;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
extern "C" __global__ void __launch_bounds__(256) step(int* count, float* x, float* y) {
  x[blockIdx.x * 256 + threadIdx.x] += 1.f;
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("red.release.gpu.global.add.s32 [%0], %1;" ::"l"(count), "r"(1) : "memory");
    while (ld_acquire(count) < (int)gridDim.x) {
    }
  }
  __syncthreads();
  y[blockIdx.x * 256 + threadIdx.x] = x[((blockIdx.x + 1) % gridDim.x) * 256 + threadIdx.x];
}
void run(int* count, float* x, float* y, int blocks) { step<<<blocks, 256>>>(count, x, y); }
```

## Good
```cuda
__device__ int ld_acquire(const int* p) {
  int v;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
extern "C" __global__ void __launch_bounds__(256) step(int* count, float* x, float* y) {
  x[blockIdx.x * 256 + threadIdx.x] += 1.f;
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("red.release.gpu.global.add.s32 [%0], %1;" ::"l"(count), "r"(1) : "memory");
    while (ld_acquire(count) < (int)gridDim.x) {
    }
  }
  __syncthreads();
  y[blockIdx.x * 256 + threadIdx.x] = x[((blockIdx.x + 1) % gridDim.x) * 256 + threadIdx.x];
}
void run(int* count, float* x, float* y, int blocks) {
  void* args[] = {&count, &x, &y};
  cudaLaunchCooperativeKernel((const void*)step, dim3(blocks), dim3(256), args, 0, 0);
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.rule import Rule
from warplint.source import Span
from warplint.threads.facts import Roles
from warplint_rules._say import Reporter, line, location, reached, spelled
from warplint_rules.grid._global import spins

RULE = Rule(Level.WARNING, Symptom.DEADLOCK)
SAY = Reporter(__name__, RULE)


def check(roles: Roles) -> Iterator[Finding]:
    """Grid-wide barriers in kernels that a launch in this file starts plainly."""
    plain = [launch for launch in roles.kernel.launches if not launch.cooperative]
    if not plain:
        return
    where: Span | None = None
    what = ""
    for event in reached(roles, "grid.sync"):
        if any(not guard.known for guard in event.guards):
            continue  # perhaps the plain launch is of an instance, or with arguments, that never comes here
        where, what = event.op.span, f"{spelled(event)} waits for all blocks of the grid"
        break
    if where is None:
        for spin in spins(roles.kernel):
            if spin.grid:
                where, what = spin.span, "This loop waits until all blocks of the grid have arrived"
                break
    if where is None:
        return
    yield SAY.at(
        roles,
        where,
        f"{what}, but the launch at line {line(roles, plain[0].span)} does not make sure that they all run at once.",
        why="Blocks that wait hold their multiprocessors; with more blocks than fit at once the rest never starts.",
        remedy="Launch with `cudaLaunchCooperativeKernel` (or the cooperative attribute), which refuses a grid that "
        "does not fit.",
        related=[location(roles, launch.span, "a plain launch") for launch in plain[:4]],
    )
