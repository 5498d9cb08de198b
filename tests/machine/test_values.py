"""Values that pass through shared memory: all readers see what was stored, if it is ordered before they read.

Each program stands beside one with a fault, so that no value that a race could change makes a broken kernel clean.
"""

from __future__ import annotations

import pytest

from warplint.machine import Execution, execute
from warplint.machine import values as v
from warplint.machine.memory import Order
from warplint.program import Options, ir, lower
from warplint.source import SourceFile
from warplint.syntax import parse
from warplint.threads import analyze

HEAD = """
#include <cuda_runtime.h>
#include <stdint.h>
static __device__ __forceinline__ uint32_t u32(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
static __device__ __forceinline__ void init(uint64_t* b, int n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(u32(b)), "r"(n) : "memory"); }
static __device__ __forceinline__ void arrive(uint64_t* b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(u32(b)) : "memory"); }
static __device__ __forceinline__ void wait(uint64_t* b, uint32_t ph) {
  asm volatile("{\\n.reg .pred P1;\\nLAB:\\nmbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\\n@P1 bra DONE;\\n"
               "bra LAB;\\nDONE:\\n}" :: "r"(u32(b)), "r"(ph) : "memory"); }
static __device__ __forceinline__ void st4(uint32_t p, int a, int b, int c, int d) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" :: "r"(p), "r"(a), "r"(b), "r"(c), "r"(d) : "memory"); }
static __device__ __forceinline__ void ld4(int& a, int& b, int& c, int& d, uint32_t p) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(p) : "memory"); }
"""


def executed(body: str, *, threads: int = 64, parameters: str = "int* counter, const int* table, int tiles, int n",
             shared: str = "") -> Execution:  # fmt: skip
    text = f'{HEAD}extern "C" __global__ void __launch_bounds__({threads}) k({parameters}) {{\n{shared}\n{body}\n}}\n'
    source = SourceFile("k.cu", text.encode())
    (kernel,) = lower(parse(source), source, Options(arch="sm_100a")).kernels
    return execute(analyze(kernel)[0])


def blocked(execution: Execution) -> list[str]:
    return [one.what for outcome in execution.outcomes for one in outcome.blocked]


def orders(execution: Execution) -> set[Order]:
    return {hazard.order for outcome in execution.outcomes for hazard in outcome.hazards}


SCHEDULER = """
  int warp = threadIdx.x / 32;
  if (threadIdx.x == 0) { init(&full, 1); init(&empty, 32); }
  __syncthreads();
  uint32_t ph = 0;
  if (warp == 0) {
    if (threadIdx.x == 0) {
      while (true) {
        wait(&empty, ph ^ 1);
        int t = atomicAdd(counter, 1);
        tile = t < tiles ? t : -1;
        arrive(&full);
        ph ^= 1;
        if (t >= tiles) break;
      }
    }
  } else {
    while (true) {
      wait(&full, ph);
      int t = tile;
      LATE arrive(&empty);
      ph ^= 1;
      if (t < 0) break;
    }
  }
"""
SHARED = "  __shared__ uint64_t full, empty; __shared__ int tile;"


def test_a_tile_that_one_warp_draws_is_the_same_for_those_who_read_it() -> None:
    execution = executed(SCHEDULER.replace("LATE", ""), shared=SHARED)
    assert not blocked(execution)
    assert Order.UNJOINED not in orders(execution)
    rounds = max(len(record.phases) for outcome in execution.outcomes for record in outcome.barriers.values())
    assert rounds >= 4, "several tiles and the end"


def test_a_reader_that_releases_before_it_reads_races_with_the_next_tile() -> None:
    early = SCHEDULER.replace("int t = tile;\n      LATE arrive(&empty);", "arrive(&empty);\n      int t = tile;")
    assert early != SCHEDULER
    assert Order.UNJOINED in orders(executed(early, shared=SHARED))


def test_an_end_that_is_not_published_leaves_the_readers_waiting() -> None:
    lost = SCHEDULER.replace("LATE", "").replace("if (t >= tiles) break;", "").replace(
        "int t = atomicAdd(counter, 1);", "int t = atomicAdd(counter, 1); if (t >= tiles) break;"
    )  # fmt: skip
    assert "mbarrier" in blocked(executed(lost, shared=SHARED))


RING = """
  int warp = threadIdx.x / 32;
  if (threadIdx.x == 0) for (int i = 0; i < 2; ++i) { init(&full[i], 1); init(&empty[i], 32); }
  __syncthreads();
  int s = 0; uint32_t ph = 0;
  if (warp == 0) {
    if (threadIdx.x == 0) {
      for (int t = 0; t < 5; ++t) {
        wait(&empty[s], ph ^ 1);
        st4(u32(&info[s * 4]), t, t < END, 7, 0);
        arrive(&full[s]);
        if (++s == 2) { s = 0; ph ^= 1; }
      }
    }
  } else {
    int a, valid = 1, c, d;
    while (valid) {
      wait(&full[s], ph);
      ld4(a, valid, c, d, u32(&info[s * 4]));
      arrive(&empty[s]);
      if (++s == 2) { s = 0; ph ^= 1; }
    }
  }
"""
INFO = "  __shared__ uint64_t full[2], empty[2]; __shared__ alignas(16) int info[8];"


def test_elements_of_vector_stores_and_loads_are_told_apart() -> None:
    execution = executed(RING.replace("END", "4"), shared=INFO)
    assert not blocked(execution)
    assert all(not outcome.asked and not outcome.incomplete for outcome in execution.outcomes)


def test_readers_that_end_a_round_late_wait_for_ever() -> None:
    assert "mbarrier" in blocked(executed(RING.replace("END", "5"), shared=INFO))


def test_what_another_kind_of_write_leaves_is_not_known() -> None:
    body = """
      if (threadIdx.x == 0) flag = 3;
      __syncthreads();
      if (threadIdx.x == 1) atomicAdd(&flag, 1);
      __syncthreads();
      if (flag == 3) asm volatile("bar.sync 1, 32;");
    """
    kept = executed(body.replace("if (threadIdx.x == 1) atomicAdd(&flag, 1);", ""), shared="  __shared__ int flag;")
    assert not any(outcome.asked for outcome in kept.outcomes)
    assert any(outcome.asked for outcome in executed(body, shared="  __shared__ int flag;").outcomes)


def test_threads_that_store_different_values_in_one_word_leave_no_known_value() -> None:
    body = "  flag = threadIdx.x;\n  __syncthreads();\n  if (flag == 63) __syncthreads();"
    assert any(outcome.asked for outcome in executed(body, shared="  __shared__ int flag;").outcomes)
    body = body.replace("threadIdx.x;", "63;")
    assert not any(outcome.asked for outcome in executed(body, shared="  __shared__ int flag;").outcomes)


def test_each_thread_reads_its_own_word_without_a_barrier() -> None:
    body = '  s[threadIdx.x] = threadIdx.x / 32;\n  if (s[threadIdx.x]) asm volatile("bar.sync 1, 32;");'
    execution = executed(body, shared="  __shared__ int s[64];")
    assert not blocked(execution) and not any(outcome.guesses for outcome in execution.outcomes)


# ------------------------------------------------------------------------------------------------ addresses
POOL = ir.Symbol("pool", "dynamic_shared", "u8", dims=(None,), element_bytes=1, alignment=1024)


@pytest.mark.parametrize("offset", [0, 16, 4096 + 128, 1008])
def test_a_swizzle_of_an_aligned_address_is_a_swizzle_of_its_offset(offset: int) -> None:
    place = v.Place(POOL, offset)
    row = v.binary("&", v.binary(">>", place, 3), 112)
    assert row == offset >> 3 & 112
    assert v.binary("^", place, row) == v.Place(POOL, offset ^ (offset >> 3 & 112))


def test_bits_above_the_alignment_are_not_known() -> None:
    loose = v.Place(ir.Symbol("pool", "dynamic_shared", "u8", dims=(None,), element_bytes=1, alignment=16), 128)
    assert isinstance(v.binary("^", loose, 64), v.Unknown)
    assert isinstance(v.binary("&", v.binary(">>", v.Place(POOL, 0), 4), 0x3FFF), v.Packed), "a descriptor's field"
