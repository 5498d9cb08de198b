"""Launch information and its origin."""

from __future__ import annotations

import pytest

from tests.program.build import module


def info(text: str, **options):
    return module(text, **options).kernels[0].launch


@pytest.mark.parametrize(
    ("text", "value", "origin"),
    [
        ("__global__ void __launch_bounds__(256, 1) k() {}", (256, 1, 1), "from __launch_bounds__"),
        (
            "constexpr int N = 128;\n__global__ void __launch_bounds__(N + 32) k() {}",
            (160, 1, 1),
            "from __launch_bounds__",
        ),
        (
            'extern "C" __global__ void __block_size__((192, 1, 1), (2, 1, 1)) k() {}',
            (192, 1, 1),
            "from __block_size__",
        ),
        ("__global__ void k() {}\nvoid f() { k<<<10, 96>>>(); }", (96, 1, 1), "from the launch at line 2"),
        (
            "__global__ void k() {}\nvoid f() { dim3 b(32, 8); k<<<10, b>>>(); }",
            (32, 8, 1),
            "from the launch at line 2",
        ),
        (
            "#define W 4\n__global__ void k() {}\nvoid f() { const int t = W * 32; k<<<10, dim3(t)>>>(); }",
            (128, 1, 1),
            "from the launch at line 3",
        ),
    ],
)
def test_block(text, value, origin):
    fact = info(text).block
    assert fact is not None and (fact.value, fact.origin) == (value, origin)


def test_block_from_the_user_comes_first():
    fact = info("__global__ void __launch_bounds__(256) k() {}", block=(64, 2, 1)).block
    assert fact is not None and (fact.value, fact.origin) == ((64, 2, 1), "from --block")


def test_launch_bounds_say_nothing_about_a_two_dimensional_block():
    assert info("__global__ void __launch_bounds__(256) k(int* p) { p[threadIdx.y] = 1; }").block is None


def test_a_linear_rank_helper_keeps_the_block_one_dimensional():
    text = (
        "__device__ int rank() { return threadIdx.x + blockDim.x * threadIdx.y; }\n"
        "__global__ void __launch_bounds__(256) k(int* p) { p[rank()] = 1; }"
    )
    assert info(text).block is not None


def test_launches_that_disagree_say_nothing():
    assert info("__global__ void k() {}\nvoid f() { k<<<1, 32>>>(); k<<<1, 64>>>(); }").block is None


def test_a_host_variable_that_changes_is_unknown():
    assert info("__global__ void k() {}\nvoid f(int n) { int t = 32; if (n) t = 64; k<<<1, t>>>(); }").block is None


def test_cluster():
    fact = info('extern "C" __global__ void __block_size__((192, 1, 1), (2, 1, 1)) k() {}').cluster
    assert fact is not None and fact.value == (2, 1, 1)
    fact = info("__global__ void __cluster_dims__(4, 1, 1) k() {}").cluster
    assert fact is not None and (fact.value, fact.origin) == ((4, 1, 1), "from __cluster_dims__")
    assert info("__global__ void k() {}").cluster is None


def test_shared_memory_and_cooperation():
    text = "__global__ void k() {}\nvoid f() { void* a[1]; cudaLaunchCooperativeKernel((void*)k, 4, 128, a, 1024, 0); }"
    found = info(text)
    assert found.cooperative is True
    assert found.smem is not None and found.smem.value == (1024,)
    assert info("__global__ void k() {}\nvoid f() { k<<<1, 32>>>(); }").cooperative is False
    assert info("__global__ void k() {}").cooperative is None


def test_registers_and_min_blocks():
    assert info("__global__ void __maxnreg__(93) k() {}").max_registers == 93
    assert info("__global__ void __launch_bounds__(128, 2) k() {}").min_blocks == 2


def test_amd_is_told_by_its_file():
    assert module("__global__ void k() {}", path="a.hip").kernels[0].is_amd
    assert module("#include <hip/hip_runtime.h>\n__global__ void k() {}").kernels[0].is_amd
    assert not module("__global__ void k() {}").kernels[0].is_amd
    assert info("__global__ void k() {}", arch="gfx942").warp_size == 64


def test_kernels_are_all_global_functions():
    text = "template <int N> __global__ void a() {}\nnamespace x { __global__ void b() {} }\n__device__ void c() {}"
    assert [kernel.name for kernel in module(text).kernels] == ["a", "x::b"]


def test_fragment():
    found = module("__shared__ long long b;\nif (threadIdx.x == 0)\n  __syncthreads();\n")
    kernel = found.kernels[0]
    assert kernel.fragment
    place = kernel.body.body[0]
    assert kernel.source.line_of(place.span.start) == 2


def test_needed_leaves_data_out():
    from warplint.program import needed

    text = (
        "__global__ void k(float* p, int n) { int i = n; int unused = n * 2; float acc = p[1];"
        " while (i < 4) { i += 1; acc += p[i]; } p[0] = acc; }"
    )
    assert sorted(symbol.name for symbol in needed(module(text).kernels[0])) == ["i", "n"]


def test_data_expressions_stay_unresolved():
    from warplint.program import ir, needed

    kernel = module("__global__ void k(float* p, int n) { float a = p[n] * 2; if (n) p[0] = 1; }").kernels[0]
    needed(kernel)
    first = kernel.body.body[0]
    assert isinstance(first, ir.Assign) and first.value.built is None


def test_undeclared_names_of_a_fragment():
    from warplint.program.dump import dump

    text = (
        "if (warp_id_in_cta == 4) {\n"
        "  tvm_builtin_ptx_mbarrier_init((&(((uint64_t*)pool_buf_ptr)[stage_ptr[0] + 3])), 1);\n"
        "  stage_ptr[0] = (stage_ptr[0] + 1);\n}\n"
    )
    found = [line.split(" {")[0] for line in dump(module(text).kernels[0]).splitlines()[1:]]
    assert found == [
        "  shared pool_buf_ptr u8 (None,) bytes=None",
        "  if ((i32(@linear_tid) >> 5) == 4)",
        "    %0 = mbarrier.init barrier=&pool_buf_ptr+((stage_ptr + 3) * 8) count=1",
        "    stage_ptr = (stage_ptr + 1)",
    ]
