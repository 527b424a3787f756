// Watches memory of the host, or of another device, that a launch or a graph reaches. Somebody else may use it
// meanwhile: what changes it must not run again.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "recorder/preload/driver/digester.h"

namespace msda::record {

class WatchedMemory {
 public:
  WatchedMemory() = default;
  // `take` returns where the copies of so many bytes will begin.
  WatchedMemory(std::vector<DeviceRange> ranges, const std::function<uint64_t(uint64_t bytes)>& take);
  void copies_begin_at(cuda::DevicePointer begin);

  // Copies it. Returns false if the driver refuses.
  bool keep(cuda::Stream stream) const { return copy_to(before_, stream); }
  // Returns whether it has changed since keep(). Nothing if the driver refuses.
  std::optional<bool> is_changed(cuda::Stream stream) const;

 private:
  bool copy_to(const std::vector<DeviceRange>& copies, cuda::Stream stream) const;

  std::vector<DeviceRange> ranges_, before_, now_;
};

}  // namespace msda::record
