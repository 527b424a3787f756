// The program's allocations on its devices, and its streams, as the hooks have seen them. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "recorder/preload/driver/digester.h"

namespace msda::record {

class DeviceMemory {
 public:
  void allocated(const DeviceRange& range);
  void freed(uint64_t address);
  // Returns the range from their first byte to the last, over all devices.
  DeviceRange hull() const;
  // Returns the allocations that the driver places on the calling thread's device and that no other process has.
  std::vector<DeviceRange> allocations_here() const;

  void stream_created(cuda::Stream stream);
  void stream_destroyed(cuda::Stream stream);
  // Called before it gets work; it is of the calling thread's context unless it was created in another one.
  void stream_used(cuda::Stream stream);
  // Waits until no stream has anything left to do, except for those captured into graphs. Returns false if that takes
  // longer than so many seconds.
  bool wait_for_streams(double seconds);

  // Its streams end with it; allocations_here() finds out that its memory is gone. Null: it is not known which context.
  void context_ends(cuda::Context context);

 private:
  // The default streams have the same handles in every context.
  struct Known {
    cuda::Context context;
    cuda::Stream stream;
    auto operator<=>(const Known&) const = default;
  };
  Known known(cuda::Stream stream) const;
  std::vector<Known> streams_to_wait_for();
  bool wait_for_stream(const Known& used, double seconds);

  mutable std::mutex mutex_;
  std::map<uint64_t, uint64_t> bytes_;  // by address
  std::map<cuda::Stream, cuda::Context> streams_;
  // Streams that were given work since all were waited for. Work that no hook sees counts once its stream is found
  // busy: from time to time all streams are looked at.
  std::set<Known> used_, used_unseen_;
  unsigned waits_ = 0;
};

}  // namespace msda::record
