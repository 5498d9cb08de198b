"""What the four tables say of generated GEMMs: the facts that the debugging guide writes down by hand for step 7."""

from __future__ import annotations

import pytest

from tests.handoffs.kernels import CLUSTER, GEMM, line_of, tables
from warplint.tables import Buffer, Handoff, Protocol, Role

WARP = (1 << 32) - 1
BODY = GEMM[GEMM.index("gemm_step7_kernel(const") :]


@pytest.fixture(scope="module")
def gemm() -> Protocol:
    return tables(GEMM)


@pytest.fixture(scope="module")
def pair() -> Protocol:
    return tables(CLUSTER)


def role(of: Protocol, op: str) -> Role:
    """The role that executes an operation (that not everybody executes)."""
    found = [r for r in of.roles if any(d.op == op for d in r.operations) and r.name != "everyone"]
    assert len(found) == 1, [r.name for r in found]
    return found[0]


def barrier(of: Protocol, producer: str, consumer: str) -> Handoff:
    found = [
        row
        for row in of.handoffs
        if row.kind == "mbarrier"
        and {p.role for p in row.producers} == {producer}
        and {c.role for c in row.consumers} == {consumer}
    ]
    assert len(found) == 1, [row.name for row in found]
    return found[0]


def buffers(of: Protocol, writer: str) -> list[Buffer]:
    return [b for b in of.storage if any(w.op == writer for w in b.writers)]


def at(call: str, nth: int = 0) -> int:
    """The line of a call inside the kernel (the prelude defines the helpers)."""
    start = GEMM[: GEMM.index(BODY)].count("\n")
    return start + line_of(BODY, call, nth)


# ---------------------------------------------------------------------------------------------------- roles
def test_roles_are_exact_thread_sets(gemm):
    load, mma, epilogue = role(gemm, "cp.async.bulk.tensor.load"), role(gemm, "tcgen05.mma"), role(gemm, "tcgen05.ld")
    assert int(load.mask, 16) == WARP << 7 * 32
    assert int(mma.mask, 16) == WARP << 4 * 32
    assert int(epilogue.mask, 16) == (1 << 128) - 1
    assert load.name == "TMA load" and mma.name == "MMA"
    assert role(gemm, "cp.async.bulk.tensor.store") is epilogue


def test_operations_name_their_lanes_and_lines(gemm):
    mma = role(gemm, "tcgen05.mma")
    doing = next(d for d in mma.operations if d.op == "tcgen05.mma")
    assert doing.threads == "lane 0 of warp 4"
    assert doing.times == 4 * 16 * 4, "four MMAs for each of 16 k tiles of four tiles"
    assert doing.lines == tuple(at("tcgen05_mma_ss", n) for n in range(4))


def test_guards_lead_to_the_role(gemm):
    guards = role(gemm, "cp.async.bulk.tensor.load").guards
    assert any("(warp_id_in_cta & 3) == 3" in guard for guard in guards)
    assert any("elect" in guard for guard in guards)


def test_registers_of_a_role():
    text = GEMM.replace(
        "    if ((warp_id_in_cta & 3) == 3) {",
        '    asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");\n    if ((warp_id_in_cta & 3) == 3) {',
        1,
    )
    made = tables(text)
    assert [r.registers for r in role(made, "tcgen05.mma").registers] == [56]
    assert not role(made, "tcgen05.ld").registers


# -------------------------------------------------------------------------------------------------- storage
def test_stages_sizes_writers_and_readers(gemm):
    operands = buffers(gemm, "TMA load")
    assert [b.starts for b in operands] == [(1024, 17408), (33792, 50176)]
    for buffer in operands:
        assert (buffer.size, buffer.size_is, buffer.space) == (16384, "inferred", "shared")
        assert [(w.role, w.proxy) for w in buffer.writers] == [("TMA load", "async")]
        assert [(r.role, r.proxy) for r in buffer.readers] == [("MMA", "async")]
    staging = next(b for b in gemm.storage if any(r.op == "TMA store" for r in b.readers))
    assert (staging.starts, staging.size, staging.size_is) == ((66560,), 32768, "stated")
    assert {w.proxy for w in staging.writers} == {"generic"}


def test_tensor_memory(gemm):
    (accumulator,) = [b for b in gemm.storage if b.space == "tensor"]
    assert (accumulator.starts, accumulator.size) == ((0,), 128)
    assert [w.role for w in accumulator.writers] == ["MMA"]
    assert [r.op for r in accumulator.readers] == ["tcgen05.ld"]


def test_a_copy_that_is_alone_in_its_phase_has_the_expected_size():
    second = "tvm_builtin_ptx_cp_async_bulk_tensor_g2s"
    body = BODY.split("\n")
    copies = [number for number, line in enumerate(body) if second in line]
    body[copies[1]] = ""
    text = GEMM.replace(BODY, "\n".join(body)).replace("(uint)32768", "(uint)16384")
    (operand,) = buffers(tables(text), "TMA load")
    assert (operand.size, operand.size_is) == (16384, "inferred")


# ------------------------------------------------------------------------------------------------- hand-off
def test_full_barriers(gemm):
    full = barrier(gemm, "TMA load", "MMA")
    assert full.words == ("pool_buf_ptr + 8", "pool_buf_ptr + 16")
    assert full.count == 1 and full.phases == (32, 32)
    told = {p.how: p for p in full.producers}
    assert (told["arrive.expect_tx"].arrivals, told["arrive.expect_tx"].bytes) == (1, 32768)
    assert len(told["copy"].lines) == 2
    (waiter,) = full.consumers
    assert waiter.parity == 0 and waiter.first == "waits for phase 0"
    assert set(full.carries) == {b.name for b in buffers(gemm, "TMA load")}


def test_empty_barriers_pass_at_first(gemm):
    empty = barrier(gemm, "MMA", "TMA load")
    (waiter,) = empty.consumers
    assert waiter.parity == 1 and waiter.first.startswith("passes at once")
    assert [(p.how, p.arrivals) for p in empty.producers] == [("commit", 1)]
    assert set(empty.carries) == {b.name for b in buffers(gemm, "TMA load")}


def test_accumulator_hand_off_with_its_fences(gemm):
    epilogue = role(gemm, "tcgen05.ld").name
    ready, free = barrier(gemm, "MMA", epilogue), barrier(gemm, epilogue, "MMA")
    (accumulator,) = [b.name for b in gemm.storage if b.space == "tensor"]
    assert ready.carries == free.carries == (accumulator,)
    assert free.count == 128 and free.producers[0].arrivals == 128
    assert [text.partition(" (")[0] for text in free.producers[0].before] == [
        "tcgen05.wait::ld",
        "tcgen05.fence::before_thread_sync",
    ]
    assert [text.partition(" (")[0] for text in ready.consumers[0].after] == ["tcgen05.fence::after_thread_sync"]


def test_named_and_cta_barriers(gemm):
    named = next(row for row in gemm.handoffs if row.kind == "named barrier")
    assert named.words == ("barrier 10",) and named.count == 128
    assert any(text.startswith("fence.proxy.async") for text in named.producers[0].before)
    whole = next(row for row in gemm.handoffs if row.kind == "CTA barrier")
    assert [p.role for p in whole.producers] == ["everyone"] and whole.producers[0].arrivals == 256


def test_edges_are_arrivals_and_waits(gemm):
    full = barrier(gemm, "TMA load", "MMA").name
    kinds = {(e.role, e.kind) for e in gemm.edges if e.barrier == full}
    assert kinds == {("TMA load", "arrives"), ("MMA", "waits")}
    assert not any(e.blocked for e in gemm.edges) and gemm.deadlock is None


# ------------------------------------------------------------------------------------------------- lifetime
def test_reuse_and_release(gemm):
    rows = {row.name: row for row in gemm.lifetimes}
    empty = barrier(gemm, "MMA", "TMA load").name
    for buffer in buffers(gemm, "TMA load"):
        assert [text.partition(" (")[0] for text in rows[buffer.name].reuse] == [empty]
    (accumulator,) = [b.name for b in gemm.storage if b.space == "tensor"]
    row = rows[accumulator]
    assert row.begins.startswith("tcgen05.alloc 512 columns") and row.begins.endswith("by warp 0 (32)")
    assert row.ends.startswith("tcgen05.dealloc 512 columns")
    assert row.release == f"CTA barrier (line {at('tvm_builtin_cuda_cta_sync()', 1)})"
    assert [text.partition(" (")[0] for text in row.reuse] == [barrier(gemm, role(gemm, "tcgen05.ld").name, "MMA").name]
    assert not any(row.hazards for row in gemm.lifetimes)


def test_staging_is_reused_after_the_store_has_read_it(gemm):
    staging = next(b for b in gemm.storage if any(r.op == "TMA store" for r in b.readers))
    reuse = next(row for row in gemm.lifetimes if row.name == staging.name).reuse
    assert any(text.startswith("bulk wait_group 0") for text in reuse)


def test_a_missing_wait_shows_as_a_missing_order():
    text = GEMM.replace("      tvm_builtin_ptx_tcgen05_wait_wait__ld_sync_aligned();\n", "\n", 1)
    made = tables(text)
    (accumulator,) = [b.name for b in made.storage if b.space == "tensor"]
    hazards = next(row for row in made.lifetimes if row.name == accumulator).hazards
    assert any("tcgen05.ld" in text and "completion not waited for" in text for text in hazards)


def test_a_free_that_nothing_orders_is_said():
    last = GEMM.rindex("  tvm_builtin_cuda_cta_sync();")
    text = GEMM[:last] + GEMM[last:].replace("  tvm_builtin_cuda_cta_sync();", "", 1)
    text = text[:last] + text[last:].replace("if (warp_id_in_cta == 0) {", "if (warp_id_in_cta == 5) {").replace(
        "if ((warp_id_in_cta >> 2) == 0) {", "if ((warp_id_in_cta >> 2) == 1) {"
    )
    row = next(row for row in tables(text).lifetimes if row.name.startswith("T"))
    assert row.release.startswith("NOT ordered after")


# -------------------------------------------------------------------------------------------------- cluster
def test_a_pair_of_ctas(pair):
    mma = role(pair, "tcgen05.mma")
    assert mma.ctas == (0,), "only the leader multiplies"
    assert role(pair, "cp.async.bulk.tensor.load").ctas == (0, 1)
    full = next(row for row in pair.handoffs if any(p.how == "arrive.expect_tx" for p in row.producers) and row.carries)
    assert {c.role for c in full.consumers} == {"MMA"}
    free = next(row for row in pair.handoffs if row.count == 256)
    assert free.producers[0].arrivals == 256, "the epilogues of both CTAs release the accumulator"
    assert any(row.kind == "cluster barrier" for row in pair.handoffs)


# ----------------------------------------------------------------------------------------------- other kernels
def test_two_consumer_groups_on_barriers_of_their_own_are_two_roles():
    text = """\
namespace ptx = cuda::ptx;
extern "C" __global__ void __launch_bounds__(96) two(float* out) {
  __shared__ unsigned long long full[2];
  __shared__ float data[64];
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full[0], 32);
    ptx::mbarrier_init(&full[1], 32);
  }
  __syncthreads();
  int warp = threadIdx.x / 32;
  if (warp == 2) {
    data[threadIdx.x - 64] = 1.f;
    ptx::mbarrier_arrive(&full[0]);
    data[threadIdx.x - 32] = 2.f;
    ptx::mbarrier_arrive(&full[1]);
  } else {
    while (!ptx::mbarrier_try_wait_parity(&full[warp], 0)) {}
    out[threadIdx.x] = data[threadIdx.x];
  }
}
"""
    made = tables(text)
    masks = {int(r.mask, 16) for r in made.roles if r.name != "everyone"}
    assert masks == {WARP, WARP << 32, WARP << 64}
    first, second = (row for row in made.handoffs if row.kind == "mbarrier")
    assert (first.words, second.words) == (("full[0]",), ("full[1]",))
    assert first.consumers[0].role != second.consumers[0].role
    data = [b for b in made.storage if b.variable == "data"]
    assert sum(b.size for b in data) == 256


def test_a_kernel_without_synchronisation_says_why_there_are_no_tables():
    from tests.handoffs.kernels import traced

    kernel = traced("__global__ void f(float* x) { x[threadIdx.x] = 1.f; }\n", block=(64, 1, 1))
    assert kernel.recorded is None and "no synchronisation" in kernel.unexecuted


def test_an_unknown_block_size_is_said():
    from tests.handoffs.kernels import traced

    kernel = traced("__global__ void f(float* x) { __shared__ float s[64]; s[threadIdx.x] = 1.f; __syncthreads(); }\n")
    assert any("block size unknown" in text for text, _ in kernel.incomplete)


def test_accesses_alone_make_no_role_and_unknown_addresses_no_buffer():
    text = """\
__global__ void __launch_bounds__(256) f(const int* at, float* out) {
  __shared__ float s[256];
  s[threadIdx.x] = 1.f;
  __syncthreads();
  if (threadIdx.x < 32) { s[at[threadIdx.x]] = 2.f; }
  __syncthreads();
  out[threadIdx.x] = s[threadIdx.x];
}
"""
    made = tables(text)
    assert [r.name for r in made.roles] == ["everyone"]
    (doing,) = [d for d in made.roles[0].operations if d.op == "ordinary store" and d.lines == (3, 5)]
    assert doing.times == 2
    known, lost = made.storage
    assert (known.starts, known.size, known.size_is) == ((0,), 1024, "stated")
    assert (lost.starts, lost.size_is) == ((), "unknown") and [u.lines for u in lost.writers] == [(5,)]
    assert [row.name for row in made.lifetimes] == [known.name]
