"""What `_order` says about two places in different warps, on kernels small enough to reason about by hand."""

from __future__ import annotations

from warplint.program import Options, lower
from warplint.source import SourceFile
from warplint.syntax import parse
from warplint.threads import analyze
from warplint.threads.facts import Event, Roles
from warplint_rules._order import Order

PRELUDE = """
__device__ unsigned smem(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void arrive(unsigned long long* b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(smem(b)) : "memory");
}
__device__ void wait(unsigned long long* b, unsigned parity) {
  asm volatile("{\\n .reg .pred p;\\n W_%=:\\n mbarrier.try_wait.parity.b64 p, [%0], %1;\\n @!p bra W_%=;\\n}"
               :: "r"(smem(b)), "r"(parity) : "memory");
}
__device__ void bar_sync(int id, int n) { asm volatile("bar.sync %0, %1;" :: "r"(id), "r"(n) : "memory"); }
__device__ void first() { asm volatile("fence.proxy.async;" ::: "memory"); }
__device__ void second() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
"""


def analysed(body: str, threads: int = 96) -> Roles:
    """One kernel; `first()` and `second()` mark the two places that are asked about."""
    text = f"""{PRELUDE}
__global__ void __launch_bounds__({threads}) k(int n) {{
  __shared__ unsigned long long a, b, ring[2];
  int warp = threadIdx.x / 32;
{body}
}}
"""
    source = SourceFile("k.cu", text.encode())
    return analyze(lower(parse(source), source, Options()).kernels[0])[0]


def marks(roles: Roles) -> tuple[Event, Event]:
    """The events of `first()` and `second()`."""
    return next(roles.of("fence.proxy.async")), next(roles.of("fence.mbarrier_init.release.cluster"))


def ordered(body: str) -> bool:
    """Whether `first()` in warp 0 may be ordered before `second()` in warp 1."""
    roles = analysed(body)
    one, two = marks(roles)
    order = Order(roles)
    assert not order.uncertain
    return order.ordered(one, 0, two, 1)


def ordered_on_the_first_pass(body: str) -> bool:
    """The same for the first execution of `second()`."""
    roles = analysed(body)
    one, two = marks(roles)
    return Order(roles).before_first(one, 0, two.order, two.loops, 1)


def test_nothing_between_is_no_order() -> None:
    assert not ordered("if (warp == 0) first(); if (warp == 1) second();")


def test_a_common_barrier_orders() -> None:
    assert ordered("if (warp == 0) first(); __syncthreads(); if (warp == 1) second();")


def test_a_barrier_before_both_orders_nothing() -> None:
    assert not ordered("__syncthreads(); if (warp == 0) first(); if (warp == 1) second();")


def test_a_barrier_after_both_orders_nothing() -> None:
    assert not ordered("if (warp == 0) first(); if (warp == 1) second(); __syncthreads();")


def test_roles_may_meet_at_their_own_sites() -> None:
    assert ordered("if (warp == 0) { first(); bar_sync(1, 64); } else if (warp == 1) { bar_sync(1, 64); second(); }")
    assert ordered("if (warp == 1) { bar_sync(1, 64); second(); } else if (warp == 0) { first(); bar_sync(1, 64); }")


def test_another_named_barrier_does_not_count() -> None:
    assert not ordered(
        "if (warp == 0) { first(); bar_sync(1, 64); } else if (warp == 1) { bar_sync(2, 64); second(); }"
    )


def test_a_third_warp_passes_it_on() -> None:
    body = "if (warp == 0) { first(); arrive(&a); } else if (warp == 2) { wait(&a, 0); arrive(&b); }"
    assert ordered(body + " else { wait(&b, 0); second(); }")
    swapped = body.replace("wait(&a, 0); arrive(&b);", "arrive(&b); wait(&a, 0);")
    assert not ordered(swapped + " else { wait(&b, 0); second(); }")


def test_an_arrival_on_another_word_does_not_count() -> None:
    assert not ordered("if (warp == 0) { first(); arrive(&a); } else if (warp == 1) { wait(&b, 0); second(); }")


def test_an_arrival_before_the_place_does_not_count() -> None:
    assert not ordered("if (warp == 0) { arrive(&a); first(); } else if (warp == 1) { wait(&a, 0); second(); }")


def test_an_unknown_word_of_the_array_may_be_the_one() -> None:
    assert ordered("if (warp == 0) { first(); arrive(&ring[n]); } else if (warp == 1) { wait(&ring[1], 0); second(); }")


def test_the_wait_for_the_phase_before_the_first_tells_nothing_on_the_first_pass() -> None:
    body = """
  unsigned phase = %d;
  for (int i = 0; i < n; ++i) {
    if (warp == 0) { first(); arrive(&a); }
    if (warp == 1) { wait(&a, phase); phase ^= 1; second(); }
  }"""
    assert ordered_on_the_first_pass(body % 0)
    assert not ordered_on_the_first_pass(body % 1)
    # In a later iteration the wait does tell something.
    assert ordered(body % 1)


def test_a_spin_on_a_flag_makes_the_answer_uncertain() -> None:
    roles = analysed(
        "__shared__ volatile int flag; if (warp == 0) { first(); flag = 1; } else { while (flag == 0) {} second(); }"
    )
    assert Order(roles).uncertain
