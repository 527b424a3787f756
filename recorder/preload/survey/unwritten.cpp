#include "recorder/preload/survey/unwritten.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace msda::record {
namespace {

std::vector<uint32_t> all_set(uint64_t words) {
  std::vector<uint32_t> bits(words_of_bits(words), ~uint32_t{0});
  if (const auto last = words % kWordsInBits; last != 0) bits.back() = (uint32_t{1} << last) - 1;
  return bits;
}

// Clears the bits from `begin` to before `end`. Returns how many were set.
uint64_t clear(std::vector<uint32_t>& bits, uint64_t begin, uint64_t end) {
  uint64_t count = 0;
  while (begin < end) {
    const uint64_t first = begin % kWordsInBits, some = std::min(kWordsInBits - first, end - begin);
    const uint32_t mask = (some == kWordsInBits ? ~uint32_t{0} : (uint32_t{1} << some) - 1) << first;
    uint32_t& word = bits[begin / kWordsInBits];
    count += static_cast<uint64_t>(std::popcount(word & mask));
    word &= ~mask;
    begin += some;
  }
  return count;
}

}  // namespace

void Unwritten::allocated(const DeviceRange& range) noexcept {
  const std::lock_guard lock(mutex_);
  allocations_.erase(range.address);
  const uint64_t words = range.bytes / kWordBytes;
  if (words == 0) return;
  try {
    allocations_[range.address] = {range.bytes, {words, words, {}}};
  } catch (...) {  // no memory: it counts as written
  }
}

void Unwritten::freed(uint64_t address) noexcept {
  const std::lock_guard lock(mutex_);
  allocations_.erase(address);
}

void Unwritten::written(const DeviceRange& range) noexcept { written_rows(range, 0, 1); }

void Unwritten::written_rows(const DeviceRange& row, uint64_t pitch, uint64_t rows) noexcept {
  // A program that asks for more rows waits long for them anyway. Counting the gaps as written leaves fewer words.
  constexpr uint64_t kMostRows = 1 << 20;
  const std::lock_guard lock(mutex_);
  if (rows == 0) return;
  try {
    if (pitch <= row.bytes || rows > kMostRows) return mark({row.address, (rows - 1) * pitch + row.bytes});
    for (uint64_t i = 0; i < rows && !allocations_.empty(); ++i) mark({row.address + i * pitch, row.bytes});
  } catch (...) {  // no memory for bits
    allocations_.clear();
  }
}

void Unwritten::mark(const DeviceRange& range) {
  const uint64_t end = range.address + range.bytes;
  if (range.bytes == 0 || end < range.address) return;
  auto next = allocations_.upper_bound(range.address);
  if (next != allocations_.begin()) --next;
  while (next != allocations_.end() && next->first < end) {
    const auto at = next++;
    auto& [address, allocation] = *at;
    if (address + allocation.bytes <= range.address) continue;
    auto& [words, count, bits] = allocation.unwritten;
    const uint64_t first = range.address > address ? (range.address - address) / kWordBytes : 0;
    const uint64_t last = std::min(words, (std::min(end - address, allocation.bytes) + kWordBytes - 1) / kWordBytes);
    if (first == 0 && last == words) {
      count = 0;
    } else if (first < last) {
      if (bits.empty()) bits = all_set(words);
      count -= clear(bits, first, last);
    }
    if (count == 0) allocations_.erase(at);
  }
}

void Unwritten::all_written() noexcept {
  const std::lock_guard lock(mutex_);
  allocations_.clear();
}

std::optional<Unwritten::Words> Unwritten::words_of(const DeviceRange& range) const {
  const std::lock_guard lock(mutex_);
  const auto found = allocations_.find(range.address);
  if (found == allocations_.end() || found->second.bytes > range.bytes) return std::nullopt;
  return found->second.unwritten;
}

void Unwritten::leave(uint64_t address, Words words) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = allocations_.find(address);
  if (found == allocations_.end()) return;
  if (words.count == 0) {
    allocations_.erase(found);
    return;
  }
  Words& now = found->second.unwritten;
  words.bits.resize(std::min(words.bits.size(), words_of_bits(now.all)));
  // A thread that did not wait for the survey may have written some since.
  for (size_t i = 0; i < std::min(words.bits.size(), now.bits.size()); ++i) words.bits[i] &= now.bits[i];
  now.bits = std::move(words.bits);
  now.count = 0;
  for (const uint32_t word : now.bits) now.count += static_cast<uint64_t>(std::popcount(word));
  if (now.count == 0) allocations_.erase(found);
}

}  // namespace msda::record
