#include "recorder/preload/staging.h"

#include "recorder/preload/driver_api.h"

namespace msda::record {

Staging& Staging::of_this_thread(Use use) {
  // Never freed: when a thread ends, the driver may be gone already, and what it recorded last may still be wanted.
  static thread_local Staging* staging = new Staging[3];
  return staging[use];
}

std::byte* Staging::reserve(size_t bytes) noexcept {
  if (bytes <= bytes_ && memory_ != nullptr) return memory_;
  if (memory_ != nullptr) cuda::driver().host_free(memory_);
  memory_ = nullptr;
  bytes_ = 0;
  constexpr unsigned kPortable = 1;  // CU_MEMHOSTALLOC_PORTABLE: for every context
  void* memory = nullptr;
  const size_t wanted = rounded(bytes + bytes / 4 + 1);
  if (cuda::driver().host_alloc(&memory, wanted, kPortable) != cuda::kSuccess) return nullptr;
  memory_ = static_cast<std::byte*>(memory);
  bytes_ = wanted;
  return memory_;
}

}  // namespace msda::record
