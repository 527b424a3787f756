// Copies strided tensors from the device without their gaps, which may be many times larger than the elements of a
// slice.
#pragma once

#include <cstddef>
#include <mutex>

#include "recorder/device/gather_launch.h"
#include "recorder/device/ptx.h"
#include "recorder/preload/driver/own_kernel.h"
#include "recorder/tensors/tensor.h"

namespace msda::record {

class Gatherer {
 public:
  static Gatherer& instance();

  // Returns false once an attempt in this context has failed.
  bool works() noexcept;
  // Copies from the first element on, into pinned memory, on the stream. Returns false, with nothing begun, if the
  // memory is not pinned, the driver refuses, or there are too many dimensions. Needs the stream's context to be
  // current.
  bool start(const tensors::RowMajorCopy& copy, cuda::DevicePointer from, std::byte* to, cuda::Stream stream) noexcept;

  // A context ends, and with it the code that was loaded (cudaDeviceReset).
  void context_ends() noexcept;

 private:
  Gatherer() = default;
  bool launch(GatherTable& table, cuda::Stream stream);

  std::mutex mutex_;
  bool fails_ = false;
  OwnKernel kernel_{kGatherPtx, kGatherKernel};
};

}  // namespace msda::record
