#define XXH_INLINE_ALL
#include "recorder/preload/trail/launch_memo.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "recorder/preload/launch/launch_facts.h"

namespace msda::record {
namespace {

constexpr size_t kMostEntries = 1 << 13;

}  // namespace

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

std::shared_ptr<FoundLaunch> LaunchMemo::find(uint64_t words_version) { return find(hash_, words_version); }

std::shared_ptr<FoundLaunch> LaunchMemo::find_of_kind(uint64_t words_version) {
  const Hash hash = hash_of_header();
  const auto last = last_.find(hash.first);
  if (last == last_.end() || last->second.entry.rest_of_hash != hash.second) return nullptr;
  const LaunchVariant* const kind = last->second.entry.launch->launches->kind_of(parameters());
  return kind != nullptr ? find(hash_of_kind(*kind), words_version) : nullptr;
}

LaunchMemo::Hash LaunchMemo::hash_of_kind(const LaunchVariant& kind) {
  key_of_kind_.assign(key_.begin(), key_.begin() + kHeader);
  const auto append = [this](uint64_t word) {
    const auto* begin = reinterpret_cast<const std::byte*>(&word);
    key_of_kind_.insert(key_of_kind_.end(), begin, begin + sizeof word);
  };
  append(reinterpret_cast<uintptr_t>(&kind));
  for (size_t i = 0; (i + 1) * kWord <= kind.bytes.size(); ++i) {
    if (word_in(kind.bytes, i * kWord) == spool::TrailRow::kAddress && !kind.is_indifferent_as_a_whole(i)) {
      append(word_in(parameters(), i * kWord));
    }
  }
  return hash_of(key_of_kind_);
}

std::shared_ptr<FoundLaunch> LaunchMemo::find(const Hash& hash, uint64_t words_version) {
  auto found = entries_.find(hash.first);
  if (found == entries_.end()) {
    const auto before = entries_before_.find(hash.first);
    if (before == entries_before_.end()) return nullptr;
    size_ += before->second.launch->words.bytes.size();
    found = entries_.insert(entries_before_.extract(before)).position;
  }
  const Entry& entry = found->second;
  return entry.rest_of_hash == hash.second && entry.holds(words_version) ? entry.launch : nullptr;
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
  constexpr size_t kMostChanges = 4;
  forget();
  if (last_.size() >= kMostEntries) last_.clear();
  const Hash hash = hash_of_header();
  Last& last = last_[hash.first];
  last.entry = {hash.second, launch, words_version, launch->launches->version()};
  last.parameters.assign(parameters().begin(), parameters().end());
  if (launch->launches->kind_of(parameters()) == launch->variant) {
    keep(hash_of_kind(*launch->variant), launch, words_version);
  }
  // Many values that decide nothing will hardly come again.
  if (launch->changes.size() <= kMostChanges) keep(hash_, std::move(launch), words_version);
}

void LaunchMemo::keep(const Hash& hash, std::shared_ptr<FoundLaunch> launch, uint64_t words_version) {
  constexpr size_t kMostBytes = 4 << 20;
  forget(hash);
  const uint64_t launches_version = launch->launches->version();
  const size_t bytes = launch->words.bytes.size();
  if (entries_.size() >= kMostEntries || size_ + bytes > kMostBytes) {
    entries_before_ = std::exchange(entries_, {});
    size_ = 0;
  }
  size_ += bytes;
  entries_.emplace(hash.first, Entry{hash.second, std::move(launch), words_version, launches_version});
}

void LaunchMemo::forget() { forget(hash_); }

void LaunchMemo::forget(const Hash& hash) {
  entries_before_.erase(hash.first);
  const auto found = entries_.find(hash.first);
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
