// Finds the device memory that a launch can reach by its parameters, whatever they mean: the allocations that their
// 8-byte words point into.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "recorder/preload/driver/digester.h"

namespace msda::record {

// Allocations, sorted by address; none occurs twice, and none overlaps another.
class Reach {
 public:
  void add(const DeviceRange& range);
  // Adds the allocation that contains this address, if there is one.
  void add_allocation_of(uint64_t word);
  std::span<const DeviceRange> ranges() const { return ranges_; }
  // Returns the number of pieces of memory, including shared ones.
  size_t size() const { return ranges_.size() + shared.size(); }
  uint64_t bytes() const;
  // Returns whether the address lies in one of them.
  bool has(uint64_t address) const;
  // Returns whether somebody else may read or write some of it without a call that the recorder sees: `shared`, or
  // managed memory, which is the host's as well.
  bool is_seen_by_others() const { return is_of_host_as_well_ || !shared.empty(); }

  // Memory of the host, of another device, or that other processes have, too. Somebody else may read or write it
  // meanwhile, so a launch that changes it must not run again.
  std::vector<DeviceRange> shared;

 private:
  std::vector<DeviceRange> ranges_;
  bool is_of_host_as_well_ = false;
};

// Returns whether the current device may read and write this memory, and it is neither the host's nor another device's.
// Managed memory belongs to the device where it was allocated.
bool is_memory_of_this_device(cuda::DevicePointer address);

// The allocation of an address, as the driver knows it; without bytes if it is none.
struct Allocation {
  DeviceRange range{};
  bool is_of_host = false;  // its own, or managed memory
};
Allocation allocation_of(cuda::DevicePointer address);

// Returns which device this address of device memory belongs to, if the current device may read and write it; otherwise
// nothing.
std::optional<int> device_of(cuda::DevicePointer address);

// Returns where the host finds memory of its own that devices reach; null if it is none.
const std::byte* on_host(cuda::DevicePointer address);

// Needs the launch's context to be current. `parameters` are their bytes, at their offsets.
Reach reach_of(std::span<const std::byte> parameters);

}  // namespace msda::record
