// A second stream for part of a call's work.
#pragma once

#include <cuda_runtime_api.h>

namespace msda::kernels::cuda {

// Whether work on this stream can be forked: not while the stream is captured into a CUDA graph.
bool can_fork(cudaStream_t stream);

// Work on side() begins after everything that was enqueued on the call's stream before, and runs concurrently with what
// is enqueued there next. Work enqueued on the call's stream after join() waits for it.
class Fork {
 public:
  explicit Fork(cudaStream_t stream);
  Fork(const Fork&) = delete;
  Fork& operator=(const Fork&) = delete;
  ~Fork();  // joins as well, if an exception prevented it
  cudaStream_t side() const { return side_; }
  void join();

 private:
  void destroy();
  cudaStream_t stream_, side_ = nullptr;
  cudaEvent_t event_ = nullptr;
  bool joined_ = false;
};

}  // namespace msda::kernels::cuda
