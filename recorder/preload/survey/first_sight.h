// Whether a launch changes memory that its parameters do not name, as one does that follows pointers in memory: the
// digests of all of the device's allocations, before and after it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "recorder/preload/survey/reach.h"

namespace msda::record {

// The digests of memory, once the stream has finished its earlier work. Nothing if the device does not compute them.
std::optional<std::vector<Digest>> digests_of(std::span<const DeviceRange> ranges, cuda::Stream stream);

enum class Touched { kNothing, kNamed, kOthers };

class FirstSight {
 public:
  // Before the launch. False if the device does not compute digests.
  bool begin(std::vector<DeviceRange> allocations, cuda::Stream stream);
  // After it: what it changed, of what it reaches and of the rest. Nothing if the device does not compute digests.
  std::optional<Touched> end(const Reach& reach) const;

 private:
  std::vector<DeviceRange> allocations_;
  std::vector<Digest> before_;
  cuda::Stream stream_ = nullptr;
};

}  // namespace msda::record
