// Fills memory that nobody wrote with a pattern, and finds out what depends on it, on a launch's own stream.
#pragma once

#include <mutex>
#include <span>

#include "recorder/device/ptx.h"
#include "recorder/device/unwritten_launch.h"
#include "recorder/preload/driver/own_kernel.h"

namespace msda::record {

class Poisoner {
 public:
  static Poisoner& instance();

  // `counts`, on the device, is that of UnwrittenTable: two numbers for each piece. Returns false if the driver
  // refuses. Needs the stream's context to be current.
  bool start(std::span<const UnwrittenPiece> pieces, UnwrittenTable::Mode mode, Poison poison,
             cuda::DevicePointer counts, cuda::Stream stream) noexcept;

  // Called when a context ends, and with it the code that was loaded (cudaDeviceReset).
  void context_ends() noexcept;

 private:
  std::mutex mutex_;
  OwnKernel kernel_{kUnwrittenPtx, kUnwrittenKernel};
};

}  // namespace msda::record
