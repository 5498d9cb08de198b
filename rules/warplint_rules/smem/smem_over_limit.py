"""The shared memory of a block is larger than the architecture allows.

## Why
Static arrays above the limit do not assemble; a launch that asks for more dynamic shared memory than a block can
have fails, and unless every launch is checked the kernel silently does not run. On AMD the limit is the LDS of a
work group.

## Bad
```cuda
// warplint: --arch sm_90a
__global__ void __launch_bounds__(128) stage(float* out, const float* in) {
  __shared__ float tile[60000];
  for (int i = threadIdx.x; i < 60000; i += 128) tile[i] = in[i];
  __syncthreads();
  for (int i = threadIdx.x; i < 60000; i += 128) out[i] = tile[59999 - i];
}
```

## Good
```cuda
// warplint: --arch sm_90a
__global__ void __launch_bounds__(128) stage(float* out, const float* in) {
  __shared__ float tile[12000];
  for (int i = threadIdx.x; i < 12000; i += 128) tile[i] = in[i];
  __syncthreads();
  for (int i = threadIdx.x; i < 12000; i += 128) out[i] = tile[11999 - i];
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.rule import Rule
from warplint.threads.facts import Roles
from warplint_rules._say import Reporter, location
from warplint_rules._smem import per_block_limit, static_bytes, static_limit

RULE = Rule(Level.ERROR, Symptom.CRASH)
SAY = Reporter(__name__, RULE)


def check(roles: Roles) -> Iterator[Finding]:
    """The static sum against the compiler's limit, then everything together against the hardware's."""
    total, symbols = static_bytes(roles)
    most = static_limit(roles)
    if most is None:
        return
    limit, whose = most
    noun = "LDS" if roles.kernel.is_amd else "shared memory"
    places = [
        location(roles, symbol.span, f"`{symbol.name}`: {symbol.bytes} bytes")
        for symbol in sorted(symbols, key=lambda symbol: -(symbol.bytes or 0))
        if symbol.span.end > symbol.span.start
    ]
    if total > limit:
        largest = max(symbols, key=lambda symbol: symbol.bytes or 0)
        yield SAY.at(
            roles,
            largest.span if largest.span.end > largest.span.start else roles.kernel.span,
            f"`{roles.kernel.name}` declares {total} bytes of static {noun}; the limit for {whose} is {limit}.",
            why="The kernel does not assemble for that target.",
            remedy="Make the arrays smaller, or take dynamic shared memory and raise the launch limit where the "
            "architecture allows it.",
            related=places[1:],
        )
        return
    smem = roles.launch.smem
    limit, whose = per_block_limit(roles) or most
    if smem is not None and smem.value[0] + total > limit:
        also = f" beside {total} static bytes" if total else ""
        yield SAY.at(
            roles,
            roles.kernel.span,
            f"`{roles.kernel.name}` needs {smem.value[0]} bytes of dynamic {noun}{also} ({smem.origin}); a block on "
            f"{whose} can have {limit}.",
            why="The launch fails, and without a check of its status the kernel silently does not run.",
            remedy="Use fewer stages or smaller tiles.",
            related=[
                *(location(roles, launch.span, "launched here") for launch in roles.kernel.launches),
                *places,
            ],
        )
