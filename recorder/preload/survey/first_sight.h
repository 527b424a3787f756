// Finds out whether a launch changes memory that its parameters do not name, as one does that follows pointers in
// memory, by the digests of all of the device's allocations before and after it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "recorder/preload/survey/reach.h"

namespace msda::record {

// Returns the digests of memory, once the stream has finished its earlier work. Nothing if the device does not compute
// them.
std::optional<std::vector<Digest>> digests_of(std::span<const DeviceRange> ranges, cuda::Stream stream);

enum class Touched { kNothing, kNamed, kOthers };

class FirstSight {
 public:
  // Call it before the launch. Returns false if the device does not compute digests.
  bool begin(std::vector<DeviceRange> allocations, cuda::Stream stream);
  // Call it after the launch. Returns what it changed, inside and outside of what it reaches; nothing if the device
  // does not compute digests.
  std::optional<Touched> end(const Reach& reach) const;

 private:
  std::vector<DeviceRange> allocations_;
  std::vector<Digest> before_;
  cuda::Stream stream_ = nullptr;
};

}  // namespace msda::record
