// The operator on a GPU for tensors in host memory: copies them there, computes in as many parts as its memory
// requires, and copies the results back.
#pragma once

#include <optional>

#include "replay/gpu/driver.h"
#include "replay/gpu/slices.h"

namespace msda::replay {

// A stream of one GPU, for one thread at a time.
class GpuReplay {
 public:
  // The signature of msda_cuda_backward(), which tests replace on machines without a GPU.
  using Operator = decltype(&msda_cuda_backward);

  // Will take at most one of `shares` equal parts of the GPU's free memory, or of `memory` bytes unless that is 0. Does
  // nothing yet.
  GpuReplay(int gpu, uint64_t memory, uint64_t shares, Operator backward = msda_cuda_backward)
      : gpu_(gpu), memory_(memory), shares_(shares), backward_(backward) {}

  int gpu() const { return gpu_; }
  // Throws gpu::Failure.
  void open();
  // Like msda_backward(). Throws gpu::Failure, TooLarge, or std::runtime_error with the operator's message.
  void run(const Backward& backward);

 private:
  bool run_part(const Backward& part);

  int gpu_;
  uint64_t memory_, shares_;
  Operator backward_;
  std::optional<gpu::Device> device_;
  uint64_t budget_ = 0;
  gpu::DeviceMemory tensors_;  // kept from part to part
  uint64_t capacity_ = 0;
};

}  // namespace msda::replay
