// warplint: --arch sm_90a
// Two CTAs share every tile: each loads one half for both, and a slot is free when the consumers of both have read it.
#include <cstdint>

__device__ __forceinline__ uint32_t smem(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void mbar_init(uint64_t* bar, uint32_t count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(smem(bar)), "r"(count));
}
__device__ __forceinline__ void fence_mbarrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void mbar_wait(uint64_t* bar, uint32_t parity) {
    asm volatile(
        "{\n"
        ".reg .pred P1;\n"
        "LAB_WAIT:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n"
        "@P1 bra.uni DONE;\n"
        "bra.uni LAB_WAIT;\n"
        "DONE:\n"
        "}\n" ::"r"(smem(bar)), "r"(parity) : "memory");
}
__device__ __forceinline__ void mbar_arrive(uint64_t* bar) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(smem(bar)) : "memory");
}
__device__ __forceinline__ void mbar_expect(uint64_t* bar, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem(bar)), "r"(bytes) : "memory");
}
__device__ __forceinline__ uint32_t cluster_rank() {
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
__device__ __forceinline__ uint32_t map_rank(uint32_t address, uint32_t rank) {
    uint32_t mapped;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
    return mapped;
}
__device__ __forceinline__ void arrive_remote(uint32_t address) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(address) : "memory");
}
__device__ __forceinline__ void cluster_arrive() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_arrive_relaxed() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ __forceinline__ void bulk_load_both(void* dst, const void* src, uint32_t bytes, uint64_t* bar, uint16_t mask) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;"
        ::"r"(smem(dst)), "l"(src), "r"(bytes), "r"(smem(bar)), "h"(mask) : "memory");
}

constexpr int HALF = 2048;
constexpr int STAGES = 2;

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(160) shared_tiles(const char* in, float* out, int tiles) {
    __shared__ alignas(128) float buffer[STAGES][2 * HALF / 4];
    __shared__ alignas(8) uint64_t full[STAGES];
    __shared__ alignas(8) uint64_t empty[STAGES];
    const int warp = threadIdx.x / 32;
    const uint32_t rank = cluster_rank();
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            mbar_init(&full[s], 1);
            mbar_init(&empty[s], 256);
        }
        fence_mbarrier_init();
    }
    cluster_arrive_relaxed();
    cluster_wait();
    if (warp == 4) {
        if (threadIdx.x % 32 == 0) {
            for (int t = 0; t < tiles; ++t) {
                const int s = t % STAGES;
                const uint32_t phase = (t / STAGES) & 1;
                mbar_wait(&empty[s], phase ^ 1);
                mbar_expect(&full[s], 2 * HALF);
                bulk_load_both(&buffer[s][rank * (HALF / 4)], in + (t * 2 + rank) * HALF, HALF, &full[s], 3);
            }
        }
    } else {
        float sum = 0;
        for (int t = 0; t < tiles; ++t) {
            const int s = t % STAGES;
            const uint32_t phase = (t / STAGES) & 1;
            mbar_wait(&full[s], phase);
            for (int i = threadIdx.x; i < 2 * HALF / 4; i += 128) sum += buffer[s][i];
            arrive_remote(map_rank(smem(&empty[s]), 0));
            arrive_remote(map_rank(smem(&empty[s]), 1));
        }
        out[blockIdx.x * 128 + threadIdx.x] = sum;
    }
    cluster_arrive();
    cluster_wait();
}
