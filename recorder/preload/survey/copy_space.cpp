#include "recorder/preload/survey/copy_space.h"

#include <algorithm>

#include "recorder/preload/driver/own_memory.h"

namespace msda::record {

cuda::DevicePointer CopySpace::reserve(uint64_t bytes) {
  const cuda::Driver& driver = cuda::driver();
  cuda::Context context = nullptr;
  if (driver.current_context(&context) != cuda::kSuccess || context == nullptr) return 0;
  Memory& ours = memory_[context];
  if (bytes <= ours.bytes) return ours.address;
  if (ours.address != 0) cuda::free_own(ours.address);
  ours = {};
  size_t free = 0, total = 0;
  if (driver.memory_info(&free, &total) != cuda::kSuccess) return 0;
  const auto most = static_cast<uint64_t>(share_ * static_cast<double>(free));
  if (bytes > most) return 0;
  // More than is asked for: the next launch may need a little more.
  constexpr uint64_t kUnit = 32 << 20;
  const uint64_t wanted = std::min((bytes + kUnit - 1) / kUnit * kUnit, most);
  if (cuda::allocate_own(ours.address, wanted) != cuda::kSuccess) {
    ours = {};
    return 0;
  }
  ours.bytes = wanted;
  return ours.address;
}

bool CopySpace::give_back() {
  bool has_any = false;
  for (const auto& [context, ours] : memory_) {
    if (ours.address != 0) has_any = cuda::free_own(ours.address) == cuda::kSuccess || has_any;
  }
  memory_.clear();
  return has_any;
}

}  // namespace msda::record
