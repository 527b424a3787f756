// Remembers what was found out about a launch for the next equal launch: programs repeat their launches step by step,
// at the same addresses, and looking up each address takes longer than the launch does.
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

// What a launch whose parts are known writes.
struct KnownWrites {
  uint32_t parts = 0;              // their entry of the trail's list
  std::vector<RowPart> ranges;     // by the offset of the address
  std::vector<DeviceRange> plain;  // the same, without the offsets
};

// What is the same each time that a launch is repeated.
struct FoundLaunch {
  explicit FoundLaunch(LaunchWords words);

  spool::TrailRow row;  // its kernel and configuration
  LaunchWords words;
  FunctionLaunches* launches = nullptr;  // those of its kernel and configuration
  LaunchVariant* variant = nullptr;      // of these
  ChangedWords changes;                  // FunctionLaunches::changes_of()
  std::vector<DeviceRange> reaches;      // allocations at its addresses
  std::shared_ptr<KnownWrites> writes;   // null until its parts are known
  bool has_notes = true;           // some of its memory gets rows of its own: fresh memory once, the host's each time
  bool may_write_anywhere = true;  // else only what it wrote before, as far as is known
  bool is_passing = false;         // the next equal launch may differ from it, and nothing shows that
};

// Remembers what launches with equal parameters, kernel and configuration have in common, while the same memory is
// allocated and their variant stays the same. Not thread-safe.
class LaunchMemo {
 public:
  // Sets the launch that comes. `kernel` distinguishes kernels.
  void enter(const Launched& launched, const Layout& layout, std::span<const std::byte> is_read, const void* kernel);
  // Returns its parameters, with 0 for bytes that the kernel does not read. Empty if they are missing.
  std::span<const std::byte> parameters() const { return std::span(key_).subspan(kHeader); }
  // Returns what is known of it; null if nothing is, or if that may be outdated. `words_version` is that of
  // version_of_words().
  std::shared_ptr<FoundLaunch> find(uint64_t words_version);
  struct Alike {
    std::shared_ptr<FoundLaunch> launch;
    std::span<const std::byte> parameters;  // as parameters() returns them; valid until keep() or clear()
  };
  // Returns the last launch of this kernel and configuration, whatever its parameters; null as find() does.
  Alike find_alike(uint64_t words_version) const;
  // Returns what is known of a launch of this kernel and configuration, and with the same addresses, that differs only
  // in words that decide nothing: its `changes` are not those of the launch that comes. Null as find() does.
  std::shared_ptr<FoundLaunch> find_of_kind(uint64_t words_version);
  // keep() remembers this for the launch that comes, in place of what was known of it; forget() forgets that.
  void keep(std::shared_ptr<FoundLaunch> launch, uint64_t words_version);
  void forget();
  void clear();

 private:
  static constexpr size_t kHeader = 40;  // bytes: the kernel and the configuration
  // Equal hashes of 128 bits count as equal keys: reading the keys would take longer than all else.
  using Hash = std::pair<uint64_t, uint64_t>;
  static Hash hash_of(std::span<const std::byte> key);
  Hash hash_of_header() const { return hash_of(std::span(key_).first(kHeader)); }
  Hash hash_of_kind(const LaunchVariant& kind);
  std::shared_ptr<FoundLaunch> find(const Hash& hash, uint64_t words_version);
  void keep(const Hash& hash, std::shared_ptr<FoundLaunch> launch, uint64_t words_version);
  void forget(const Hash& hash);
  struct Entry {
    uint64_t rest_of_hash;
    std::shared_ptr<FoundLaunch> launch;
    uint64_t words_version, launches_version;
    bool holds(uint64_t words_version_now) const;
  };
  struct Last {
    Entry entry;
    std::vector<std::byte> parameters;
  };
  std::unordered_map<uint64_t, Entry> entries_, entries_before_;  // by the first half of the key's hash
  std::unordered_map<uint64_t, Last> last_;                       // by that of the header's
  size_t size_ = 0;                                               // of the parameters of entries_
  std::vector<std::byte> key_;                                    // of the launch that comes: a header, parameters
  Hash hash_;                                                     // of the key
  std::vector<std::byte> key_of_kind_;                            // a header, a kind, and addresses
};

}  // namespace msda::record
