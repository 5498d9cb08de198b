"""Waves and wait counters of AMD, on kernels as text: a program that shows a fact and its twin that does not."""

from __future__ import annotations

import pytest

from warplint.machine import Execution, execute
from warplint.machine.memory import Order
from warplint.machine.outcome import Outcome
from warplint.program import Options, lower
from warplint.source import SourceFile
from warplint.syntax import parse
from warplint.threads import analyze

HEAD = """#include <hip/hip_runtime.h>
extern "C" __global__ void __launch_bounds__(%d) k(float* out, const float* in) {
"""
FILL = "__builtin_amdgcn_global_load_lds(in + threadIdx.x, &a[%s][threadIdx.x & ~63], 4, 0, 0);\n"


def executed(body: str, arch: str = "gfx942", threads: int = 256) -> Execution:
    text = HEAD % threads + body + "\n}\n"
    source = SourceFile("k.hip", text.encode())
    kernel = lower(parse(source), source, Options(arch=arch)).kernels[0]
    return execute(analyze(kernel)[0])


def run(body: str, arch: str = "gfx942", threads: int = 256) -> Outcome:
    outcome = executed(body, arch, threads).outcomes[0]
    assert outcome.incomplete == []
    return outcome


def orders(body: str, arch: str = "gfx942", threads: int = 256) -> set[Order]:
    return {hazard.order for hazard in run(body, arch, threads).hazards}


MIRROR = "__shared__ float s[256]; s[threadIdx.x] = in[threadIdx.x];\n%s\nout[threadIdx.x] = s[255 - threadIdx.x];"


@pytest.mark.parametrize(
    ("arch", "between", "found"),
    [
        ("gfx942", "", {Order.UNJOINED}),
        ("gfx942", "__syncthreads();", set()),
        ("gfx942", "__builtin_amdgcn_s_barrier();", {Order.INCOMPLETE}),
        ("gfx942", "__builtin_amdgcn_s_waitcnt(0xc07f);", {Order.UNJOINED}),
        ("gfx942", "__builtin_amdgcn_s_waitcnt(0xc07f); __builtin_amdgcn_s_barrier();", set()),
        ("gfx942", "__builtin_amdgcn_s_waitcnt(0); __builtin_amdgcn_s_barrier();", set()),
        ("gfx942", "__builtin_amdgcn_s_barrier(); __builtin_amdgcn_s_waitcnt(0xc07f);", {Order.INCOMPLETE}),
        ("gfx942", "__builtin_amdgcn_s_waitcnt(0x0f70); __builtin_amdgcn_s_barrier();", {Order.INCOMPLETE}),
        ("gfx1030", "__builtin_amdgcn_s_waitcnt(0xc07f); __builtin_amdgcn_s_barrier();", set()),
        ("gfx1030", "__builtin_amdgcn_s_waitcnt(0xff7f); __builtin_amdgcn_s_barrier();", {Order.INCOMPLETE}),
        ("gfx1100", "__builtin_amdgcn_s_waitcnt(0xfc07); __builtin_amdgcn_s_barrier();", set()),
        ("gfx1100", "__builtin_amdgcn_s_waitcnt(0x03f7); __builtin_amdgcn_s_barrier();", {Order.INCOMPLETE}),
        ("gfx1201", 'asm volatile("s_wait_dscnt 0"); __builtin_amdgcn_s_barrier();', set()),
        ("gfx1201", 'asm volatile("s_wait_loadcnt_dscnt 0x3f00"); __builtin_amdgcn_s_barrier();', set()),
        ("gfx1201", 'asm volatile("s_wait_loadcnt 0"); __builtin_amdgcn_s_barrier();', {Order.INCOMPLETE}),
        ("gfx942", '__builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); __builtin_amdgcn_s_barrier();', set()),
        (
            "gfx942",
            '__builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "global"); __builtin_amdgcn_s_barrier();',
            {Order.INCOMPLETE},
        ),
        (
            "gfx942",
            '__builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "local"); __builtin_amdgcn_s_barrier();',
            set(),
        ),
        ("gfx942", "__builtin_amdgcn_wave_barrier(); __builtin_amdgcn_sched_barrier(0);", {Order.UNJOINED}),
    ],
)
def test_what_hands_a_store_over(arch: str, between: str, found: set[Order]) -> None:
    assert orders(MIRROR % between, arch) == found


def test_a_wait_is_of_the_waves_that_execute_it() -> None:
    half = "if (threadIdx.x < 128) __builtin_amdgcn_s_waitcnt(0xc07f); __builtin_amdgcn_s_barrier();"
    assert orders(MIRROR % half) == {Order.INCOMPLETE}


@pytest.mark.parametrize("lanes", ["threadIdx.x & 1", "threadIdx.x & 63"])
def test_any_lane_waits_for_its_wave(lanes: str) -> None:
    one = f"if (({lanes}) == 0) {{ __builtin_amdgcn_s_waitcnt(0xc07f); }} __builtin_amdgcn_s_barrier();"
    assert orders(MIRROR % one) == set()


def test_counted_waits_are_in_order() -> None:
    """vmcnt(1) with two copies under way: the first is over, the second is not."""

    def program(read: str, count: int) -> str:
        wait = f'asm volatile("s_waitcnt vmcnt({count})"); __builtin_amdgcn_s_barrier();\n'
        fills = FILL % "0" + FILL % "1"
        return f"__shared__ float a[2][256];\n{fills}{wait}out[threadIdx.x] = a[{read}][255 - threadIdx.x];"

    assert orders(program("0", 1)) == set()
    assert orders(program("1", 1)) == {Order.INCOMPLETE}
    assert orders(program("0", 2)) == {Order.INCOMPLETE}
    assert orders(program("1", 0)) == set()


def test_loads_and_stores_of_global_memory_are_counted_too() -> None:
    def program(between: str, arch: str = "gfx942") -> set[Order]:
        fill = "__shared__ float a[1][256];\n" + FILL % "0"
        wait = 'asm volatile("s_waitcnt vmcnt(1)"); __builtin_amdgcn_s_barrier();\n'
        return orders(f"{fill}{between}\n{wait}out[threadIdx.x] = a[0][255 - threadIdx.x];", arch)

    assert program("") == {Order.INCOMPLETE}
    assert program("float x = in[512 + threadIdx.x]; out[threadIdx.x + 256] = x;") == set()
    assert program("out[threadIdx.x + 256] = 1.f;") == set()


def test_a_value_in_use_is_there() -> None:
    """Using what was read from LDS last waits for all LDS operations before."""
    body = """__shared__ float s[256], t[256];
    t[threadIdx.x] = 1.f; __syncthreads();
    s[threadIdx.x] = in[threadIdx.x];
    float v = t[threadIdx.x ^ 1];
    %s
    __builtin_amdgcn_s_barrier();
    out[threadIdx.x] = v + s[255 - threadIdx.x];"""
    assert orders(body % "") == {Order.INCOMPLETE}
    assert orders(body % "out[threadIdx.x + 256] = v * 2.f;") == set()


def test_each_execution_by_a_wave_is_one_arrival() -> None:
    """Both arms of a divided wave arrive: the waves are one generation apart afterwards, or not at all."""
    both = """__shared__ float s[256]; s[threadIdx.x] = in[threadIdx.x];
    asm volatile("s_waitcnt lgkmcnt(0)");
    if (%s) __builtin_amdgcn_s_barrier(); else __builtin_amdgcn_s_barrier();
    out[threadIdx.x] = s[255 - threadIdx.x];"""
    by_wave, by_lane = run(both % "threadIdx.x < 128"), run(both % "(threadIdx.x & 63) < 32")
    assert not by_wave.blocked and not by_wave.hazards
    assert not by_lane.blocked and not by_lane.hazards
    some = run(both % "threadIdx.x < 16")  # wave 0 arrives twice, the others once and end
    assert not some.blocked
    generations = {step.text for step in some.steps if step.text.startswith("workgroup barrier")}
    assert generations == {"workgroup barrier, generation 0", "workgroup barrier, generation 1"}


def test_waves_that_have_ended_do_not_count() -> None:
    outcome = run("if (threadIdx.x >= 64) return;\n__builtin_amdgcn_s_barrier(); out[threadIdx.x] = 1.f;")
    assert not outcome.blocked


def test_stagger_is_legal_and_shifts_the_phases() -> None:
    """Half of the waves one barrier behind: the same buffer is shared safely only where both sides agree on it."""
    body = """__shared__ float s[256];
    if (threadIdx.x >= 128) __builtin_amdgcn_s_barrier();
    for (int i = 0; i < 4; ++i) {
      s[threadIdx.x] = in[i * 256 + threadIdx.x];
      asm volatile("s_waitcnt lgkmcnt(0)");
      __builtin_amdgcn_s_barrier();
      float v = s[%s];
      out[i * 256 + threadIdx.x] = v;
      __builtin_amdgcn_s_barrier();
    }
    if (threadIdx.x < 128) __builtin_amdgcn_s_barrier();"""
    own, other = run(body % "threadIdx.x ^ 64"), run(body % "threadIdx.x ^ 128")
    assert not own.blocked and not own.hazards
    assert not other.blocked and {hazard.order for hazard in other.hazards} == {Order.UNJOINED}


def test_lanes_meet_again_where_their_paths_meet() -> None:
    """A lane-divided branch that blocks holds its whole wave: nobody runs ahead to the next barrier."""
    body = """__shared__ float s[256]; s[threadIdx.x] = 0.f; __syncthreads();
    if ((threadIdx.x & 63) == 0) { __builtin_amdgcn_s_barrier(); }
    s[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = s[255 - threadIdx.x];"""
    outcome = run(body)
    assert not outcome.blocked and not outcome.hazards


@pytest.mark.parametrize(("arch", "threads"), [("gfx942", 0), ("gfx1100", 1)])
def test_lanes_of_a_wave_are_in_step(arch: str, threads: int) -> None:
    body = "__shared__ float s[256]; s[threadIdx.x] = in[threadIdx.x]; out[threadIdx.x] = s[threadIdx.x ^ 63];"
    assert len(run(body, arch).hazards) == threads


def test_signal_and_wait_of_gfx12() -> None:
    body = MIRROR % "__builtin_amdgcn_s_wait_dscnt(0); %s"
    signal, wait = "__builtin_amdgcn_s_barrier_signal(-1);", "__builtin_amdgcn_s_barrier_wait(-1);"
    assert orders(body % (signal + wait), "gfx1201") == set()
    assert orders(body % signal, "gfx1201") == {Order.UNJOINED}
    twice = run(body % (signal + signal + wait), "gfx1201", 32)
    assert not twice.faults  # one wave: its first signal completes the generation
    torn = f"if (threadIdx.x < 32) {{ {signal} }} {signal} {wait}"
    assert {fault.kind for fault in run(body % torn, "gfx1201", 64).faults} == {"wave-signalled-twice"}
    lone = run(body % wait, "gfx1201")
    assert {fault.kind for fault in lone.faults} == {"wait-without-signal"} and lone.blocked


def test_a_direct_load_lands_side_by_side() -> None:
    """Lane i of a wave lands 4 * i bytes behind the base, which is that of the wave's first lane."""
    body = """__shared__ float a[128];
    if (threadIdx.x >= 64 && threadIdx.x < 128) __builtin_amdgcn_global_load_lds(in, a + %s, 4, 0, 0);
    if (threadIdx.x == 0) out[0] = a[%d];"""
    for base in ("0", "(threadIdx.x & 63)"):
        assert orders(body % (base, 63)) == {Order.UNJOINED}
        assert orders(body % (base, 64)) == set()


def test_assembly_is_not_waited_for_by_the_compiler() -> None:
    base = "__builtin_amdgcn_readfirstlane((unsigned)(unsigned long long)&a[threadIdx.x & ~63])"
    text = '"s_mov_b32 m0, %0\\n\\tbuffer_load_dword %1, %2, 0 offen lds"'
    fill = f'unsigned base = {base}; asm volatile({text} :: "s"(base), "v"(threadIdx.x * 4), "s"(in) : "memory");'
    read = "out[threadIdx.x] = a[63 - threadIdx.x];"
    wait = 'asm volatile("s_waitcnt vmcnt(0)" ::: "memory");'
    assert orders(f"__shared__ float a[64];\n{fill}\n{read}", threads=64) == {Order.INCOMPLETE}
    assert orders(f"__shared__ float a[64];\n{fill}\n{wait}\n{read}", threads=64) == set()
    built_in = "__builtin_amdgcn_global_load_lds(in + threadIdx.x, a, 4, 0, 0);"
    assert orders(f"__shared__ float a[64];\n{built_in}\n{read}", threads=64) == set()


def test_an_unknown_packed_wait_is_said() -> None:
    text = MIRROR % "__builtin_amdgcn_s_waitcnt(0xc07f); __builtin_amdgcn_s_barrier();"
    assert any("--arch" in reason for reason, _ in executed(text, "").outcomes[0].incomplete)
    assert any("packed" in reason for reason, _ in executed(text, "gfx1201").outcomes[0].incomplete)


def test_a_reduction_over_several_waves_meets_and_uses_its_buffer() -> None:
    """TileLang's AllReduce: 256 threads are two rounds over the buffer (waves of 64), 64 threads are shuffles only."""
    body = """__shared__ float w[256];
    float v = tl::AllReduce<tl::SumOp, %d, 1, 0>::run(in[threadIdx.x], (&(w[0])));
    %s
    w[threadIdx.x ^ 128] = v;"""
    wide = run(body % (256, ""))
    assert {hazard.order for hazard in wide.hazards} == {Order.UNJOINED} and not wide.blocked
    assert sum(step.text.startswith("workgroup barrier") for step in wide.steps) == 4
    assert not run(body % (256, "__syncthreads();")).hazards
    narrow = run(body % (64, ""))
    assert not narrow.hazards and not narrow.steps
    half = "out[0] = tl::AllReduce<tl::SumOp, 128, 1, 0>::run(1.f, &w[0]);"
    some = run(f"__shared__ float w[256]; if (threadIdx.x < 128) {{ {half} }} else __syncthreads();")
    assert not some.blocked  # the other waves come once and end


def test_tilelang_copies_of_eight_bytes_and_more_are_stores() -> None:
    body = """__shared__ float4 w[256];
    tl::cp_async_gs<16>((&(w[threadIdx.x])), in + threadIdx.x * 4); tl::cp_async_commit();
    %s
    out[threadIdx.x] = w[255 - threadIdx.x].x;"""
    assert orders(body % "__syncthreads();") == set()
    assert orders(body % "tl::cp_async_wait<0>();") == {Order.UNJOINED}
    direct = """__shared__ float w[256];
    tl::cp_async_gs<4>((&(w[threadIdx.x])), in + threadIdx.x); tl::cp_async_commit();
    %s
    out[threadIdx.x] = w[255 - threadIdx.x];"""
    assert orders(direct % "tl::cp_async_wait<0>(); __syncthreads();") == set()
    assert orders(direct % "tl::cp_async_wait<1>(); __syncthreads();") == {Order.INCOMPLETE}
    assert orders(direct % "__syncthreads();") == {Order.INCOMPLETE}  # assembly: no compiler waits for it


def test_asyncmark_groups() -> None:
    """The wait leaves the latest groups; copies that no mark has closed are in none."""

    def program(read: str, allowed: int, mark: str = "__builtin_amdgcn_asyncmark();") -> str:
        fills = FILL % "0" + "__builtin_amdgcn_asyncmark();" + FILL % "1" + mark
        wait = f"__builtin_amdgcn_wait_asyncmark({allowed}); __builtin_amdgcn_s_barrier();\n"
        return f"__shared__ float a[2][256];\n{fills}{wait}out[threadIdx.x] = a[{read}][255 - threadIdx.x];"

    assert orders(program("0", 1)) == set()
    assert orders(program("1", 1)) == {Order.INCOMPLETE}
    assert orders(program("1", 0)) == set()
    assert orders(program("1", 0, "")) == {Order.INCOMPLETE}


TDM = """typedef unsigned u4 __attribute__((ext_vector_type(4))); typedef int i8 __attribute__((ext_vector_type(8)));
__shared__ float s[2][1024]; u4 g0; i8 g1 = {}; u4 g2 = {}; i8 g4 = {}; float sum = 0;
g0[0] = 1; g1[0] = 2 << 16; g1[3] = 32 << 16; g1[4] = 32;
for (int t = 0; t < 4; ++t) {
  if (__builtin_amdgcn_readfirstlane(threadIdx.x / 32) == 0) {
    g0[1] = (unsigned)(unsigned long long)&s[%s][0];
    __builtin_amdgcn_tensor_load_to_lds(g0, g1, g2, g2, g4, 0);
    %s
  }
  __builtin_amdgcn_s_barrier_signal(-1); __builtin_amdgcn_s_barrier_wait(-1);
  sum += s[t & 1][%s];
}
out[threadIdx.x] = sum;"""
WAITED = "__builtin_amdgcn_s_wait_tensorcnt(0);"


@pytest.mark.parametrize(
    ("buffer", "wait", "read", "found"),
    [
        ("t & 1", WAITED, "threadIdx.x + 768", set()),
        ("t & 1", "", "threadIdx.x + 768", {Order.INCOMPLETE}),
        ("t & 1", "__builtin_amdgcn_s_wait_asynccnt(0);", "threadIdx.x", {Order.INCOMPLETE}),
        ("0", WAITED, "0", {Order.UNJOINED}),
    ],
)
def test_tensor_copies_land_where_their_descriptor_says(buffer: str, wait: str, read: str, found: set[Order]) -> None:
    assert orders(TDM % (buffer, wait, read), "gfx1250") == found


CLUSTER = """#include <hip/hip_runtime.h>
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128) k(float* out) {
  const int wave = __builtin_amdgcn_readfirstlane(threadIdx.x / 32);
  %s
  out[blockIdx.x * 128 + threadIdx.x] = wave;
}
"""


@pytest.mark.parametrize(
    ("body", "blocked"),
    [
        ("if (wave == 0) __builtin_amdgcn_s_barrier_signal(-3); __builtin_amdgcn_s_barrier_wait(-3);", False),
        (
            "if (wave == 0 && blockIdx.x == 0) __builtin_amdgcn_s_barrier_signal(-3);"
            "__builtin_amdgcn_s_barrier_wait(-3);",
            True,
        ),
        (
            "for (int i = 0; i < 3; ++i) { if (wave == 1) __builtin_amdgcn_s_barrier_signal(-3);"
            "__builtin_amdgcn_s_barrier_wait(-3); }",
            False,
        ),
        ("__builtin_amdgcn_s_barrier_wait(-3);", True),
    ],
)
def test_the_barrier_of_a_cluster(body: str, blocked: bool) -> None:
    source = SourceFile("k.hip", (CLUSTER % body).encode())
    kernel = lower(parse(source), source, Options(arch="gfx1250")).kernels[0]
    outcome = execute(analyze(kernel)[0]).outcomes[0]
    assert outcome.incomplete == []
    assert bool(outcome.blocked) == blocked
