// Maps addresses to the memory that launches may reach, as the hooks see it allocated and freed. Looking up a launch's
// parameters takes well under a microsecond, and the driver is asked only about unknown addresses.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>

#include "recorder/preload/driver/digester.h"

namespace msda::record {

// Not thread-safe.
class MemoryMap {
 public:
  struct Region {
    uint64_t address = 0, bytes = 0;
    // The host reads and writes it as well, and no hook sees that.
    bool is_of_host = false;
    bool is_fresh = false;  // nothing was done with it since it was allocated
    // It belongs to another device than the current one, which may be unable to reach it: it must not be read.
    bool is_elsewhere = false;
    cuda::Context context = nullptr;
    std::optional<int> device{};
  };

  // Needs the context in which it is allocated to be current. If it is mapped, its device is not known yet.
  void allocated(const DeviceRange& range, bool is_of_host, bool is_fresh, bool is_mapped = false);
  void freed(uint64_t address);
  void unmapped(const DeviceRange& range);
  // Forgets which words are no addresses: the driver may know memory of the host there by now.
  void host_memory_changed();
  // Forgets what was allocated in the context. Null: it is not known which context ends.
  void context_ends(cuda::Context context);

  // Looks from the current device from now on. Needs the context of the coming launch or copy to be current.
  void enter();
  // Returns the region that contains this address; nothing if none does. For memory that the hooks did not see, the
  // driver is asked each time, because the memory may be gone. Call it after enter().
  std::optional<Region> find(uint64_t word);
  // Marks the region as no longer fresh.
  void used(const Region& region);
  // Returns where contiguous memory of one device that starts with the region ends, or a place beyond `until`.
  uint64_t end_of(const Region& region, uint64_t until);
  // Returns a number that changes whenever find() or end_of() may answer otherwise than before. It does not count fresh
  // regions, nor answers that hold only for now: passing() counts those.
  uint64_t version() const { return version_; }
  uint64_t passing() const { return passing_; }
  // Returns the range from the first known region to the end of the last one.
  const DeviceRange& hull() const { return hull_; }

 private:
  std::optional<Region> ask_driver(uint64_t word);
  void find_device(Region& region);
  void regions_changed();

  std::map<uint64_t, Region> regions_;
  DeviceRange hull_{};
  std::optional<int> here_;  // the current device
  // Words of which the driver said that they are no addresses. Each has one place, and takes it from another. Programs
  // may allocate for each launch: all words are forgotten by counting up.
  struct NoAddress {
    uint64_t word = 0, since = 0;
  };
  static constexpr int kPlaceBits = 12;
  NoAddress& place_of(uint64_t word) { return no_addresses_[word * 0x9E3779B97F4A7C15 >> (64 - kPlaceBits)]; }
  std::array<NoAddress, size_t{1} << kPlaceBits> no_addresses_{};
  uint64_t no_addresses_since_ = 1;
  uint64_t version_ = 0, passing_ = 0;
};

}  // namespace msda::record
