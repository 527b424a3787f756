// The operator on a GPU for tensors in host memory: there, computed in as many parts as its memory asks for, and back.
#pragma once

#include <optional>

#include "replay/gpu_driver.h"
#include "replay/slices.h"

namespace msda::replay {

// A stream of one GPU, for one thread at a time.
class GpuReplay {
 public:
  // As msda_cuda_backward(), which tests replace on machines without a GPU.
  using Operator = decltype(&msda_cuda_backward);

  // To take no more than a part of `shares` of the GPU's free memory, nor of `memory` bytes unless they are 0. Nothing
  // is done yet.
  GpuReplay(int gpu, uint64_t memory, uint64_t shares, Operator backward = msda_cuda_backward)
      : gpu_(gpu), memory_(memory), shares_(shares), backward_(backward) {}

  int gpu() const { return gpu_; }
  // Throws gpu::Failure.
  void open();
  // As msda_backward(). Throws gpu::Failure, TooLarge, or std::runtime_error with what the operator says.
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
