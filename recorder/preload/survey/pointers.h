// The memory that a launch can reach by pointers in memory, as by a table of pointers: words in what it reaches that
// are addresses of allocations.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "recorder/preload/survey/reach.h"

namespace msda::record {

class Pointers {
 public:
  // Adds to `reach` the allocations that words in it point into, and those that words in these point into, be they on
  // the device or on the host. A number may look like a pointer; that costs a copy, no more. `allocations`: all of the
  // device's that may be meant. False if the device does not tell, or tells of too many. Waits for the stream.
  bool follow(Reach& reach, std::span<const DeviceRange> allocations, cuda::Stream stream);
  void context_ends();

 private:
  // Of memory of the host. False if there is too much of it.
  static bool follow_on_host(Reach& reach, const DeviceRange& range, const DeviceRange& all);
  // Words that may point out of the ranges; nothing if the device does not tell them all.
  std::optional<std::vector<uint64_t>> scan(std::span<const DeviceRange> ranges, const DeviceRange& all,
                                            cuda::Stream stream);
  cuda::DevicePointer found_of_this_context();

  cuda::Function kernel_ = nullptr;
  std::map<cuda::Context, cuda::DevicePointer> found_;
};

}  // namespace msda::record
