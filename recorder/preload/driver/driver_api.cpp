#include "recorder/preload/driver/driver_api.h"

#include <dlfcn.h>

#include "recorder/adapters/made_once.h"
#include "recorder/preload/driver/own_memory.h"
#include "recorder/preload/driver/symbols.h"

namespace msda::record::cuda {
namespace {

Driver find() {
  // Takes the library that the process has loaded; the recorder never loads it.
  void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return {.missing = "libcuda.so.1"};
  return find_functions(kRecorder, [&](const char* name) { return real_dlsym(library, name); });
}

}  // namespace

[[gnu::hot]] const Driver& driver() {
  static constinit MadeOnce<const Driver> found;
  return found.get([] { return std::make_unique<const Driver>(find()); });
}

bool is_allocated(DevicePointer address, uint64_t bytes) {
  const DevicePointer end = address + bytes;
  if (end < address) return false;
  while (address < end) {
    DevicePointer base = 0;
    size_t size = 0;
    if (driver().address_range(&base, &size, address) != kSuccess || base + size <= address) return false;
    address = base + size;
  }
  return true;
}

void pin(void* memory, uint64_t bytes) {
  constexpr unsigned kPortable = 1;  // CU_MEMHOSTREGISTER_PORTABLE
  // Without pinning, copies are slower.
  if (driver().host_register(memory, bytes, kPortable) == kSuccess) note_own(memory);
}

void unpin(void* memory) {
  if (driver().host_unregister(memory) != kSuccess) {
  }  // it was not pinned
}

void add_device_facts(std::map<std::string, std::string>& facts) {
  int device = 0, version = 0;
  char name[256] = {};
  if (driver().missing != nullptr || driver().current_device(&device) != kSuccess) return;
  if (driver().device_name(name, sizeof name - 1, device) == kSuccess) facts["gpu"] = name;
  if (driver().driver_version(&version) == kSuccess) {
    facts["cuda"] = std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  }
}

}  // namespace msda::record::cuda
