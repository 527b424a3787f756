#include "recorder/preload/trail/memory_map.h"

#include <iterator>

#include "recorder/preload/driver/own_memory.h"
#include "recorder/preload/survey/foreign_memory.h"
#include "recorder/preload/survey/reach.h"

namespace msda::record {

void MemoryMap::allocated(const DeviceRange& range, bool is_of_host, bool is_fresh) {
  if (range.bytes == 0) return;
  regions_[range.address] = {range.address, range.bytes, is_of_host, is_fresh};
  find_hull();
  no_addresses_.clear();
}

void MemoryMap::freed(uint64_t address) {
  regions_.erase(address);
  find_hull();
}

void MemoryMap::context_ends() {
  regions_.clear();
  find_hull();
  no_addresses_.clear();
}

std::optional<MemoryMap::Region> MemoryMap::find(uint64_t word) {
  if (word - hull_.address >= hull_.bytes) return ask_driver(word);  // as of most words
  const auto after = regions_.upper_bound(word);
  if (after != regions_.begin()) {
    const Region& region = std::prev(after)->second;
    if (word - region.address < region.bytes) return region;
  }
  return ask_driver(word);
}

// Memory of the host and variables of modules lie where programs have their own memory: above 1 TiB, and with 47 bits.
// Most words are no such numbers.
std::optional<MemoryMap::Region> MemoryMap::ask_driver(uint64_t word) {
  constexpr uint64_t kLeast = uint64_t{1} << 40, kEnd = uint64_t{1} << 47;
  constexpr size_t kMostRemembered = 1 << 14;
  if (word < kLeast || word >= kEnd || no_addresses_.contains(word)) return std::nullopt;
  const Allocation allocation = allocation_of(word);
  if (allocation.range.bytes > 0 && !cuda::is_own(allocation.range.address)) {
    return Region{allocation.range.address, allocation.range.bytes, allocation.is_of_host, false};
  }
  if (no_addresses_.size() >= kMostRemembered) no_addresses_.clear();
  no_addresses_.insert(word);
  return std::nullopt;
}

void MemoryMap::used(const Region& region) {
  const auto found = regions_.find(region.address);
  if (found != regions_.end()) found->second.is_fresh = false;
}

uint64_t MemoryMap::end_of(uint64_t address) const {
  auto region = regions_.upper_bound(address);
  if (region == regions_.begin()) return address;
  --region;
  if (address - region->first >= region->second.bytes) return address;
  uint64_t end = region->first + region->second.bytes;
  while (++region != regions_.end() && region->first == end) end += region->second.bytes;
  return end;
}

void MemoryMap::find_hull() {
  hull_ = {};
  if (regions_.empty()) return;
  const auto& last = std::prev(regions_.end())->second;
  hull_ = {regions_.begin()->first, last.address + last.bytes - regions_.begin()->first};
}

}  // namespace msda::record
