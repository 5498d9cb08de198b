"""Default template arguments, and comparisons with quotients of floating-point numbers."""

from __future__ import annotations

from tests.program.build import lines


def test_default_template_arguments() -> None:
    text = """struct Flat { static __device__ int rank() { return threadIdx.x; } };
template <int Lanes = 64> __device__ int lanes() { return Lanes; }
template <typename T, int N = 4, typename P = Flat> __device__ int of(T value) { return P::rank() * N; }
template <int N = 8> __device__ int deduced(const Box<N>& box) { return N; }
__global__ void k(int* out, Box<3> box) {
  out[0] = lanes();
  out[1] = lanes<32>();
  out[2] = of(1.f);
  out[3] = deduced(box);
}
"""
    stored = [line for line in lines(text) if "store" in line]
    assert stored[0].endswith("= 64") and stored[1].endswith("= 32")
    assert stored[2].endswith("= (i32(@tid.x) * 4)")
    assert "8" not in stored[3].split(" = ")[1]


def test_a_quotient_of_floats_is_compared_in_integers() -> None:
    text = "__global__ void k(int* out) { if (threadIdx.x < blockDim.x / 32.f) out[0] = 1; }"
    assert any("((@tid.x * 32) < @ntid.x)" in line for line in lines(text))
