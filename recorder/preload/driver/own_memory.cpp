#include "recorder/preload/driver/own_memory.h"

#include <map>
#include <mutex>

#include "recorder/adapters/made_once.h"

namespace msda::record::cuda {
namespace {

struct OwnMemory {
  std::mutex mutex;
  std::map<DevicePointer, Context> addresses;

  void add(DevicePointer address) {
    Context context = nullptr;
    if (driver().current_context(&context) != kSuccess) context = nullptr;
    const std::lock_guard lock(mutex);
    addresses[address] = context;
  }
  void remove(DevicePointer address) {
    const std::lock_guard lock(mutex);
    addresses.erase(address);
  }
};

OwnMemory& own_memory() {
  static constinit MadeOnce<OwnMemory> memory;
  return memory.get();
}

}  // namespace

Result allocate_own(DevicePointer& address, uint64_t bytes) {
  const Result result = driver().allocate(&address, bytes);
  if (result == kSuccess) own_memory().add(address);
  return result;
}

Result free_own(DevicePointer address) {
  own_memory().remove(address);
  return driver().free(address);
}

// Its address is valid on the devices, too, because all addresses are of one space.
Result allocate_own_on_host(DevicePointer& address, uint64_t bytes) {
  constexpr unsigned kPortable = 1, kMapped = 2;  // CU_MEMHOSTALLOC_*
  constexpr Result kNotSupported = 801;           // CUDA_ERROR_NOT_SUPPORTED
  if (driver().host_allocate == nullptr || driver().host_free == nullptr) return kNotSupported;
  void* memory = nullptr;
  const Result result = driver().host_allocate(&memory, bytes, kPortable | kMapped);
  if (result != kSuccess) return result;
  address = reinterpret_cast<uintptr_t>(memory);
  own_memory().add(address);
  return result;
}

Result free_own_on_host(DevicePointer address) {
  own_memory().remove(address);
  return driver().host_free(reinterpret_cast<void*>(address));
}

void note_own(const void* memory) { own_memory().add(reinterpret_cast<uintptr_t>(memory)); }

void forget_own(Context context) {
  const std::lock_guard lock(own_memory().mutex);
  std::erase_if(own_memory().addresses,
                [&](const auto& entry) { return context == nullptr || entry.second == context; });
}

bool is_own(DevicePointer address) {
  const std::lock_guard lock(own_memory().mutex);
  return own_memory().addresses.contains(address);
}

}  // namespace msda::record::cuda
