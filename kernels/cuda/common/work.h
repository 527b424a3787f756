// What a call enqueues on its stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/cuda/common/memory.h"
#include "kernels/cuda/common/sequence.h"
#include "kernels/cuda/common/target.h"

namespace msda::kernels::cuda {

// Collects kernels. Several are enqueued as one CUDA graph, which costs the host less than their launches; on a stream
// that is captured they are launched one by one, in the order in which they were added.
class Work {
 public:
  explicit Work(cudaStream_t stream) : target_(stream) {}
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  ~Work();

  Target& target() { return target_; }

  template <class... Parameters>
  void add(const Launch& launch, const Parameters&... parameters) {
    if (sequence_.size() == Sequence::kMost) enqueue();
    sequence_.add(launch, parameters...);
  }
  // What `first` adds and what `second` adds do not wait for each other, if can_fork().
  template <class First, class Second>
  void beside(First&& first, Second&& second) {
    sequence_.beside(std::forward<First>(first), std::forward<Second>(second));
  }
  bool can_fork() { return !target_.is_captured(); }

  // Returns device memory that lives until this object ends.
  void* allocate(size_t bytes);

  // Enqueues what was added; throws CudaError if that fails. When this object ends, as after an exception, what has not
  // been enqueued is lost.
  void enqueue();
  // Returns the stream for work that other functions enqueue, after what was added.
  cudaStream_t stream() {
    enqueue();
    return target_.stream();
  }

 private:
  Target target_;  // the first to begin and the last to end
  Sequence sequence_;
  std::optional<Memory> left_;  // for the stream's next call
  std::vector<Memory> memory_;
};

}  // namespace msda::kernels::cuda
