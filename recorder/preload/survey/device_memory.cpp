#include "recorder/preload/survey/device_memory.h"

#include <algorithm>

#include "recorder/preload/driver/own_calls.h"
#include "recorder/preload/survey/foreign_memory.h"
#include "recorder/preload/survey/reach.h"
#include "recorder/preload/survey/trial.h"

namespace msda::record {
namespace {

// Returns null if there is none.
cuda::Context current_context() {
  cuda::Context context = nullptr;
  return cuda::driver().current_context(&context) == cuda::kSuccess ? context : nullptr;
}

}  // namespace

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
  // Memory may go in a way that no hook sees, as a pool's does with the pool. Other processes write foreign memory.
  std::erase_if(here, [](const DeviceRange& range) {
    return ForeignMemory::instance().has(range) || !is_memory_of_this_device(range.address) ||
           !cuda::is_allocated(range.address, range.bytes);
  });
  return here;
}

void DeviceMemory::stream_created(cuda::Stream stream) {
  const cuda::Context context = current_context();
  const std::lock_guard lock(mutex_);
  streams_[stream] = context;
}

void DeviceMemory::stream_destroyed(cuda::Stream stream) {
  const std::lock_guard lock(mutex_);
  streams_.erase(stream);
  for (auto* some : {&used_, &used_unseen_}) std::erase_if(*some, [&](auto& used) { return used.stream == stream; });
}

// Needs the lock to be held.
DeviceMemory::Known DeviceMemory::known(cuda::Stream stream) const {
  const auto found = streams_.find(stream);
  return {found != streams_.end() ? found->second : current_context(), stream};
}

void DeviceMemory::stream_used(cuda::Stream stream) {
  const std::lock_guard lock(mutex_);
  used_.insert(known(stream));
}

std::vector<DeviceMemory::Known> DeviceMemory::streams_to_wait_for() {
  constexpr unsigned kOften = 64;
  const cuda::Context here = current_context();
  const std::lock_guard lock(mutex_);
  std::set<Known> some{{here, nullptr}, {here, cuda::kStreamPerThread}};
  for (const auto* used : {&used_, &used_unseen_}) some.insert(used->begin(), used->end());
  if (++waits_ % kOften == 0) {
    for (const auto& [stream, context] : streams_) some.insert({context, stream});
  }
  return {some.begin(), some.end()};
}

bool DeviceMemory::wait_for_stream(const Known& used, double seconds) {
  const InContext current(used.context);
  const auto& [context, stream] = used;
  int capturing = 0;
  // Asking a captured stream whether it has work left would end the capture.
  if (cuda::driver().is_capturing(stream, &capturing) != cuda::kSuccess || capturing != 0) return true;
  const bool is_idle = cuda::driver().query(stream) == cuda::kSuccess;
  if (!is_idle && !wait_for(stream, seconds)) return false;
  const std::lock_guard lock(mutex_);
  if (used_.erase(used) == 0 && !is_idle && streams_.contains(stream)) used_unseen_.insert(used);
  return true;
}

bool DeviceMemory::wait_for_streams(double seconds) {
  return std::ranges::all_of(streams_to_wait_for(), [&](const Known& used) { return wait_for_stream(used, seconds); });
}

void DeviceMemory::context_ends(cuda::Context context) {
  const auto ends = [&](cuda::Context ended) { return context == nullptr || ended == context; };
  const std::lock_guard lock(mutex_);
  std::erase_if(streams_, [&](const auto& entry) { return ends(entry.second); });
  for (auto* some : {&used_, &used_unseen_})
    std::erase_if(*some, [&](const Known& used) { return ends(used.context); });
}

}  // namespace msda::record
