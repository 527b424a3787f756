// Occupies a part of the device's multiprocessors for a while, on a stream of its own. The blocks of a launch beside it
// run elsewhere, and in another order, so that seldom variations show.
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

  // Begins to occupy another part each time; ends by itself after half a millisecond. Best effort. Needs a current
  // context.
  void begin() noexcept;
  // Ends it once the stream has done its present work, and before the stream does anything else.
  void end_after(cuda::Stream stream) noexcept;
  void context_ends(cuda::Context context) noexcept;

 private:
  struct Device {
    cuda::Stream stream = nullptr;
    cuda::Event ended = nullptr;
    cuda::DevicePointer end = 0;  // a byte
    int multiprocessors = 0, shared_bytes = 0;
    uint8_t number = 0;  // of the last of its neighbours; the value of `end` that ends it
  };
  Device* device_of_this_context();
  bool prepare(Device& device);

  std::mutex mutex_;
  OwnKernel kernel_{kSpinPtx, kSpinKernel};
  std::map<cuda::Context, Device> devices_;
};

}  // namespace msda::record
