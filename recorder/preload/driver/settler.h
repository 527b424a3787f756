// Keeps what launches changed, and compares it, on their own stream.
#pragma once

#include <mutex>
#include <span>

#include "recorder/device/ptx.h"
#include "recorder/device/settle_launch.h"
#include "recorder/preload/driver/own_kernel.h"

namespace msda::record {

class Settler {
 public:
  static Settler& instance();

  // Adds to `counts`, on the device, a number for each piece (settle_launch.h). False if the driver refuses. Needs the
  // stream's context to be current.
  bool start(std::span<const SettledPiece> pieces, Settling settling, cuda::DevicePointer counts,
             cuda::Stream stream) noexcept;

  // A context ends, and with it the code that was loaded (cudaDeviceReset).
  void context_ends() noexcept;

 private:
  std::mutex mutex_;
  OwnKernel kernel_{kSettlePtx, kSettleKernel};
};

}  // namespace msda::record
