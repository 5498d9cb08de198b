"""What the host's and the device's compiler read of one file, and what a launch means in both."""

from __future__ import annotations

import pytest

from warplint.program import Module, Options, lower
from warplint.source import SourceFile
from warplint.syntax import parse

DEVICE = "#if defined(__HIP_DEVICE_COMPILE__) && %s\n#define W %d\n#else\n#define W %d\n#endif\n"
KERNEL = "__global__ void __launch_bounds__(W) k(float* x) { x[threadIdx.x % W] = 0; }\n"


def module(text: str, arch: str = "gfx942", path: str = "k.hip") -> Module:
    source = SourceFile(path, text.encode())
    return lower(parse(source, arch), source, Options(arch=arch))


@pytest.mark.parametrize(
    ("arch", "condition", "device"),
    [
        ("gfx942", "defined(__GFX9__)", 32),
        ("gfx1100", "defined(__GFX9__)", 64),
        ("gfx1100", "defined(__GFX11__)", 32),
        ("gfx1250", "defined(__GFX12__)", 32),
        ("gfx90a", "defined(__gfx90a__)", 32),
        ("gfx942", "defined(__gfx90a__)", 64),
        ("gfx942", "__AMDGCN_WAVEFRONT_SIZE__ == 64", 32),
        ("gfx1100", "__AMDGCN_WAVEFRONT_SIZE__ == 64", 64),
        ("gfx1100", "defined(__AMDGCN__)", 32),
    ],
)
def test_conditions_on_a_target(arch: str, condition: str, device: int) -> None:
    (kernel,) = module(DEVICE % (condition, 32, 64) + KERNEL + "void f(float* x) { k<<<1, W>>>(x); }", arch).kernels
    assert kernel.launch.max_threads == device
    (launch,) = kernel.launches
    assert launch.block == (64, 1, 1)  # the host defines none of them
    if device != 64:
        assert launch.device_block == (device, 1, 1)
        (differing,) = launch.differing
        assert (differing.name, differing.host, differing.device, differing.in_kernel) == ("W", 64, device, True)
    else:
        assert launch.device_block is None and launch.differing == ()


def test_a_launch_that_only_the_host_sees() -> None:
    text = "__global__ void k() {}\n#ifndef __HIP_DEVICE_COMPILE__\nvoid f() { k<<<1, 96>>>(); }\n#endif\n"
    (kernel,) = module(text).kernels
    assert kernel.launch.block is not None and kernel.launch.block.value == (96, 1, 1)


def test_cuda_arch_is_not_defined_in_host_code() -> None:
    text = "#ifdef __CUDA_ARCH__\n#define N 64\n#else\n#define N 128\n#endif\n__global__ void k() {}\n"
    (kernel,) = module(text + "void f() { k<<<1, N>>>(); }", "sm_90a", "k.cu").kernels
    assert [(launch.block, launch.device_block) for launch in kernel.launches] == [((128, 1, 1), (64, 1, 1))]


def test_overloads_for_host_and_device() -> None:
    text = (
        "__host__ int lanes() { return 96; }\n__device__ int lanes() { return 32; }\n"
        "__global__ void k() {}\n#ifdef __AMDGCN__\n#endif\nvoid f() { k<<<1, lanes()>>>(); }"
    )
    (kernel,) = module(text).kernels
    assert [launch.block for launch in kernel.launches] == [(96, 1, 1)]


def test_what_a_call_fills_in_is_not_known() -> None:
    text = "__global__ void k() {}\nvoid f() { int n = 64; hipGet(&n); k<<<1, n>>>(); }"
    (kernel,) = module(text).kernels
    assert [launch.block for launch in kernel.launches] == [None]


def test_names_that_say_which_compiler_it_is() -> None:
    text = "#ifdef USE_ROCM\n#define N 64\n#else\n#define N 128\n#endif\n__global__ void __launch_bounds__(N) k() {}"
    assert module(text).kernels[0].launch.max_threads == 64
    assert module(text, "sm_90a", "k.cu").kernels[0].launch.max_threads == 128
