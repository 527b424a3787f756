#include "recorder/preload/survey/copy_space.h"

#include <algorithm>
#include <utility>

#include "recorder/machine/free_memory.h"
#include "recorder/preload/driver/own_memory.h"

namespace msda::record {
namespace {

// Returns how much to take for `bytes`: more, because the next launch may need a little more. 0 if that is too much.
uint64_t bytes_to_take(uint64_t bytes, double share, uint64_t free) {
  constexpr uint64_t kUnit = 32 << 20;
  const auto most = static_cast<uint64_t>(share * static_cast<double>(free));
  return bytes > most ? 0 : std::min((bytes + kUnit - 1) / kUnit * kUnit, most);
}

uint64_t free_on_device() {
  size_t free = 0, total = 0;
  return cuda::driver().memory_info(&free, &total) == cuda::kSuccess ? free : 0;
}

uint64_t free_on_host() { return static_cast<uint64_t>(machine::free_memory().value_or(0)); }

}  // namespace

struct CopySpace::Kind {
  uint64_t (*free_bytes)();
  cuda::Result (*allocate)(cuda::DevicePointer& address, uint64_t bytes);
  cuda::Result (*release)(cuda::DevicePointer address);
};
constexpr CopySpace::Kind CopySpace::kOnDevice{free_on_device, cuda::allocate_own, cuda::free_own};
constexpr CopySpace::Kind CopySpace::kOnHost{free_on_host, cuda::allocate_own_on_host, cuda::free_own_on_host};

cuda::DevicePointer CopySpace::reserve(uint64_t bytes, int64_t& left) {
  cuda::Context context = nullptr;
  if (cuda::driver().current_context(&context) != cuda::kSuccess || context == nullptr) return 0;
  Places& ours = memory_[context];
  const cuda::DevicePointer on_device = grow(ours.device, kOnDevice, bytes);
  if (on_device != 0 || left <= 0) return on_device;
  const cuda::DevicePointer on_host = grow(ours.host, kOnHost, bytes);
  left -= on_host != 0;
  return on_host;
}

cuda::DevicePointer CopySpace::grow(Memory& ours, const Kind& kind, uint64_t bytes) const {
  if (bytes <= ours.bytes) return ours.address;
  const uint64_t wanted = bytes_to_take(bytes, share_, kind.free_bytes() + ours.bytes);
  if (wanted == 0) return 0;
  if (ours.address != 0) kind.release(std::exchange(ours, {}).address);
  if (kind.allocate(ours.address, wanted) != cuda::kSuccess) return ours.address = 0;
  ours.bytes = wanted;
  return ours.address;
}

bool CopySpace::give_back() {
  bool has_any = false;
  for (const auto& [context, ours] : memory_) {
    for (const auto& [memory, kind] : {std::pair(&ours.device, &kOnDevice), std::pair(&ours.host, &kOnHost)})
      if (memory->address != 0) has_any |= kind->release(memory->address) == cuda::kSuccess;
  }
  memory_.clear();
  return has_any;
}

}  // namespace msda::record
