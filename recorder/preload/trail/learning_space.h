// Device memory for copies of what a launch reaches. Each stream has its own, so that nobody waits for it to be free.
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

  // Returns memory of so many bytes for the next work on the stream; 0 if that exceeds the share of the free memory.
  cuda::DevicePointer reserve(uint64_t bytes, cuda::Stream stream);
  // Frees the memory, because the program needs it. Waits for the device. Returns false if there is none to free.
  bool give_back();
  // Called when a context ends, and the memory with it. Null: it is not known which context.
  void context_ends(cuda::Context context);

 private:
  struct Memory {
    cuda::DevicePointer address = 0;
    uint64_t bytes = 0;
  };
  double share_;
  uint64_t taken_ = 0;
  std::map<std::pair<cuda::Context, cuda::Stream>, Memory> memory_;
  // Outgrown memory, not freed yet: freeing waits for the device, which may wait for this thread.
  std::vector<cuda::DevicePointer> outgrown_;
};

}  // namespace msda::record
