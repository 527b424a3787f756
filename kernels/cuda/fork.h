// A second stream for a part of a call's work.
#pragma once

#include <cuda_runtime_api.h>

namespace msda::kernels::cuda {

// Whether work on this stream can be forked: not where it is captured into a graph.
bool can_fork(cudaStream_t stream);

// What is put onto side() begins after all that was on the call's stream, at the same time as what is put there next;
// what comes there after join() waits for it.
class Fork {
 public:
  explicit Fork(cudaStream_t stream);
  Fork(const Fork&) = delete;
  Fork& operator=(const Fork&) = delete;
  ~Fork();  // joins too, where an exception came before
  cudaStream_t side() const { return side_; }
  void join();

 private:
  void destroy();
  cudaStream_t stream_, side_ = nullptr;
  cudaEvent_t event_ = nullptr;
  bool joined_ = false;
};

}  // namespace msda::kernels::cuda
