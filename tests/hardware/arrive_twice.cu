// Does one warp's bar.arrive followed by its own bar.sync of the same barrier count twice? 64 threads are counted, one warp comes.
#include <cstdio>
#include <unistd.h>
__global__ void one_warp_twice(int* out) {
    asm volatile("bar.arrive 1, 64;" ::: "memory");
    asm volatile("bar.sync 1, 64;" ::: "memory");
    out[threadIdx.x] = 1;
}
__global__ void two_arrive_then_sync(int* out) {  // warp 0 arrives twice, warp 1 syncs: 96 threads counted
    if (threadIdx.x < 32) {
        asm volatile("bar.arrive 1, 96;" ::: "memory");
        asm volatile("bar.arrive 1, 96;" ::: "memory");
    } else {
        asm volatile("bar.sync 1, 96;" ::: "memory");
    }
    out[threadIdx.x] = 1;
}
__global__ void lane_twice(int* out) {  // two lanes of one warp, one after the other, nonaligned: 64 counted
    if (threadIdx.x == 0) asm volatile("barrier.arrive 1, 64;" ::: "memory");
    if (threadIdx.x == 1) asm volatile("barrier.sync 1, 64;" ::: "memory");
    out[threadIdx.x] = 1;
}
int main(int argc, char** argv) {
    int* out;
    cudaMalloc(&out, 4096);
    if (argv[1][0] == 'a') one_warp_twice<<<1, 32>>>(out);
    if (argv[1][0] == 'b') two_arrive_then_sync<<<1, 64>>>(out);
    if (argv[1][0] == 'c') lane_twice<<<1, 32>>>(out);
    for (int i = 0; i < 3000; ++i) {
        cudaError_t state = cudaStreamQuery(0);
        if (state != cudaErrorNotReady) {
            std::printf("%s: ended: %s\n", argv[1], cudaGetErrorString(state));
            std::fflush(stdout);
            _exit(0);
        }
        usleep(1000);
    }
    std::printf("%s: hang\n", argv[1]);
    std::fflush(stdout);
    _exit(0);
}
