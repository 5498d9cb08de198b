// What a position in a ring of stages does, for files that include CUTLASS's pipelines where CUTLASS is not on disk.
// The pipeline classes themselves are not here: whom their arrivals reach, the shape of the cluster decides.
#pragma once

namespace cutlass {

template <unsigned Stages_>
struct PipelineState {
    static constexpr unsigned Stages = Stages_;
    int index_ = 0;
    unsigned phase_ = 0;
    unsigned count_ = 0;

    __device__ PipelineState() {}
    __device__ PipelineState(int index, unsigned phase, unsigned count) : index_(index), phase_(phase), count_(count) {}

    __device__ int index() const { return index_; }
    __device__ unsigned phase() const { return phase_; }
    __device__ unsigned count() const { return count_; }

    __device__ void operator++() {
        count_ += 1;
        index_ += 1;
        if (index_ == Stages) {
            index_ = 0;
            phase_ ^= 1;
        }
    }

    __device__ void advance(unsigned steps) {
        phase_ ^= ((index_ + steps) / Stages) & 1;
        index_ = (index_ + steps) % Stages;
        count_ += steps;
    }
};

// A producer finds every stage free: it begins with the parity of the phase before the first.
template <class Pipeline>
__device__ PipelineState<Pipeline::Stages> make_producer_start_state() {
    return PipelineState<Pipeline::Stages>(0, 1, 0);
}

}  // namespace cutlass
