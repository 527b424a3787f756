#include "recorder/preload/driver/driver_api.h"

#include <dlfcn.h>

#include "recorder/adapters/made_once.h"
#include "recorder/preload/driver/own_memory.h"
#include "recorder/preload/driver/symbols.h"

namespace msda::record::cuda {
namespace {

Driver find() {
  Driver driver;
  // Takes the library that the process has loaded; the recorder never loads it.
  void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  driver.missing = "libcuda.so.1";
  if (library == nullptr) return driver;
  driver.missing = nullptr;
  const auto get = [&]<class F>(F*& function, const char* name) {
    function = reinterpret_cast<F*>(real_dlsym(library, name));
    if (function == nullptr && driver.missing == nullptr) driver.missing = name;
  };
  get(driver.function_name, "cuFuncGetName");
  get(driver.function_parameter, "cuFuncGetParamInfo");
  get(driver.kernel_name, "cuKernelGetName");
  get(driver.kernel_parameter, "cuKernelGetParamInfo");
  get(driver.copy_to_host, "cuMemcpyDtoHAsync_v2");
  get(driver.synchronize, "cuStreamSynchronize");
  get(driver.query, "cuStreamQuery");
  get(driver.is_capturing, "cuStreamIsCapturing");
  get(driver.host_register, "cuMemHostRegister_v2");
  get(driver.host_unregister, "cuMemHostUnregister");
  get(driver.host_allocate, "cuMemHostAlloc");
  get(driver.host_free, "cuMemFreeHost");
  get(driver.allocate, "cuMemAlloc_v2");
  get(driver.set_bytes, "cuMemsetD8Async");
  get(driver.create_stream, "cuStreamCreate");
  get(driver.destroy_stream, "cuStreamDestroy_v2");
  get(driver.address_range, "cuMemGetAddressRange_v2");
  get(driver.current_context, "cuCtxGetCurrent");
  get(driver.launch, "cuLaunchKernel");
  get(driver.library_load, "cuLibraryLoadData");
  get(driver.library_kernel, "cuLibraryGetKernel");
  get(driver.current_device, "cuCtxGetDevice");
  get(driver.device_name, "cuDeviceGetName");
  get(driver.driver_version, "cuDriverGetVersion");
  driver.complete = driver.missing == nullptr;
  get(driver.exchange_capture_mode, "cuThreadExchangeStreamCaptureMode");
  get(driver.function_module, "cuFuncGetModule");
  get(driver.function_load, "cuFuncLoad");
  get(driver.function_attribute, "cuFuncGetAttribute");
  get(driver.kernel_library, "cuKernelGetLibrary");
  get(driver.kernel_function, "cuKernelGetFunction");
  get(driver.device_attribute, "cuDeviceGetAttribute");
  get(driver.retain_primary_context, "cuDevicePrimaryCtxRetain");
  get(driver.release_primary_context, "cuDevicePrimaryCtxRelease_v2");
  get(driver.set_context, "cuCtxSetCurrent");
  get(driver.primary_context_state, "cuDevicePrimaryCtxGetState");
  get(driver.host_device_pointer, "cuMemHostGetDevicePointer_v2");
  get(driver.copy_on_device, "cuMemcpyDtoDAsync_v2");
  get(driver.copy_anywhere, "cuMemcpyAsync");
  get(driver.memory_info, "cuMemGetInfo_v2");
  get(driver.free, "cuMemFree_v2");
  get(driver.pointer_attributes, "cuPointerGetAttributes");
  get(driver.launch_ex, "cuLaunchKernelEx");
  get(driver.module_global, "cuModuleGetGlobal_v2");
  get(driver.library_global, "cuLibraryGetGlobal");
  get(driver.set_kernel_attribute, "cuKernelSetAttribute");
  get(driver.create_event, "cuEventCreate");
  get(driver.record_event, "cuEventRecord");
  get(driver.wait_for_event, "cuStreamWaitEvent");
  get(driver.wait_on_host, "cuEventSynchronize");
  get(driver.library_unload, "cuLibraryUnload");
  get(driver.copy_to_device, "cuMemcpyHtoDAsync_v2");
  return driver;
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
  if (!driver().complete || driver().current_device(&device) != kSuccess) return;
  if (driver().device_name(name, sizeof name - 1, device) == kSuccess) facts["gpu"] = name;
  if (driver().driver_version(&version) == kSuccess) {
    facts["cuda"] = std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  }
}

}  // namespace msda::record::cuda
