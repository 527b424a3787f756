#include "recorder/preload/survey/foreign_memory.h"

#include <algorithm>

#include "recorder/adapters/made_once.h"

namespace msda::record {

ForeignMemory& ForeignMemory::instance() {
  static constinit MadeOnce<ForeignMemory> memory;
  return memory.get();
}

template <class Change>
void ForeignMemory::change(Change&& change) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    change();
  } catch (...) {  // no memory
    is_all_ = true;
  }
  has_any_ = is_all_ || !bytes_.empty();
}

DeviceRange ForeignMemory::note(cuda::DevicePointer address) noexcept {
  cuda::DevicePointer base = 0;
  size_t bytes = 0;
  const auto range_of = cuda::driver().address_range;
  if (range_of == nullptr || range_of(&base, &bytes, address) != cuda::kSuccess) {
    base = address;
    bytes = 1;
  }
  change([&] { bytes_[base] = bytes; });
  return {base, bytes};
}

void ForeignMemory::forget(cuda::DevicePointer address) noexcept {
  change([&] {
    bytes_.erase(address);
    mappings_.erase(address);
  });
}

void ForeignMemory::mapped(const DeviceRange& range, uint64_t handle) noexcept {
  change([&] {
    mappings_[range.address] = {range.bytes, handle};
    if (shared_.contains(handle)) bytes_[range.address] = range.bytes;
  });
}

void ForeignMemory::shared(uint64_t handle) noexcept {
  change([&] {
    shared_.insert(handle);
    for (const auto& [address, mapping] : mappings_) {
      if (mapping.handle == handle) bytes_[address] = mapping.bytes;
    }
  });
}

bool ForeignMemory::has(const DeviceRange& range) const noexcept {
  if (!has_any_) return false;
  const std::lock_guard lock(mutex_);
  const auto after = bytes_.lower_bound(range.address + std::max<uint64_t>(range.bytes, 1));
  const bool overlaps = after != bytes_.begin() && std::prev(after)->first + std::prev(after)->second > range.address;
  return is_all_ || overlaps;
}

}  // namespace msda::record
