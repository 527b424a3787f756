// A call as the CUDA kernels take it: sizes, conventions, and contiguous tensors of one floating-point type in device
// memory. Made by kernels/cuda/msda/api.cpp from a checked call.
#pragma once

#include <cstdint>

#include "kernels/cpu/table.h"
#include "kernels/cuda/common/division.h"
#include "kernels/msda.h"

namespace msda::kernels::cuda {

using cpu::Level;

// The levels, in the kernel's parameters if they fit, which saves a copy to the device.
struct Levels {
  static constexpr int kNear = 16;
  const Level* far;  // in device memory, or null
  Level near[kNear];
};

template <class Stored>
struct Problem {
  int64_t B, S, M, D, L, Q, P;
  Division by_M;
  msda_dialect dialect;
  msda_padding padding;
  bool align_corners;
  Levels levels;
  const Stored* value;
  const Stored* sampling_locations;
  const Stored* attention_weights;
  const Stored* grad_output;  // null in a forward pass
  uint32_t first_head;        // batch * M + m, of those that grad_value is computed for at a time
};

}  // namespace msda::kernels::cuda
