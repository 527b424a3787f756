#include "recorder/preload/trail/memory_map.h"

#include <iterator>

#include "recorder/preload/driver/own_memory.h"
#include "recorder/preload/survey/foreign_memory.h"
#include "recorder/preload/survey/reach.h"

namespace msda::record {

void MemoryMap::allocated(const DeviceRange& range, bool is_of_host, bool is_fresh, bool is_mapped) {
  if (range.bytes == 0) return;
  Region region{range.address, range.bytes, is_of_host, is_fresh};
  int device = 0;
  if (!is_mapped) {
    cuda::driver().current_context(&region.context);
    if (cuda::driver().current_device(&device) == cuda::kSuccess) region.device = device;
  }
  regions_[range.address] = region;
  regions_changed();
  ++no_addresses_since_;
}

void MemoryMap::freed(uint64_t address) {
  if (regions_.erase(address) > 0) regions_changed();
}

void MemoryMap::unmapped(const DeviceRange& range) {
  regions_.erase(regions_.lower_bound(range.address), regions_.lower_bound(range.address + range.bytes));
  regions_changed();
}

void MemoryMap::host_memory_changed() {
  ++no_addresses_since_;
  ++version_;
}

// Mapped memory belongs to no context, but a device reset frees it, too.
void MemoryMap::context_ends(cuda::Context context) {
  std::erase_if(regions_, [&](const auto& entry) {
    const Region& region = entry.second;
    return context == nullptr || region.context == nullptr || region.context == context;
  });
  regions_changed();
  ++no_addresses_since_;
}

std::optional<MemoryMap::Region> MemoryMap::find(uint64_t word) {
  if (word - hull_.address >= hull_.bytes) return ask_driver(word);  // as of most words
  const auto after = regions_.upper_bound(word);
  if (after != regions_.begin()) {
    Region& region = std::prev(after)->second;
    if (word - region.address < region.bytes) {
      find_device(region);
      return region;
    }
  }
  return ask_driver(word);
}

// Memory of the host and variables of modules lie where programs have their own memory: above 1 TiB, and with 47 bits.
// Most words are not in that range.
std::optional<MemoryMap::Region> MemoryMap::ask_driver(uint64_t word) {
  constexpr uint64_t kLeast = uint64_t{1} << 40, kEnd = uint64_t{1} << 47;
  if (word < kLeast || word >= kEnd) return std::nullopt;
  NoAddress& known = place_of(word);
  if (known.word == word && known.since == no_addresses_since_) return std::nullopt;
  const Allocation allocation = allocation_of(word);
  if (allocation.range.bytes > 0 && !cuda::is_own(allocation.range.address)) {
    Region region{allocation.range.address, allocation.range.bytes, allocation.is_of_host};
    find_device(region);
    ++passing_;
    return region;
  }
  known = {word, no_addresses_since_};
  return std::nullopt;
}

void MemoryMap::enter() {
  int device = 0;
  here_.reset();
  if (cuda::driver().current_device(&device) == cuda::kSuccess) here_ = device;
}

// Sets whether the current device may read the region.
void MemoryMap::find_device(Region& region) {
  if (region.is_of_host) return;
  if (!region.device && here_) region.device = device_of(region.address);
  if (!region.device || !here_) ++passing_;
  if (!here_) return;
  region.is_elsewhere = region.device != here_;
}

void MemoryMap::used(const Region& region) {
  const auto found = regions_.find(region.address);
  if (found != regions_.end()) found->second.is_fresh = false;
}

uint64_t MemoryMap::end_of(const Region& region, uint64_t until) {
  uint64_t end = region.address + region.bytes;
  for (auto next = regions_.find(end); end <= until && next != regions_.end() && next->first == end; ++next) {
    find_device(next->second);
    if (next->second.is_of_host != region.is_of_host || next->second.device != region.device) break;
    end += next->second.bytes;
  }
  return end;
}

void MemoryMap::regions_changed() {
  ++version_;
  hull_ = {};
  if (regions_.empty()) return;
  const auto& last = std::prev(regions_.end())->second;
  hull_ = {regions_.begin()->first, last.address + last.bytes - regions_.begin()->first};
}

}  // namespace msda::record
