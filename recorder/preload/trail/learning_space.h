// Device memory for copies of what a launch reaches, in which nobody waits for it to be free: each stream has its own.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "recorder/preload/driver/driver_api.h"

namespace msda::record {

// Not thread-safe.
class LearningSpace {
 public:
  explicit LearningSpace(double share) : share_(share) {}

  // Memory of so many bytes for the next work on the stream. 0 if that is more than the share of what is free.
  cuda::DevicePointer reserve(uint64_t bytes, cuda::Stream stream);
  // The program needs the memory more. Waits for the device. False if there is none.
  bool give_back();
  // A context ends, and with it the memory. Null: it is not known which.
  void context_ends(cuda::Context context);

 private:
  struct Memory {
    cuda::DevicePointer address = 0;
    uint64_t bytes = 0;
  };
  double share_;
  uint64_t taken_ = 0;
  std::map<std::pair<cuda::Context, cuda::Stream>, Memory> memory_;
  // Outgrown: to free memory is to wait for the device, which may wait for this thread.
  std::vector<cuda::DevicePointer> outgrown_;
};

}  // namespace msda::record
