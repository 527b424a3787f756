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
  // Those in the memory of the calling thread's device, as the driver says, that no other process has.
  std::vector<DeviceRange> allocations_here() const;

  void stream_created(cuda::Stream stream);
  void stream_destroyed(cuda::Stream stream);
  // It is about to get something to do; of the calling thread's context unless it was created in another one.
  void stream_used(cuda::Stream stream);
  // Waits until no stream has anything left to do, but for those that are captured into graphs. False if that takes
  // longer than so many seconds.
  bool wait_for_streams(double seconds);

  // Its streams end with it. Of its memory allocations_here() finds that it is gone. Null: it is not known which.
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
  bool wait_for_stream(const Known& one, double seconds);

  mutable std::mutex mutex_;
  std::map<uint64_t, uint64_t> bytes_;  // by address
  std::map<cuda::Stream, cuda::Context> streams_;
  // Those that were given work since all were waited for. Work that no hook sees counts once its stream is found busy:
  // from time to time all are looked at.
  std::set<Known> used_, used_unseen_;
  unsigned waits_ = 0;
};

}  // namespace msda::record
