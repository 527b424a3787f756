#include "recorder/preload/driver_api.h"

#include <dlfcn.h>

#include "recorder/preload/interpose.h"

namespace msda::record::cuda {
namespace {

Driver find() {
  Driver driver;
  // The one that the process has; the recorder never loads it.
  void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return driver;
  bool complete = true;
  const auto get = [&]<class F>(F*& function, const char* name) {
    function = reinterpret_cast<F*>(real_dlsym(library, name));
    complete = complete && function != nullptr;
  };
  get(driver.function_name, "cuFuncGetName");
  get(driver.function_parameter, "cuFuncGetParamInfo");
  get(driver.kernel_name, "cuKernelGetName");
  get(driver.kernel_parameter, "cuKernelGetParamInfo");
  get(driver.copy_to_host, "cuMemcpyDtoHAsync_v2");
  get(driver.synchronize, "cuStreamSynchronize");
  get(driver.is_capturing, "cuStreamIsCapturing");
  get(driver.host_alloc, "cuMemHostAlloc");
  get(driver.host_free, "cuMemFreeHost");
  get(driver.current_device, "cuCtxGetDevice");
  get(driver.device_name, "cuDeviceGetName");
  get(driver.driver_version, "cuDriverGetVersion");
  driver.complete = complete;
  get(driver.exchange_capture_mode, "cuThreadExchangeStreamCaptureMode");
  get(driver.function_module, "cuFuncGetModule");
  get(driver.function_load, "cuFuncLoad");
  get(driver.function_attribute, "cuFuncGetAttribute");
  get(driver.kernel_library, "cuKernelGetLibrary");
  get(driver.kernel_function, "cuKernelGetFunction");
  get(driver.device_attribute, "cuDeviceGetAttribute");
  return driver;
}

}  // namespace

const Driver& driver() {
  static const Driver kDriver = find();
  return kDriver;
}

}  // namespace msda::record::cuda
