// cuda::pipeline of one thread, after CCCL 13.3 (cuda/pipeline): groups of cp.async. A pipeline that several threads share is
// not followed.
namespace cuda {
enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block, thread_scope_thread };

template <thread_scope Scope>
class pipeline {
 public:
  __device__ void producer_acquire() {
    if constexpr (Scope != thread_scope_thread) pipeline_shared_by_threads();
  }
  __device__ void producer_commit() {
    if constexpr (Scope != thread_scope_thread) pipeline_shared_by_threads();
    asm volatile("cp.async.commit_group;");
    head = head + 1;
  }
  __device__ void consumer_wait() {
    if constexpr (Scope != thread_scope_thread) pipeline_shared_by_threads();
    if (head != tail) {
      asm volatile("cp.async.wait_group %0;" ::"n"(head - tail - 1));
      tail = tail + 1;
    }
  }
  __device__ void consumer_release() {
    if constexpr (Scope != thread_scope_thread) pipeline_shared_by_threads();
  }
  __device__ bool quit() { return true; }
  template <int Prior>
  __device__ void wait_prior() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Prior));
    tail = head - Prior;
  }
  template <class T>
  __device__ void copy(T* target, const T* source, int bytes) {
    if constexpr (Scope != thread_scope_thread) pipeline_shared_by_threads();
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"((unsigned)__cvta_generic_to_shared(target)), "l"(source), "n"(bytes));
  }

 private:
  int head = 0;
  int tail = 0;
};

__device__ inline pipeline<thread_scope_thread> make_pipeline() { return pipeline<thread_scope_thread>(); }

template <class Group, class State>
__device__ pipeline<thread_scope_block> make_pipeline(const Group& group, State* state) {
  pipeline_shared_by_threads();
  return pipeline<thread_scope_block>();
}

template <class T, class Pipeline>
__device__ void memcpy_async(T* target, const T* source, int bytes, Pipeline& pipe) {
  pipe.copy(target, source, bytes);
}

template <class Group, class T, class Pipeline>
__device__ void memcpy_async(const Group& group, T* target, const T* source, int bytes, Pipeline& pipe) {
  pipeline_shared_by_threads();
}

template <int Prior, class Pipeline>
__device__ void pipeline_consumer_wait_prior(Pipeline& pipe) {
  pipe.wait_prior<Prior>();
}
}
