// A backward call of an operator's kernels for a GPU, as what takes it there sees it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/msda.h"

namespace msda::analysis {

// All tensors are contiguous, or what is left of contiguous ones when leading dimensions are cut.
class DeviceCall {
 public:
  virtual ~DeviceCall() = default;
  virtual std::unique_ptr<DeviceCall> copy() const = 0;

  // Returns its tensors, in host memory at first; whoever takes the call to a device puts addresses there instead.
  virtual std::vector<msda_tensor*> inputs() = 0;
  virtual std::vector<msda_tensor*> results() = 0;
  // Enqueues the work on a stream of the current device, a cudaStream_t.
  virtual msda_status run(void* stream) = 0;

  // Returns the device memory that the call takes: its tensors, and the most that its kernels allocate.
  virtual uint64_t device_bytes() const = 0;
  // Two calls for halves of the same memory, which together change no bit; none if it cannot be divided further.
  virtual std::vector<std::unique_ptr<DeviceCall>> halves() const = 0;
  // Returns what cannot be divided: "one head of one batch".
  virtual std::string least() const = 0;
};

// Bytes of the elements, wherever they lie.
uint64_t bytes_of(const msda_tensor& tensor);
uint64_t elements_of(const msda_tensor& tensor);
// Makes the tensor the part from index `first` of a dimension on, `count` long.
void cut(msda_tensor& tensor, int dimension, int64_t first, int64_t count);

}  // namespace msda::analysis
