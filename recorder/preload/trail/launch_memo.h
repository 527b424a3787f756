// What was found out about a launch, for the same launch again: programs repeat their launches step by step, at the
// same addresses, and to look up each address takes longer than the launch does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "recorder/preload/launch/launch.h"
#include "recorder/preload/trail/launch_words.h"
#include "recorder/preload/trail/row_digests.h"
#include "recorder/preload/trail/written_parts.h"

namespace msda::record {

// What a launch of known parts writes.
struct KnownWrites {
  uint32_t parts = 0;              // their entry of the trail's list
  std::vector<RowPart> ranges;     // by the offset of the address
  std::vector<DeviceRange> plain;  // the same, without the offsets
  bool was_digested = false;       // in this context, so that to digest it again loads no code
};

// A launch as far as it is the same each time.
struct FoundLaunch {
  explicit FoundLaunch(LaunchWords words);

  spool::TrailRow row;  // its kernel and configuration
  LaunchWords words;
  FunctionLaunches* launches = nullptr;                // those of its kernel and configuration
  LaunchVariant* variant = nullptr;                    // of these
  std::vector<std::pair<uint32_t, uint64_t>> changes;  // FunctionLaunches::changes_of()
  std::vector<DeviceRange> reaches;                    // at each address a little
  std::shared_ptr<KnownWrites> writes;                 // null until its parts are known
  bool has_notes = true;    // some of its memory has rows of its own: what is fresh, once, and what is the host's
  bool is_passing = false;  // it may be another one next time, with nothing that tells so
};

// What launches with equal parameters, kernel and configuration have in common, as long as the same memory is
// allocated, and what the variant's launches are is not seen otherwise. Not thread-safe.
class LaunchMemo {
 public:
  // The launch that comes. `kernel` tells kernels apart.
  void enter(const Launched& launched, const Layout& layout, std::span<const std::byte> is_read, const void* kernel);
  // Its parameters; the bytes that the kernel does not read are 0. Empty if they are missing.
  std::span<const std::byte> parameters() const { return std::span(key_).subspan(kHeader, bytes_); }
  // What is known of it; null if that is nothing, or may not hold any more. `words_version`: of version_of_words().
  std::shared_ptr<FoundLaunch> find(uint64_t words_version) const;
  // Of the launch that comes, and in place of what was known of it before; or nothing is known of it.
  void keep(std::shared_ptr<FoundLaunch> launch, uint64_t words_version);
  void forget();
  void clear();

 private:
  static constexpr size_t kHeader = 64;  // bytes: the kernel and the configuration
  struct Entry {
    std::vector<std::byte> key;
    std::shared_ptr<FoundLaunch> launch;
    uint64_t words_version, launches_version;
  };
  std::unordered_map<uint64_t, Entry> entries_;  // by the hash of the key
  size_t size_ = 0;                              // of their keys
  std::vector<std::byte> key_;                   // of the launch that comes
  size_t bytes_ = 0;                             // of its parameters
  uint64_t hash_ = 0;
};

}  // namespace msda::record
