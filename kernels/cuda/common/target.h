// Where a call's work goes.
#pragma once

#include <cuda_runtime_api.h>

#include <optional>

#include "kernels/cuda/common/context.h"
#include "kernels/cuda/common/device.h"
#include "kernels/cuda/common/relaxed_capture.h"

namespace msda::kernels::cuda {

// A stream, and what a call asks CUDA about it. Each question is asked once, and only if the call needs it: within a
// program's other work, where caches are cold, it costs a short call some of its time.
class Target {
 public:
  explicit Target(cudaStream_t stream) : stream_(stream) {}
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  cudaStream_t stream() const { return stream_; }
  // Returns true also if CUDA does not say.
  bool is_captured();
  const Context& context();
  const Device& device();  // the current one; throws CudaError

  // Returns whether the stream's next call can find what this one leaves for it, by context() and stream_number().
  // False if the stream is captured, or if CUDA does not give these numbers.
  bool can_keep();
  // Returns a number that no other stream of this program ever has: each thread's and each context's default stream has
  // one of its own. Requires can_keep().
  unsigned long long stream_number() const { return stream_number_; }

  // Must be called before anything that may allocate: any stream may be captured meanwhile.
  void relax() { relaxed_.begin(); }

 private:
  bool find_numbers();

  RelaxedCapture relaxed_;
  cudaStream_t stream_;
  std::optional<bool> is_captured_, can_keep_;
  std::optional<Context> context_;
  std::optional<Device> device_;
  unsigned long long stream_number_ = 0;
};

}  // namespace msda::kernels::cuda
