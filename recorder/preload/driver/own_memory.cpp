#include "recorder/preload/driver/own_memory.h"

#include <mutex>
#include <set>

#include "recorder/adapters/made_once.h"

namespace msda::record::cuda {
namespace {

struct OwnMemory {
  std::mutex mutex;
  std::set<DevicePointer> addresses;
};

OwnMemory& own_memory() {
  static constinit MadeOnce<OwnMemory> memory;
  return memory.get();
}

void note_own(DevicePointer address) {
  const std::lock_guard lock(own_memory().mutex);
  own_memory().addresses.insert(address);
}

void forget_own(DevicePointer address) {
  const std::lock_guard lock(own_memory().mutex);
  own_memory().addresses.erase(address);
}

}  // namespace

Result allocate_own(DevicePointer& address, uint64_t bytes) {
  const Result result = driver().allocate(&address, bytes);
  if (result == kSuccess) note_own(address);
  return result;
}

Result free_own(DevicePointer address) {
  forget_own(address);
  return driver().free(address);
}

// Its address is the devices', too, as all addresses are of one space.
Result allocate_own_on_host(DevicePointer& address, uint64_t bytes) {
  constexpr unsigned kPortable = 1, kMapped = 2;  // CU_MEMHOSTALLOC_*
  constexpr Result kNotSupported = 801;           // CUDA_ERROR_NOT_SUPPORTED
  if (driver().host_allocate == nullptr || driver().host_free == nullptr) return kNotSupported;
  void* memory = nullptr;
  const Result result = driver().host_allocate(&memory, bytes, kPortable | kMapped);
  if (result != kSuccess) return result;
  address = reinterpret_cast<uintptr_t>(memory);
  note_own(address);
  return result;
}

Result free_own_on_host(DevicePointer address) {
  forget_own(address);
  return driver().host_free(reinterpret_cast<void*>(address));
}

void note_own(const void* memory) { note_own(reinterpret_cast<uintptr_t>(memory)); }

void forget_own() {
  const std::lock_guard lock(own_memory().mutex);
  own_memory().addresses.clear();
}

bool is_own(DevicePointer address) {
  const std::lock_guard lock(own_memory().mutex);
  return own_memory().addresses.contains(address);
}

}  // namespace msda::record::cuda
