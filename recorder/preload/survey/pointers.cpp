#include "recorder/preload/survey/pointers.h"

#include <cstring>

namespace msda::record {

bool follow_on_host(Reach& reach, const DeviceRange& all) {
  constexpr uint64_t kMostBytes = 64 << 20;
  constexpr size_t kWord = sizeof(uint64_t);
  const auto shared = reach.shared;  // more is added on the way
  for (const DeviceRange& range : shared) {
    const std::byte* const memory = on_host(range.address);
    if (memory == nullptr) continue;
    if (range.bytes > kMostBytes) return false;
    for (uint64_t at = 0; at + kWord <= range.bytes; at += kWord) {
      uint64_t word = 0;
      std::memcpy(&word, memory + at, kWord);
      if (word - all.address < all.bytes) reach.add_allocation_of(word);
    }
  }
  return true;
}

}  // namespace msda::record
