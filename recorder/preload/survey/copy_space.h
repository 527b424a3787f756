// Memory for the copies that a survey makes of what a launch reaches: in each context as much as the largest needs, and
// no more than a share of what is free. Not thread-safe: the survey guards it.
#pragma once

#include <cstdint>
#include <map>

#include "recorder/preload/driver/driver_api.h"
#include "recorder/preload/driver/own_memory.h"

namespace msda::record {

// Sizes of which several fit one behind the other, aligned as the driver aligns allocations.
constexpr uint64_t aligned(uint64_t bytes) {
  constexpr uint64_t kAlignment = 512;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

class CopySpace {
 public:
  explicit CopySpace(double share) : share_(share) {}

  // Memory of so many bytes, in the calling thread's context: on the device, or, if there is no room, on the host,
  // where the device reaches it far more slowly; of the latter `left` says how often, and becomes one less. 0 if that
  // is more than the share, or there is none.
  cuda::DevicePointer reserve(uint64_t bytes, int64_t& left);
  // The program needs the memory more. False if there is none.
  bool give_back();
  // A context ends, and with it the memory.
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
