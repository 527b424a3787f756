// Memory for the copies that a survey makes of what launches reach: in each context as much as the largest launch
// needs, but no more than a share of what is free. Not thread-safe: the survey guards it.
#pragma once

#include <cstdint>
#include <map>

#include "recorder/preload/driver/driver_api.h"
#include "recorder/preload/driver/own_memory.h"

namespace msda::record {

// Returns the size rounded up to the driver's alignment, so that several fit one behind the other.
constexpr uint64_t aligned(uint64_t bytes) {
  constexpr uint64_t kAlignment = 512;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

class CopySpace {
 public:
  explicit CopySpace(double share) : share_(share) {}

  // Returns memory of so many bytes in the calling thread's context: on the device or, if there is no room, on the
  // host, where the device reaches it far more slowly. `left` says how often the host may be used, and is then
  // decremented. Returns 0 if the bytes exceed the share, or there is no room.
  cuda::DevicePointer reserve(uint64_t bytes, int64_t& left);
  // Frees the memory, because the program needs it. Returns false if there is none to free.
  bool give_back();
  // Called when a context ends, and the memory with it.
  void context_ends(cuda::Context context) { cuda::forget(memory_, context); }

 private:
  struct Memory {
    cuda::DevicePointer address = 0;
    uint64_t bytes = 0;
  };
  struct Places {
    Memory device, host;
  };
  struct Kind;  // of memory: how much is free, and how to take it and give it back
  static const Kind kOnDevice, kOnHost;
  cuda::DevicePointer grow(Memory& ours, const Kind& kind, uint64_t bytes) const;

  double share_;  // of the memory that is free or ours, at most
  std::map<cuda::Context, Places> memory_;
};

}  // namespace msda::record
