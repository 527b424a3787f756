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

DeviceRange DeviceMemory::hull() const {
  const std::lock_guard lock(mutex_);
  if (bytes_.empty()) return {};
  const auto& [last, bytes] = *bytes_.rbegin();
  return {bytes_.begin()->first, last + bytes - bytes_.begin()->first};
}

std::vector<DeviceRange> DeviceMemory::allocations_here() const {
  std::vector<DeviceRange> here;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [address, bytes] : bytes_) here.push_back({address, bytes});
  }
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
  for (auto* streams : {&streams_, &used_, &used_unseen_}) streams->erase(stream);
}

void DeviceMemory::stream_used(cuda::Stream stream) {
  const std::lock_guard lock(mutex_);
  used_.insert(stream);
}

std::vector<cuda::Stream> DeviceMemory::streams_to_wait_for() {
  constexpr unsigned kOften = 64;
  const std::lock_guard lock(mutex_);
  std::set<cuda::Stream> some{nullptr, cuda::kStreamPerThread};
  const auto add = [&](const std::set<cuda::Stream>& more) { some.insert(more.begin(), more.end()); };
  add(used_);
  add(used_unseen_);
  if (++waits_ % kOften == 0) add(streams_);
  return {some.begin(), some.end()};
}

bool DeviceMemory::wait_for_streams(double seconds) {
  for (const cuda::Stream stream : streams_to_wait_for()) {
    int capturing = 0;
    // To ask a stream that is captured what it has to do would end the capture.
    if (cuda::driver().is_capturing(stream, &capturing) != cuda::kSuccess || capturing != 0) continue;
    const bool is_idle = cuda::driver().query(stream) == cuda::kSuccess;
    if (!is_idle && !wait_for(stream, seconds)) return false;
    const std::lock_guard lock(mutex_);
    if (used_.erase(stream) == 0 && !is_idle && streams_.contains(stream)) used_unseen_.insert(stream);
  }
  return true;
}

void DeviceMemory::context_ends() {
  const std::lock_guard lock(mutex_);
  bytes_.clear();
  for (auto* streams : {&streams_, &used_, &used_unseen_}) streams->clear();
}

}  // namespace msda::record
