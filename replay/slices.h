// A backward pass over tensors in host memory, cut by batch and head for a device that cannot hold it whole. No sum
// goes over batches or heads, so no cut changes a bit.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <stdexcept>

#include "kernels/msda.h"
#include "replay/gpu_driver.h"

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

// The slice's part of it: views of the same memory.
Backward part_of(const Backward& whole, const Slice& slice);

// How a tensor of a part lies in memory.
gpu::Rows rows_of(const msda_tensor& part);

// The device memory that the pass takes: its tensors, and the most that msda_cuda_backward() has beside them.
uint64_t device_bytes(const Backward& backward);

// Not even one head of one batch fits.
struct TooLarge : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Calls run() with the whole, or with halves, quarters, ... of it that take no more than `budget` bytes. Where run()
// returns false, the device's memory did not suffice after all, and parts become smaller from there on. Throws
// TooLarge.
void run_in_slices(const Backward& whole, uint64_t budget, const std::function<bool(const Backward&)>& run);

}  // namespace msda::replay
