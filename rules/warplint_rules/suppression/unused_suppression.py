"""A suppression comment for which there is no finding

## Why
A suppression that outlives its finding hides the next fault of its kind at the same place, and tells readers of a fault
that is no longer there. It is reported only where the named rules ran, the file could be judged completely and no error
keeps other rules from speaking.

## Bad
```cuda
__global__ void __launch_bounds__(256) scale(float* out, float by) {
  __shared__ float tile[256];
  tile[threadIdx.x] = out[threadIdx.x] * by;
  // warplint: ignore[cta-barrier-in-divergent-code] the branch around it is gone
  __syncthreads();
  out[threadIdx.x] = tile[255 - threadIdx.x];
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
