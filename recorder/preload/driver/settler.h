// Keeps what launches changed, and compares it, on their own stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "recorder/device/ptx.h"
#include "recorder/device/settle_launch.h"
#include "recorder/preload/driver/own_kernel.h"

namespace msda::record {

// Needs the stream's context to be current.
class Settler {
 public:
  static Settler& instance();
  static constexpr size_t kMostCounts = 512;

  // Adds to a number on the device (settle_launch.h). Returns false if the driver refuses.
  bool start(std::span<const SettledPiece> pieces, Settling settling, cuda::DevicePointer count,
             cuda::Stream stream) noexcept;

  // Begins to bring so many such numbers to the host, at most kMostCounts; those brought before are lost. Returns false
  // if the driver refuses.
  bool bring(cuda::DevicePointer counts, size_t number, cuda::Stream stream) noexcept;
  // Waits for them without a call for the stream, which may be captured meanwhile. Returns nothing if the device
  // failed.
  std::optional<std::vector<uint64_t>> brought() noexcept;

  // Called when a context ends, and with it the code that was loaded (cudaDeviceReset).
  void context_ends(cuda::Context context) noexcept;

 private:
  cuda::Event event_of_this_context();

  std::mutex mutex_;
  OwnKernel kernel_{kSettlePtx, kSettleKernel};
  struct alignas(4096) Page {
    uint64_t counts[kMostCounts] = {};
  };
  const std::unique_ptr<Page> page_ = std::make_unique<Page>();
  bool is_pinned_ = false;
  size_t brought_ = 0;
  cuda::Event event_ = nullptr;  // of what is brought last
  std::map<cuda::Context, cuda::Event> events_;
};

}  // namespace msda::record
