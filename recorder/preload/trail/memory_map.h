// The memory that launches may reach, by address, as the hooks see it allocated and freed: a launch's parameters are
// looked up here in well under a microsecond, and the driver is asked only about what is not known.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_set>

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
    // Of another device than the current one, which may not be able to reach it: it must not be read.
    bool is_elsewhere = false;
    cuda::Context context = nullptr;
    std::optional<int> device{};
  };

  // Needs the context to be current that it is allocated in. Mapped: nobody can tell yet of which device it is.
  void allocated(const DeviceRange& range, bool is_of_host, bool is_fresh, bool is_mapped = false);
  void freed(uint64_t address);
  void unmapped(const DeviceRange& range);
  // What was allocated in it is gone. Null: it is not known which ends.
  void context_ends(cuda::Context context);

  // Looks from the current device from now on. Needs the context to be current of the launch, or copy, that comes.
  void enter();
  // The region that this is an address in; nothing if it is none. Of memory that the hooks did not see the driver is
  // asked each time: it may have gone. After enter().
  std::optional<Region> find(uint64_t word);
  // It is fresh no more.
  void used(const Region& region);
  // Up to where memory of one device is allocated without a gap from the region on, or further than `until`.
  uint64_t end_of(const Region& region, uint64_t until);
  // Another number whenever find() and end_of() may answer otherwise than before, but for what they answered so far
  // that holds only for now: passing() counts that. What is fresh is none of it.
  uint64_t version() const { return version_; }
  uint64_t passing() const { return passing_; }
  // From the first known region to the end of the last one.
  const DeviceRange& hull() const { return hull_; }

 private:
  std::optional<Region> ask_driver(uint64_t word);
  void find_device(Region& region);
  void regions_changed();

  std::map<uint64_t, Region> regions_;
  DeviceRange hull_{};
  std::optional<int> here_;                    // the current device
  std::unordered_set<uint64_t> no_addresses_;  // words of which the driver said so
  uint64_t version_ = 0, passing_ = 0;
};

}  // namespace msda::record
