// The operator on a GPU for tensors in host memory: copies them there, computes in as many parts as its memory
// requires, and copies the results back.
#pragma once

#include <optional>

#include "analysis/model/device_call.h"
#include "replay/gpu/driver.h"

namespace msda::replay {

// A stream of one GPU, for one thread at a time.
class GpuReplay {
 public:
  // Will take at most one of `shares` equal parts of the GPU's free memory, or of `memory` bytes unless that is 0. Does
  // nothing yet.
  GpuReplay(int gpu, uint64_t memory, uint64_t shares) : gpu_(gpu), memory_(memory), shares_(shares) {}

  int gpu() const { return gpu_; }
  // Throws gpu::Failure.
  void open();
  // Fills in the call's results, in parts that fit. Throws gpu::Failure; or std::runtime_error if not even the least
  // part fits, or with libmsda's message.
  void run(const analysis::DeviceCall& call);

 private:
  bool run_part(const analysis::DeviceCall& part);

  int gpu_;
  uint64_t memory_, shares_;
  std::optional<gpu::Device> device_;
  uint64_t budget_ = 0;
  gpu::DeviceMemory tensors_;  // kept from part to part
  uint64_t capacity_ = 0;
};

}  // namespace msda::replay
