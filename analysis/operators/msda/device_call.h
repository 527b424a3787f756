// Divides a backward pass over tensors in host memory by batch and head, for a device that cannot hold all of it. No
// sum goes over batches or heads, so the division changes no bit.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <stdexcept>

#include "kernels/msda.h"
#include "replay/gpu/driver.h"

namespace msda::replay {

// One call of msda_backward(); all tensors contiguous.
struct Backward {
  msda_call call;
  msda_tensor grad_output;
  msda_options options;
  std::array<msda_tensor, 3> results;  // grad_value, grad_sampling_locations, grad_attention_weights
};

struct Slice {
  int64_t batch, batches, head, heads;
};

// The slice's part of the call: views of the same memory.
Backward part_of(const Backward& whole, const Slice& slice);

// The memory layout of a tensor of a part.
gpu::Rows rows_of(const msda_tensor& part);

// The device memory that the pass takes: its tensors, and the most that msda_cuda_backward() allocates.
uint64_t device_bytes(const Backward& backward);

// Not even one head of one batch fits.
struct TooLarge : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Calls run() with the whole call, or with halves, quarters, ... that take no more than `budget` bytes. If run()
// returns false, the device's memory did not suffice, and further parts are smaller. Throws TooLarge.
void run_in_slices(const Backward& whole, uint64_t budget, const std::function<bool(const Backward&)>& run);

}  // namespace msda::replay
