#include "recorder/preload/survey/device_memory.h"

#include "recorder/preload/survey/reach.h"
#include "recorder/preload/survey/trial.h"

namespace msda::record {

void DeviceMemory::allocated(const DeviceRange& range) {
  const std::lock_guard lock(mutex_);
  bytes_[range.address] = range.bytes;
}

void DeviceMemory::freed(uint64_t address) {
  const std::lock_guard lock(mutex_);
  bytes_.erase(address);
}

std::vector<DeviceRange> DeviceMemory::allocations() const {
  std::vector<DeviceRange> all;
  const std::lock_guard lock(mutex_);
  for (const auto& [address, bytes] : bytes_) all.push_back({address, bytes});
  return all;
}

std::vector<DeviceRange> DeviceMemory::allocations_here() const {
  auto here = allocations();
  // One may have gone in a way that no hook sees, as a pool's memory does with the pool.
  std::erase_if(here, [](const DeviceRange& range) {
    return !is_memory_of_this_device(range.address) || !cuda::is_allocated(range.address, range.bytes);
  });
  return here;
}

void DeviceMemory::stream_created(cuda::Stream stream) {
  const std::lock_guard lock(mutex_);
  streams_.insert(stream);
}

void DeviceMemory::stream_destroyed(cuda::Stream stream) {
  const std::lock_guard lock(mutex_);
  streams_.erase(stream);
}

bool DeviceMemory::wait_for_streams(double seconds) const {
  std::set<cuda::Stream> all{nullptr, cuda::kStreamPerThread};
  {
    const std::lock_guard lock(mutex_);
    all.insert(streams_.begin(), streams_.end());
  }
  for (const cuda::Stream stream : all) {
    int capturing = 0;
    // To ask a stream that is captured what it has to do would end the capture.
    if (cuda::driver().is_capturing(stream, &capturing) != cuda::kSuccess || capturing != 0) continue;
    if (!wait_for(stream, seconds)) return false;
  }
  return true;
}

void DeviceMemory::context_ends() {
  const std::lock_guard lock(mutex_);
  bytes_.clear();
  streams_.clear();
}

}  // namespace msda::record
