#include "recorder/preload/survey/copy_space.h"

#include <algorithm>
#include <utility>

#include "recorder/machine/free_memory.h"
#include "recorder/preload/driver/own_memory.h"

namespace msda::record {
namespace {

// How much to take for `bytes`: more, as the next launch may need a little more. 0 if that is too much.
uint64_t bytes_to_take(uint64_t bytes, double share, uint64_t free) {
  constexpr uint64_t kUnit = 32 << 20;
  const auto most = static_cast<uint64_t>(share * static_cast<double>(free));
  return bytes > most ? 0 : std::min((bytes + kUnit - 1) / kUnit * kUnit, most);
}

}  // namespace

cuda::DevicePointer CopySpace::reserve(uint64_t bytes, int64_t& left) {
  cuda::Context context = nullptr;
  if (cuda::driver().current_context(&context) != cuda::kSuccess || context == nullptr) return 0;
  Places& ours = memory_[context];
  const cuda::DevicePointer on_device = reserve_on_device(ours.device, bytes);
  if (on_device != 0 || left <= 0) return on_device;
  const cuda::DevicePointer on_host = reserve_on_host(ours.host, bytes);
  left -= on_host != 0;
  return on_host;
}

cuda::DevicePointer CopySpace::reserve_on_device(Memory& ours, uint64_t bytes) const {
  if (bytes <= ours.bytes) return ours.address;
  size_t free = 0, total = 0;
  if (cuda::driver().memory_info(&free, &total) != cuda::kSuccess) return 0;
  const uint64_t wanted = bytes_to_take(bytes, share_, free + ours.bytes);
  if (wanted == 0) return 0;
  if (ours.address != 0) cuda::free_own(std::exchange(ours, {}).address);
  if (cuda::allocate_own(ours.address, wanted) != cuda::kSuccess) return ours.address = 0;
  ours.bytes = wanted;
  return ours.address;
}

cuda::DevicePointer CopySpace::reserve_on_host(Memory& ours, uint64_t bytes) const {
  if (bytes <= ours.bytes) return ours.address;
  const auto free = static_cast<uint64_t>(machine::free_memory().value_or(0));
  const uint64_t wanted = bytes_to_take(bytes, share_, free + ours.bytes);
  if (wanted == 0) return 0;
  if (ours.address != 0) cuda::free_own_on_host(std::exchange(ours, {}).address);
  if (cuda::allocate_own_on_host(ours.address, wanted) != cuda::kSuccess) return ours.address = 0;
  ours.bytes = wanted;
  return ours.address;
}

bool CopySpace::give_back() {
  bool has_any = false;
  for (const auto& [context, ours] : memory_) {
    if (ours.device.address != 0) has_any |= cuda::free_own(ours.device.address) == cuda::kSuccess;
    if (ours.host.address != 0) has_any |= cuda::free_own_on_host(ours.host.address) == cuda::kSuccess;
  }
  memory_.clear();
  return has_any;
}

}  // namespace msda::record
