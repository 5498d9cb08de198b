r"""The copy pipeline has one slot, so that copying and computing take turns.

## Why
A producer that waits for its only slot to be released before each copy never has a copy in flight while the consumer
works: the memory latency is paid in every iteration. Two slots already let the next tile arrive during the computation.

## Bad
```cuda
__device__ void bulk_load(unsigned dst, const void* src, unsigned bytes, unsigned bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               ::"r"(dst), "l"(src), "r"(bytes), "r"(bar) : "memory");
}
__device__ void expect(unsigned bar, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
__device__ void arrive(unsigned bar) { asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(bar) : "memory"); }
__device__ void init(unsigned bar, unsigned n) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(bar), "r"(n));
}
__device__ void wait(unsigned bar, unsigned parity) {
  asm volatile("{\n .reg .pred p;\n W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n @!p bra W;\n}"
               ::"r"(bar), "r"(parity) : "memory");
}
extern "C" __global__ void __launch_bounds__(160) stream(float* out, const float* in) {
  __shared__ alignas(128) float tile[128];
  __shared__ unsigned long long bars[2];
  unsigned full = (unsigned)__cvta_generic_to_shared(&bars[0]), empty = (unsigned)__cvta_generic_to_shared(&bars[1]);
  if (threadIdx.x == 0) {
    init(full, 1);
    init(empty, 128);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x == 128) {
    for (int k = 0; k < 16; ++k) {
      wait(empty, (k & 1) ^ 1);
      expect(full, 512);
      bulk_load((unsigned)__cvta_generic_to_shared(tile), in + k * 128, 512, full);
    }
  } else if (threadIdx.x < 128) {
    for (int k = 0; k < 16; ++k) {
      wait(full, k & 1);
      out[k * 128 + threadIdx.x] = tile[threadIdx.x];
      arrive(empty);
    }
  }
}
```

## Good
```cuda
__device__ void bulk_load(unsigned dst, const void* src, unsigned bytes, unsigned bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               ::"r"(dst), "l"(src), "r"(bytes), "r"(bar) : "memory");
}
__device__ void expect(unsigned bar, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
__device__ void arrive(unsigned bar) { asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(bar) : "memory"); }
__device__ void init(unsigned bar, unsigned n) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(bar), "r"(n));
}
__device__ void wait(unsigned bar, unsigned parity) {
  asm volatile("{\n .reg .pred p;\n W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n @!p bra W;\n}"
               ::"r"(bar), "r"(parity) : "memory");
}
extern "C" __global__ void __launch_bounds__(160) stream(float* out, const float* in) {
  __shared__ alignas(128) float tile[2][128];
  __shared__ unsigned long long bars[4];
  unsigned base = (unsigned)__cvta_generic_to_shared(bars);
  if (threadIdx.x == 0) {
    for (int s = 0; s < 2; ++s) {
      init(base + s * 8, 1);
      init(base + 16 + s * 8, 128);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x == 128) {
    for (int k = 0; k < 16; ++k) {
      wait(base + 16 + (k % 2) * 8, ((k / 2) & 1) ^ 1);
      expect(base + (k % 2) * 8, 512);
      bulk_load((unsigned)__cvta_generic_to_shared(tile[k % 2]), in + k * 128, 512, base + (k % 2) * 8);
    }
  } else if (threadIdx.x < 128) {
    for (int k = 0; k < 16; ++k) {
      wait(base + (k % 2) * 8, (k / 2) & 1);
      out[k * 128 + threadIdx.x] = tile[k % 2][threadIdx.x];
      arrive(base + 16 + (k % 2) * 8);
    }
  }
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.rule import Rule
from warplint.threads.facts import Event, Known, Pointer, Roles
from warplint_rules._say import Reporter, line, location, reached, spelled, who

RULE = Rule(Level.NOTE, Symptom.SLOW, guide=True)
SAY = Reporter(__name__, RULE)

_LOADS = ("cp.async.bulk.tensor.load", "cp.async.bulk.g2s")
_WAITS = ("mbarrier.try_wait", "mbarrier.test_wait")

_Word = tuple[int, int]
"""A barrier word: its variable (by identity) and its byte offset."""


def check(roles: Roles) -> Iterator[Finding]:
    """Kernels in which all loads of a loop complete on one word, which its issuer waits to be free again every time."""
    loads: dict[int, list[Event]] = {}
    for event in reached(roles, *_LOADS):
        if event.loops:
            loads.setdefault(id(event.loops[-1].stmt), []).append(event)
    if not loads:
        return
    words = {loop: {_word(event) for event in events} for loop, events in loads.items()}
    if any(None in found or len(found) > 1 for found in words.values()):
        return  # some loop has several slots, or it is not known how many
    waits = list(reached(roles, *_WAITS))
    for loop, events in loads.items():
        (full,) = words[loop]
        load = events[0]
        turn = _turn(loop, load, full, waits)
        other = next((wait for wait in waits if _word(wait) == full and wait.loops and wait.op is not load.op), None)
        if turn is None or other is None or load.loops[-1].trips in (0, 1):
            continue
        yield SAY.at(
            roles,
            turn,
            f"{spelled(load)} at line {line(roles, load.op.span)} has one slot: its issuer waits here in every "
            "iteration until the consumer has released it.",
            why="No copy is in flight while the consumer works, so each iteration pays the whole memory latency.",
            remedy="Use two or more slots (a stage index into tiles and barriers), so that the next copy runs during "
            "the computation.",
            related=[
                location(roles, load.op.span, "the copy"),
                location(roles, other.op.span, f"{who(roles, other.reach)} wait for it"),
            ],
        )


def _turn(loop: int, load: Event, full: _Word | None, waits: list[Event]) -> Event | None:
    """The wait of the issuing threads on another word inside the loop of the copy."""
    for wait in waits:
        inside = any(id(fact.stmt) == loop for fact in wait.loops)
        if inside and wait.reach.threads & load.reach.threads and _word(wait) not in (None, full):
            return wait
    return None


def _word(event: Event) -> _Word | None:
    """The word that the barrier operand names, None when it is not one known word."""
    barrier = event.values.get("barrier")
    if not isinstance(barrier, Pointer) or not isinstance(barrier.offset, Known):
        return None
    constant = barrier.offset.constant
    return None if constant is None else (id(barrier.symbol), constant)
