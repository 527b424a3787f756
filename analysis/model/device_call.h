// A backward call of an operator's kernels for a GPU, as what takes it there sees it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/msda.h"

namespace msda::analysis {

struct DeviceCall {
  // In host memory at first; what takes the call to a device puts addresses there instead. Contiguous, or what is left
  // of contiguous tensors when leading dimensions are cut.
  std::vector<msda_tensor> inputs{}, results{};
  // Enqueues the work on a stream of the current device, a cudaStream_t.
  std::function<msda_status(const DeviceCall& call, void* stream)> run{};
  // Returns the most device memory that the kernels allocate, in bytes.
  std::function<uint64_t(const DeviceCall& call)> allocated{};
  // Dimensions of every tensor over which no sum goes, in the order in which the call is divided along them, and what
  // cannot be divided: "one head of one batch".
  std::vector<int> divisible{};
  const char* least = "";

  // Returns the device memory that the call takes, its tensors included.
  uint64_t device_bytes() const;
  // Returns two calls for halves of the same memory, which together change no bit; none if it cannot be divided
  // further.
  std::vector<DeviceCall> halves() const;
};

// Makes the tensor the part from index `first` of a dimension on, `count` long.
void keep_part(msda_tensor& tensor, int dimension, int64_t first, int64_t count);

// Bytes of the elements, wherever they lie.
uint64_t bytes_of(const msda_tensor& tensor);
uint64_t elements_of(const msda_tensor& tensor);

}  // namespace msda::analysis
