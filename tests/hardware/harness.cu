// Runs one kernel of fixtures/hardware many times and says what happened: "right", "wrong", "hang" or "fault".
// Built with -DKERNEL_FILE="..." -DGRID=... -DBLOCK=...; the kernel must make out[i] = in[i] + 1 of every element.
// A hang is a launch that has not ended after SECONDS; the process then leaves without waiting for it.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <unistd.h>
#include <vector>
#include KERNEL_FILE

#ifndef SECONDS
#define SECONDS 3
#endif
constexpr int TILES = 9;
constexpr int LAUNCHES = 200;

__global__ void load_on_memory(float* data, int count) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) data[i] = data[i] * 1.5f + 1.0f;
}

static void say(const char* what, int launch, int wrong) {
    std::printf("%s launch %d of %d, %d launches wrong\n", what, launch + 1, LAUNCHES, wrong);
    std::fflush(stdout);
    _exit(0);
}

int main() {
    const int count = GRID * TILES * TILE;
    std::vector<float> in(count), out(count);
    float *device_in, *device_out, *other;
    cudaMalloc(&device_in, count * sizeof(float));
    cudaMalloc(&device_out, count * sizeof(float));
    cudaMalloc(&other, 64 << 20);
    cudaStream_t ours, theirs;
    cudaStreamCreateWithFlags(&ours, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&theirs, cudaStreamNonBlocking);
    int wrong = 0;
    for (int launch = 0; launch < LAUNCHES; ++launch) {
        for (int i = 0; i < count; ++i) in[i] = float((i * 7 + launch * 13) % 4096);
        cudaMemcpyAsync(device_in, in.data(), count * sizeof(float), cudaMemcpyHostToDevice, ours);
        cudaMemsetAsync(device_out, 0xff, count * sizeof(float), ours);
        cudaStreamSynchronize(ours);
        if (launch % 2) load_on_memory<<<64, 256, 0, theirs>>>(other, (64 << 20) / 4);
        kernel<<<GRID, BLOCK, 0, ours>>>(device_in, device_out, TILES);
        const auto begin = std::chrono::steady_clock::now();
        cudaError_t state;
        while ((state = cudaStreamQuery(ours)) == cudaErrorNotReady) {
            if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(SECONDS)) say("hang", launch, wrong);
            std::this_thread::sleep_for(std::chrono::microseconds(50));
        }
        if (state != cudaSuccess) {
            std::printf("%s: ", cudaGetErrorString(state));
            say("fault", launch, wrong);
        }
        cudaMemcpyAsync(out.data(), device_out, count * sizeof(float), cudaMemcpyDeviceToHost, ours);
        cudaStreamSynchronize(ours);
        bool same = true;
        for (int i = 0; i < count; ++i) same = same && out[i] == in[i] + 1.0f;
        wrong += !same;
        cudaStreamSynchronize(theirs);
    }
    say(wrong ? "wrong" : "right", LAUNCHES - 1, wrong);
}
