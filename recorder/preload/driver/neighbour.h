// Occupies a part of the device's multiprocessors for a while, on a stream of its own. A launch beside it runs with its
// blocks elsewhere, and in another order: what varies seldom shows.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "recorder/device/ptx.h"
#include "recorder/device/spin_launch.h"
#include "recorder/preload/driver/own_kernel.h"

namespace msda::record {

class Neighbour {
 public:
  static Neighbour& instance();

  // Begins, each time with another part; it ends by itself after half a millisecond. Best effort. Needs a current
  // context.
  void begin() noexcept;
  // It ends once the stream has done what it has to do now, and before the stream does anything else.
  void end_after(cuda::Stream stream) noexcept;
  void context_ends(cuda::Context context) noexcept;

 private:
  struct Device {
    cuda::Stream stream = nullptr;
    cuda::Event ended = nullptr;
    cuda::DevicePointer end = 0;  // a byte
    int multiprocessors = 0, shared_bytes = 0;
    uint8_t number = 0;  // of its neighbours, the last; the value of `end` that ends it
  };
  Device* device_of_this_context();
  bool prepare(Device& device);

  std::mutex mutex_;
  OwnKernel kernel_{kSpinPtx, kSpinKernel};
  std::map<cuda::Context, Device> devices_;
};

}  // namespace msda::record
