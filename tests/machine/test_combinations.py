"""Faults of persistent kernels that only some combination of tiles, inner rounds and ring depth shows."""

from __future__ import annotations

import pytest

from warplint.engine import Settings, lint_bytes
from warplint.finding import KernelReport, Level, Verdict

HELPERS = r"""
#include <cuda.h>
#include <stdint.h>
__device__ __forceinline__ uint32_t s2u(const void* p){ return (uint32_t)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void bar_init(uint64_t* b, int n){
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"::"r"(s2u(b)),"r"(n):"memory"); }
__device__ __forceinline__ void bar_expect(uint64_t* b, int n){
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"::"r"(s2u(b)),"r"(n):"memory"); }
__device__ __forceinline__ void bar_arrive(uint64_t* b){
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"::"r"(s2u(b)):"memory"); }
__device__ __forceinline__ void bar_wait(uint64_t* b, uint32_t ph){
  asm volatile("{\n.reg .pred P1;\nLAB_WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n"
               "@P1 bra DONE;\nbra LAB_WAIT;\nDONE:\n}"::"r"(s2u(b)),"r"(ph):"memory"); }
__device__ __forceinline__ void bulk_g2s(void* d, const void* s, int n, uint64_t* b){
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
    ::"r"(s2u(d)),"l"(s),"r"(n),"r"(s2u(b)):"memory"); }
__device__ __forceinline__ void bulk_s2g(void* d, const void* s, int n){
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"::"l"(d),"r"(s2u(s)),"r"(n):"memory"); }
__device__ __forceinline__ void bulk_commit(){ asm volatile("cp.async.bulk.commit_group;":::"memory"); }
template<int N> __device__ __forceinline__ void bulk_wait_read(){
    asm volatile("cp.async.bulk.wait_group.read %0;"::"n"(N):"memory"); }
__device__ __forceinline__ void fence_async(){ asm volatile("fence.proxy.async.shared::cta;":::"memory"); }
"""
PERSISTENT = r"""
extern "C" __global__ void __launch_bounds__(256) k(const float* in, float* out, int n_tiles, int K){
  constexpr int S=3; __shared__ alignas(128) float buf[S][1024]; __shared__ alignas(128) float st[2][1024];
    __shared__ uint64_t full[S], empty[S];
  int warp=threadIdx.x/32;
  if(threadIdx.x==0){ for(int i=0;i<S;i++){bar_init(&full[i],1);bar_init(&empty[i],4);}
    asm volatile("fence.mbarrier_init.release.cluster;":::"memory"); }
  __syncthreads();
  if(warp>=4){
    if(threadIdx.x==128){
      int s=0; uint32_t ph=0;
      for(int t=blockIdx.x;t<n_tiles;t+=gridDim.x) for(int k=0;k<K;k++){
        bar_wait(&empty[s],ph^1); bar_expect(&full[s],4096); bulk_g2s(buf[s],in+(t*K+k)*1024,4096,&full[s]);
        if(++s==S){s=0;ph^=1;}
      }
    }
  } else {
    int s=0; uint32_t ph=0; int o=0;
    for(int t=blockIdx.x;t<n_tiles;t+=gridDim.x){
      float a[8]={};
      for(int k=0;k<K;k++){
        bar_wait(&full[s],ph);
        for(int i=0;i<8;i++) a[i]+=buf[s][i*128+threadIdx.x];
        __syncwarp();
        if(threadIdx.x%32==0) bar_arrive(&empty[s]);
        if(++s==S){s=0;ph^=1;}
      }
      if(threadIdx.x==0) bulk_wait_read<1>();
      asm volatile("bar.sync 1, 128;":::"memory");
      for(int i=0;i<8;i++) st[o][i*128+threadIdx.x]=a[i];
      fence_async();
      asm volatile("bar.sync 1, 128;":::"memory");
      if(threadIdx.x==0){ bulk_s2g(out+t*1024,st[o],4096); bulk_commit(); }
      o^=1;
    }
    if(threadIdx.x==0) bulk_wait_read<0>();
  }
}
"""
PREFETCH = r"""
template<int N> __device__ __forceinline__ void cpwait(){ asm volatile("cp.async.wait_group %0;"::"n"(N):"memory"); }
__device__ __forceinline__ void cp16(void*d,const void*s){
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"::"r"(s2u(d)),"l"(s):"memory"); }
__device__ __forceinline__ void cpcommit(){ asm volatile("cp.async.commit_group;":::"memory"); }
extern "C" __global__ void __launch_bounds__(128) k(const float* A, float* C, int K){
  constexpr int S=3; __shared__ alignas(128) float a[S][512];
  int t=threadIdx.x; float acc=0;
  for(int s=0;s<S-1;s++){ if(s<K) cp16(&a[s][t*4],A+s*512+t*4); cpcommit(); }
  for(int k=0;k<K;k++){
    cpwait<S-2>(); __syncthreads();
    int nx=k+S-1; if(nx<K) cp16(&a[nx%S][t*4],A+nx*512+t*4); cpcommit();
    for(int j=0;j<512;j+=32) acc+=a[k%S][(j+t)&511];
  }
  C[blockIdx.x*128+t]=acc;
}
"""


def judged(kernel: str) -> KernelReport:
    (report,) = lint_bytes("k.cu", (HELPERS + kernel).encode(), Settings(arch="sm_90a")).kernels
    return report


def errors(kernel: str) -> set[str]:
    return {finding.rule for finding in judged(kernel).findings if finding.level is Level.ERROR}


@pytest.mark.parametrize("kernel", [PERSISTENT, PREFETCH])
def test_the_kernels_themselves_are_clean(kernel: str) -> None:
    assert judged(kernel).verdict is Verdict.CLEAN


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("bulk_wait_read<1>();", "bulk_wait_read<2>();", "bulk-wait-before-smem-reuse"),
        ("if(threadIdx.x==0) bulk_wait_read<1>()", "if(threadIdx.x==32) bulk_wait_read<1>()",
         "bulk-wait-before-smem-reuse"),
        ("o^=1;", "", "bulk-wait-before-smem-reuse"),
        ("float a[8]={};", "float a[8]={}; s=0; ph=0;", "mbarrier-phase-error"),
        ("bar_arrive(&empty[s]);\n        if(++s==S)", "bar_arrive(&empty[s]);\n        if(k<K-1) if(++s==S)",
         "mbarrier-phase-error"),
    ],
)  # fmt: skip
def test_what_only_a_later_tile_shows(old: str, new: str, rule: str) -> None:
    assert PERSISTENT.count(old) == 1
    assert errors(PERSISTENT.replace(old, new)) == {rule}


def test_a_copy_too_far_ahead_shows_once_the_ring_is_full() -> None:
    loose = PREFETCH.replace("s<S-1", "s<S").replace("cpwait<S-2>", "cpwait<S-1>").replace("nx=k+S-1", "nx=k+S")
    assert loose != PREFETCH and errors(loose)
