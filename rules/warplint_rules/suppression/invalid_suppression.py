"""A suppression comment that cannot be read

## Why
A misspelt rule, a missing bracket or a comment with no code after it suppresses nothing. Who reads it believes that
somebody looked at the finding and accepted it.

## Bad
```cuda
__global__ void __launch_bounds__(256) scale(float* out, float by) {
  __shared__ float tile[256];
  tile[threadIdx.x] = out[threadIdx.x] * by;
  __syncthreads();
  out[threadIdx.x] = tile[255 - threadIdx.x];  // warplint: ignore[smem-rase] ordered by the barrier
}
```

## Good
```cuda
__global__ void __launch_bounds__(256) scale(float* out, float by) {
  __shared__ float tile[256];
  tile[threadIdx.x] = out[threadIdx.x] * by;
  __syncthreads();
  out[threadIdx.x] = tile[255 - threadIdx.x];
}
```
"""

from warplint.finding import Level, Symptom
from warplint.rule import Rule

RULE = Rule(Level.WARNING, Symptom.HIDDEN, precision="very-high", comments=True)
