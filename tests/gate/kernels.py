"""Small kernels that the tests of the gate write into folders of their own."""

BAD = """\
__global__ void __launch_bounds__(256) broken(float* out) {
  if (threadIdx.x < 32) {
    __syncthreads();
  }
  __syncthreads();
  out[threadIdx.x] = 0.0f;
}
"""
GOOD = BAD.replace("    __syncthreads();", "    out[0] = 1.0f;").replace("broken", "fine")
RULE = "cta-barrier-in-divergent-code"
