"""Names that a concatenated source defines more than once: each kernel sees its own."""

from __future__ import annotations

import pytest

from tests.program.build import module
from warplint.program.dump import dump

TWICE = """
#define THREADS 128
#define SCALE 2
namespace one {
constexpr int kStages = 2;
__device__ int twice(int x) { return 2 * x; }
__global__ void __launch_bounds__(THREADS) first(int* p, int n) { p[0] = twice(n) % kStages + SCALE; }
}
#undef THREADS
#define THREADS 320
namespace two {
constexpr int kStages = 5;
__device__ int twice(int x) { return x + x + 1; }
__global__ void __launch_bounds__(THREADS) second(int* p, int n) { p[0] = twice(n) % kStages + SCALE; }
}
#undef SCALE
constexpr int SCALE = 7;
__global__ void __launch_bounds__(THREADS) third(int* p, int n) { p[0] = one::twice(n) + SCALE; }
"""


@pytest.mark.parametrize(
    ("number", "block", "value"), [(0, 128, "(((2 * n) % 2) + 2)"), (1, 320, "((((n + n) + 1) % 5) + 2)")]
)
def test_a_kernel_sees_the_definitions_around_it(number, block, value):
    kernel = module(TWICE).kernels[number]
    assert kernel.launch.block is not None
    assert kernel.launch.block.value == (block, 1, 1)
    assert value in "\n".join(dump(kernel).splitlines())


def test_an_undefined_macro_gives_way_to_a_constant():
    kernel = module(TWICE).kernels[2]
    assert "((2 * n) + 7)" in "\n".join(dump(kernel).splitlines())


def test_a_define_of_the_command_line_holds_everywhere():
    kernels = module(TWICE, defines={"THREADS": 64}).kernels
    assert [kernel.launch.block and kernel.launch.block.value[0] for kernel in kernels] == [64, 64, 64]


def test_a_macro_defined_behind_the_kernel_is_still_known_to_the_launch():
    text = "__global__ void k(int* p) { p[0] = 1; }\n#define BLOCK 96\nvoid f(int* p) { k<<<1, BLOCK>>>(p); }"
    (kernel,) = module(text).kernels
    assert kernel.launch.block is not None
    assert kernel.launch.block.value == (96, 1, 1)
