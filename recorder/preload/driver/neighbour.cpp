#include "recorder/preload/driver/neighbour.h"

#include <algorithm>

#include "recorder/adapters/made_once.h"
#include "recorder/preload/driver/own_memory.h"

namespace msda::record {

Neighbour& Neighbour::instance() {
  static constinit MadeOnce<Neighbour> neighbour;
  return neighbour.get();
}

// A block takes as much shared memory as one may have, so that each has a multiprocessor to itself, and no blocks of
// other kernels that need shared memory run beside it.
bool Neighbour::prepare(Device& device) {
  constexpr int kMultiprocessors = 16, kMostShared = 97, kMostDynamicShared = 8;  // CU_DEVICE_ and CU_FUNC_ATTRIBUTE_*
  constexpr unsigned kNonBlocking = 1;                                            // CU_STREAM_NON_BLOCKING
  constexpr int kUnasked = 48 << 10;  // bytes of shared memory that need no permission
  const cuda::Driver& driver = cuda::driver();
  int number = 0;
  if (driver.device_attribute == nullptr || driver.current_device(&number) != cuda::kSuccess ||
      driver.device_attribute(&device.multiprocessors, kMultiprocessors, number) != cuda::kSuccess ||
      driver.device_attribute(&device.shared_bytes, kMostShared, number) != cuda::kSuccess) {
    return false;
  }
  if (driver.set_kernel_attribute == nullptr ||
      driver.set_kernel_attribute(kMostDynamicShared, device.shared_bytes, kernel_.function(), number) !=
          cuda::kSuccess) {
    device.shared_bytes = std::min(device.shared_bytes, kUnasked);
  }
  return driver.create_event != nullptr && driver.record_event != nullptr && driver.wait_for_event != nullptr &&
         driver.create_event(&device.ended, cuda::kDisableTiming) == cuda::kSuccess &&
         cuda::allocate_own(device.end, 1) == cuda::kSuccess &&
         driver.create_stream(&device.stream, kNonBlocking) == cuda::kSuccess;
}

// Returns null if there is none.
Neighbour::Device* Neighbour::device_of_this_context() {
  cuda::Context context = nullptr;
  if (cuda::driver().current_context(&context) != cuda::kSuccess) return nullptr;
  if (!kernel_.is_loaded()) return nullptr;
  Device& device = devices_[context];
  return device.stream != nullptr || prepare(device) ? &device : nullptr;
}

void Neighbour::begin() noexcept {
  const std::lock_guard lock(mutex_);
  Device* const device = device_of_this_context();
  if (device == nullptr) return;
  const int parts = ++device->number % 2 == 0 ? 1 : 2;  // of three
  const auto blocks = static_cast<unsigned>(std::max(1, device->multiprocessors * parts / 3));
  uint64_t cycles = kSpinCycles;
  uint32_t value = device->number;
  void* parameters[] = {&device->end, &value, &cycles};
  kernel_.launch(blocks, 1, kSpinThreads, device->stream, parameters, static_cast<unsigned>(device->shared_bytes));
}

void Neighbour::end_after(cuda::Stream stream) noexcept {
  const std::lock_guard lock(mutex_);
  Device* const device = device_of_this_context();
  if (device == nullptr) return;
  const cuda::Driver& driver = cuda::driver();
  driver.set_bytes(device->end, device->number, 1, stream);
  driver.record_event(device->ended, device->stream);
  driver.wait_for_event(stream, device->ended, 0);
}

void Neighbour::context_ends(cuda::Context context) noexcept {
  const std::lock_guard lock(mutex_);
  kernel_.context_ends();
  cuda::forget(devices_, context);
}

}  // namespace msda::record
