// Memory of this device that another process may read and write meanwhile, because it was exported to it or imported
// from it. A launch that changes it must not run again.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>

#include "recorder/preload/driver/digester.h"

namespace msda::record {

// Thread-safe; none of its functions throws. If the host has no memory left, all of the device's counts as foreign.
class ForeignMemory {
 public:
  static ForeignMemory& instance();

  // Notes the allocation that contains this address, and returns its range; only the address if the driver does not
  // give the range.
  DeviceRange note(cuda::DevicePointer address) noexcept;
  // Forgets memory that is freed, closed or unmapped.
  void forget(cuda::DevicePointer address) noexcept;
  // Notes which of cuMemCreate's memory is mapped to which addresses, and that others may map it, too.
  void mapped(const DeviceRange& range, uint64_t handle) noexcept;
  void shared(uint64_t handle) noexcept;

  // Returns whether some of it is foreign.
  bool has(const DeviceRange& range) const noexcept;

 private:
  template <class Change>
  void change(Change&& change) noexcept;

  std::atomic<bool> has_any_{false};
  mutable std::mutex mutex_;  // guards the members below
  bool is_all_ = false;
  std::map<uint64_t, uint64_t> bytes_;  // by address
  struct Mapping {
    uint64_t bytes, handle;
  };
  std::map<uint64_t, Mapping> mappings_;
  std::set<uint64_t> shared_;
};

}  // namespace msda::record
