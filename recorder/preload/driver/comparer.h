// Compares device memory on a launch's own stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

#include "recorder/device/compare_launch.h"
#include "recorder/preload/driver/driver_api.h"

namespace msda::record {

// Two pieces of device memory; both begin at multiples of 16.
struct ComparedPiece {
  cuda::DevicePointer address, other;
  uint64_t bytes;
};

class Comparer {
 public:
  static Comparer& instance();

  // Adds to `counts`, on the device, a number for each piece: of the 32-bit words that differ. False if the driver
  // refuses. Needs the stream's context to be current.
  bool start(std::span<const ComparedPiece> pieces, cuda::DevicePointer counts, cuda::Stream stream) noexcept;

  // A context ends, and with it the code that was loaded (cudaDeviceReset).
  void context_ends() noexcept;

 private:
  bool load();

  std::mutex mutex_;
  cuda::Function kernel_ = nullptr;
};

}  // namespace msda::record
