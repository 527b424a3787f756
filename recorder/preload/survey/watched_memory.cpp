#include "recorder/preload/survey/watched_memory.h"

#include "recorder/preload/survey/first_sight.h"

namespace msda::record {

WatchedMemory::WatchedMemory(std::vector<DeviceRange> ranges, const std::function<uint64_t(uint64_t bytes)>& take)
    : ranges_(std::move(ranges)), before_(ranges_), now_(ranges_) {
  for (auto* copies : {&before_, &now_}) {
    for (DeviceRange& range : *copies) range.address = take(range.bytes);
  }
}

void WatchedMemory::copies_begin_at(cuda::DevicePointer begin) {
  for (auto* copies : {&before_, &now_}) {
    for (DeviceRange& range : *copies) range.address += begin;
  }
}

bool WatchedMemory::copy_to(const std::vector<DeviceRange>& copies, cuda::Stream stream) const {
  const auto copy = cuda::driver().copy_anywhere;
  for (size_t i = 0; i < ranges_.size(); ++i) {
    const auto& [address, bytes] = ranges_[i];
    if (copy == nullptr || copy(copies[i].address, address, bytes, stream) != cuda::kSuccess) return false;
  }
  return true;
}

std::optional<bool> WatchedMemory::is_changed(cuda::Stream stream) const {
  if (ranges_.empty()) return false;
  if (!copy_to(now_, stream)) return std::nullopt;
  const auto before = digests_of(before_, stream), now = digests_of(now_, stream);
  return before && now ? std::optional(*before != *now) : std::nullopt;
}

}  // namespace msda::record
