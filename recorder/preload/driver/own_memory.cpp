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

}  // namespace

Result allocate_own(DevicePointer& address, uint64_t bytes) {
  const Result result = driver().allocate(&address, bytes);
  if (result != kSuccess) return result;
  const std::lock_guard lock(own_memory().mutex);
  own_memory().addresses.insert(address);
  return result;
}

Result free_own(DevicePointer address) {
  {
    const std::lock_guard lock(own_memory().mutex);
    own_memory().addresses.erase(address);
  }
  return driver().free(address);
}

void note_own(const void* memory) {
  const std::lock_guard lock(own_memory().mutex);
  own_memory().addresses.insert(reinterpret_cast<uintptr_t>(memory));
}

void forget_own() {
  const std::lock_guard lock(own_memory().mutex);
  own_memory().addresses.clear();
}

bool is_own(DevicePointer address) {
  const std::lock_guard lock(own_memory().mutex);
  return own_memory().addresses.contains(address);
}

}  // namespace msda::record::cuda
