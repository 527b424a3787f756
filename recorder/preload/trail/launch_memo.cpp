#define XXH_INLINE_ALL
#include "recorder/preload/trail/launch_memo.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "recorder/preload/launch/launch_facts.h"

namespace msda::record {

FoundLaunch::FoundLaunch(LaunchWords found) : words(std::move(found)), is_passing(words.is_passing) {
  constexpr uint64_t kLittle = 16;
  for (const PointerWord& pointer : words.pointers) reaches.push_back({pointer.address, kLittle});
}

LaunchMemo::Hash LaunchMemo::hash_of(std::span<const std::byte> key) {
  const XXH128_hash_t hash = XXH3_128bits(key.data(), key.size());
  return {hash.low64, hash.high64};
}

void LaunchMemo::enter(const Launched& launched, const Layout& layout, std::span<const std::byte> is_read,
                       const void* kernel) {
  key_.assign(kHeader + bytes_of(layout), std::byte{});  // there are gaps between parameters
  const auto pair = [](uint32_t low, uint32_t high) { return low | uint64_t{high} << 32; };
  const auto &grid = launched.grid, &block = launched.block;
  const uint64_t header[] = {reinterpret_cast<uintptr_t>(kernel), launched.shared_bytes, pair(grid[0], grid[1]),
                             pair(grid[2], block[0]), pair(block[1], block[2])};
  static_assert(sizeof header == kHeader);
  std::memcpy(key_.data(), header, sizeof header);
  const auto parameters = std::span(key_).subspan(kHeader);
  if (!read_parameters(launched, layout, parameters)) key_.resize(kHeader);
  const size_t count = std::min(key_.size() - kHeader, is_read.size());
  for (size_t i = 0; i < count; ++i) parameters[i] &= is_read[i];
  hash_ = hash_of(key_);
}

bool LaunchMemo::Entry::holds(uint64_t words_version_now) const {
  return words_version == words_version_now && launches_version == launch->launches->version();
}

std::shared_ptr<FoundLaunch> LaunchMemo::find(uint64_t words_version) {
  auto found = entries_.find(hash_.first);
  if (found == entries_.end()) {
    const auto before = entries_before_.find(hash_.first);
    if (before == entries_before_.end()) return nullptr;
    size_ += before->second.launch->words.bytes.size();
    found = entries_.insert(entries_before_.extract(before)).position;
  }
  const Entry& entry = found->second;
  return entry.rest_of_hash == hash_.second && entry.holds(words_version) ? entry.launch : nullptr;
}

LaunchMemo::Alike LaunchMemo::find_alike(uint64_t words_version) const {
  const Hash hash = hash_of_header();
  const auto found = last_.find(hash.first);
  if (found == last_.end()) return {};
  const auto& [entry, parameters] = found->second;
  if (entry.rest_of_hash != hash.second || !entry.holds(words_version)) return {};
  return {entry.launch, parameters};
}

// Forgets at times what was not found since it did so last: a program that repeats little must not fill the memory.
void LaunchMemo::keep(std::shared_ptr<FoundLaunch> launch, uint64_t words_version) {
  constexpr size_t kMost = 1 << 13, kMostBytes = 4 << 20, kMostChanges = 4;
  forget();
  const uint64_t launches_version = launch->launches->version();
  if (last_.size() >= kMost) last_.clear();
  const Hash hash = hash_of_header();
  Last& last = last_[hash.first];
  last.entry = {hash.second, launch, words_version, launches_version};
  last.parameters.assign(parameters().begin(), parameters().end());
  // What was on the stack before stands in unused places of its structures, and will hardly be there again.
  if (launch->changes.size() > kMostChanges) return;
  const size_t bytes = launch->words.bytes.size();
  if (entries_.size() >= kMost || size_ + bytes > kMostBytes) {
    entries_before_ = std::exchange(entries_, {});
    size_ = 0;
  }
  size_ += bytes;
  entries_.emplace(hash_.first, Entry{hash_.second, std::move(launch), words_version, launches_version});
}

void LaunchMemo::forget() {
  entries_before_.erase(hash_.first);
  const auto found = entries_.find(hash_.first);
  if (found == entries_.end()) return;
  size_ -= found->second.launch->words.bytes.size();
  entries_.erase(found);
}

void LaunchMemo::clear() {
  entries_.clear();
  entries_before_.clear();
  last_.clear();
  size_ = 0;
}

}  // namespace msda::record
