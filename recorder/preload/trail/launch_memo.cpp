#include "recorder/preload/trail/launch_memo.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "recorder/preload/launch/launch_facts.h"

namespace msda::record {
namespace {

constexpr size_t kLanes = 4;
constexpr size_t kLine = kLanes * sizeof(uint64_t);  // keys are multiples of it

// Mixes the key in lanes that do not wait for each other.
uint64_t hash_of_key(std::span<const std::byte> key) {
  std::array<uint64_t, kLanes> lanes{1, 2, 3, 4};
  for (size_t at = 0; at < key.size(); at += kLine) {
    for (size_t i = 0; i < kLanes; ++i) {
      uint64_t word = 0;
      std::memcpy(&word, key.data() + at + i * sizeof word, sizeof word);
      lanes[i] = (lanes[i] ^ word) * 0x9E3779B97F4A7C15;
      lanes[i] ^= lanes[i] >> 29;
    }
  }
  uint64_t hash = key.size();
  for (const uint64_t lane : lanes) hash = (hash ^ lane ^ hash >> 31) * 0xE7037ED1A0B428DB;
  return hash ^ hash >> 32;
}

}  // namespace

FoundLaunch::FoundLaunch(LaunchWords found) : words(std::move(found)), is_passing(words.is_passing) {
  constexpr uint64_t kLittle = 16;
  for (const PointerWord& pointer : words.pointers) reaches.push_back({pointer.address, kLittle});
}

void LaunchMemo::enter(const Launched& launched, const Layout& layout, std::span<const std::byte> is_read,
                       const void* kernel) {
  bytes_ = bytes_of(layout);
  key_.assign((kHeader + bytes_ + kLine - 1) / kLine * kLine, std::byte{});  // there are gaps between parameters
  std::byte* const parameters = key_.data() + kHeader;
  if (!read_parameters(launched, layout, {parameters, bytes_})) bytes_ = 0;
  const auto pair = [](uint32_t low, uint32_t high) { return low | uint64_t{high} << 32; };
  const auto &grid = launched.grid, &block = launched.block;
  const uint64_t header[] = {reinterpret_cast<uintptr_t>(kernel),
                             bytes_,
                             launched.shared_bytes,
                             pair(grid[0], grid[1]),
                             pair(grid[2], block[0]),
                             pair(block[1], block[2])};
  static_assert(sizeof header <= kHeader);
  std::memcpy(key_.data(), header, sizeof header);
  const size_t count = std::min(bytes_, is_read.size());
  for (size_t i = 0; i < count; ++i) parameters[i] &= is_read[i];
  hash_ = hash_of_key(key_);
  hash_of_header_ = hash_of_key(std::span(key_).first(kHeader));
}

bool LaunchMemo::Entry::holds(uint64_t words_version_now) const {
  return words_version == words_version_now && launches_version == launch->launches->version();
}

std::shared_ptr<FoundLaunch> LaunchMemo::find(uint64_t words_version) {
  auto found = entries_.find(hash_);
  if (found == entries_.end()) {
    const auto before = entries_before_.find(hash_);
    if (before == entries_before_.end()) return nullptr;
    size_ += before->second.launch->key.size();
    found = entries_.insert(entries_before_.extract(before)).position;
  }
  const Entry& entry = found->second;
  return entry.holds(words_version) && entry.launch->key == key_ ? entry.launch : nullptr;
}

std::shared_ptr<FoundLaunch> LaunchMemo::find_alike(uint64_t words_version) const {
  const auto found = last_.find(hash_of_header_);
  if (found == last_.end() || !found->second.holds(words_version)) return nullptr;
  const std::vector<std::byte>& key = found->second.launch->key;
  const bool is_same = key.size() == key_.size() && std::equal(key.begin(), key.begin() + kHeader, key_.begin());
  return is_same ? found->second.launch : nullptr;
}

// Forgets at times what was not found since it did so last: a program that repeats little must not fill the memory.
void LaunchMemo::keep(std::shared_ptr<FoundLaunch> launch, uint64_t words_version) {
  constexpr size_t kMost = 1 << 13, kMostBytes = 4 << 20;
  forget();
  if (entries_.size() >= kMost || size_ + key_.size() > kMostBytes) {
    entries_before_ = std::exchange(entries_, {});
    size_ = 0;
  }
  launch->key = key_;
  const uint64_t launches_version = launch->launches->version();
  if (last_.size() >= kMost) last_.clear();
  const Entry entry{std::move(launch), words_version, launches_version};
  last_.insert_or_assign(hash_of_header_, entry);
  entries_.emplace(hash_, entry);
  size_ += key_.size();
}

void LaunchMemo::forget() {
  entries_before_.erase(hash_);
  const auto found = entries_.find(hash_);
  if (found == entries_.end()) return;
  size_ -= found->second.launch->key.size();
  entries_.erase(found);
}

void LaunchMemo::clear() {
  entries_.clear();
  entries_before_.clear();
  last_.clear();
  size_ = 0;
}

}  // namespace msda::record
