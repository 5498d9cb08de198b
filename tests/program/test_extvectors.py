"""Vector types of the compiler: their names, sizes and components."""

from __future__ import annotations

import pytest

from warplint.program import Options, lower
from warplint.program.extvectors import vector_names
from warplint.source import SourceFile
from warplint.syntax import parse

SPELLED = {
    "typedef float T __attribute__((ext_vector_type(4)));": "vec:f32:4",
    "typedef _Float16 T __attribute__((ext_vector_type(8)));": "vec:f16:8",
    "using T = __bf16 __attribute__((ext_vector_type(8)));": "vec:bf16:8",
    "typedef __attribute__((__vector_size__(4 * sizeof(float)))) float T;": "vec:f32:4",
    "typedef int T __attribute__((vector_size(16)));": "vec:i32:4",
    "using T = unsigned char __attribute__((ext_vector_type(4)));": "vec:u8:4",
    "typedef short T __attribute__((ext_vector_type(N)));": None,
    "typedef what T __attribute__((ext_vector_type(4)));": None,
    "typedef float T;": None,
}


@pytest.mark.parametrize("text", SPELLED)
def test_names(text: str) -> None:
    assert vector_names(text.encode()).get("T") == SPELLED[text]


def test_an_array_of_vectors_has_the_size_of_all_elements() -> None:
    text = """typedef short h8 __attribute__((ext_vector_type(8)));
    __global__ void k(short* out) { __shared__ h8 tile[64]; tile[threadIdx.x][3] = 1; out[0] = tile[1][0]; }"""
    source = SourceFile("k.hip", text.encode())
    (symbol,) = lower(parse(source), source, Options(arch="gfx942")).kernels[0].shared
    assert (symbol.element_bytes, symbol.bytes) == (16, 1024)
