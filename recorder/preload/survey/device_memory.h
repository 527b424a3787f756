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
  // From the first byte of them to the last, for all devices.
  DeviceRange hull() const;
  // Those in the memory of the calling thread's device, as the driver says.
  std::vector<DeviceRange> allocations_here() const;

  void stream_created(cuda::Stream stream);
  void stream_destroyed(cuda::Stream stream);
  // It is about to get something to do.
  void stream_used(cuda::Stream stream);
  // Waits until no stream has anything left to do, but for those that are captured into graphs. False if that takes
  // longer than so many seconds.
  bool wait_for_streams(double seconds);

  void context_ends();

 private:
  std::vector<cuda::Stream> streams_to_wait_for();

  mutable std::mutex mutex_;
  std::map<uint64_t, uint64_t> bytes_;  // by address
  // All, and those of them that were given work since all were waited for. Work that no hook sees counts once its
  // stream is found busy: from time to time all are looked at.
  std::set<cuda::Stream> streams_, used_, used_unseen_;
  unsigned waits_ = 0;
};

}  // namespace msda::record
