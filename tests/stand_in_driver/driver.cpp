// Initialization, the device and its context, error texts, and cuGetProcAddress. Which error comes when was seen on
// driver 580.159 (CUDA 13.0), but where that crashes on a wrong handle or a null pointer, this returns an error.
#include "tests/stand_in_driver/driver.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <mutex>
#include <set>
#include <string_view>

#include "tests/stand_in_driver/trace.h"

struct msda::cuda::ContextHandle {
  int device;
};

namespace msda::stand_in {

namespace {

constexpr int kVersion = 13000;

constexpr int kMostDevices = 8;

std::atomic<bool> initialized{false};
std::atomic<CUresult> failure{CUDA_SUCCESS};
cuda::ContextHandle primaries[kMostDevices] = {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}};
std::atomic<int> retained[kMostDevices];
thread_local CUcontext current = nullptr;
std::mutex others_mutex;
std::set<CUcontext> others;  // that the program has made
std::atomic<void (*)()> when_code_is_gone{nullptr};

bool is_primary(CUcontext context) { return context >= std::begin(primaries) && context < std::end(primaries); }

bool is_context(CUcontext context) {
  if (is_primary(context)) return true;
  const std::lock_guard lock(others_mutex);
  return others.contains(context);
}

// One, or as many as MSDA_STAND_IN_DEVICES says; each reaches the memory of the others.
int devices() {
  const char* const wanted = getenv("MSDA_STAND_IN_DEVICES");
  return wanted ? std::clamp(atoi(wanted), 1, kMostDevices) : 1;
}

void end(CUcontext context) {
  wait_for_all(context);
  end_streams_of(context);
  end_modules_of(context);
  end_memory_of(context);
}

CUresult check_device(CUdevice device) {
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  return device >= 0 && device < devices() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

const struct {
  CUresult error;
  const char* text;
} kErrors[] = {{CUDA_SUCCESS, "no error"},
               {CUDA_ERROR_INVALID_VALUE, "invalid argument"},
               {CUDA_ERROR_OUT_OF_MEMORY, "out of memory"},
               {CUDA_ERROR_NOT_INITIALIZED, "initialization error"},
               {CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"},
               {CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"},
               {CUDA_ERROR_INVALID_CONTEXT, "invalid device context"},
               {CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"},
               {CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"},
               {CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state"},
               {CUDA_ERROR_NOT_FOUND, "named symbol not found"},
               {CUDA_ERROR_NOT_READY, "device not ready"},
               {CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"},
               {CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"},
               {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"},
               {CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated"},
               {CUDA_ERROR_NOT_SUPPORTED, "operation not supported"},
               {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"},
               {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "operation failed due to a previous error during capture"},
               {CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "dependency created on uncaptured work in another stream"},
               {CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                "operation would make the legacy stream depend on a capturing blocking stream"},
               {CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
                "attempt to terminate a thread-local capture sequence from another thread"}};

struct Entry {
  std::string_view name;
  int since;         // the version of CUDA that brought it
  void* function;    // for the legacy default stream
  void* per_thread;  // for the per-thread one
};

template <class Function>
void* address(Function* function) {
  return reinterpret_cast<void*>(function);
}

#define ENTRY(name, since) \
  { #name, since, address(name), address(name) }
#define ENTRY_WITH_TWIN(name, since) \
  { #name, since, address(name), address(name##_ptsz) }

// Several entries of one name are ordered from new to old.
const Entry kEntries[] = {ENTRY(cuInit, 2000),
                          ENTRY(cuDriverGetVersion, 2020),
                          ENTRY(cuGetErrorString, 6000),
                          ENTRY(cuGetProcAddress_v2, 12000),
                          ENTRY(cuGetProcAddress, 11030),
                          ENTRY(cuDeviceGet, 2000),
                          ENTRY(cuDeviceGetCount, 2000),
                          ENTRY(cuDeviceGetName, 2000),
                          ENTRY(cuDeviceGetAttribute, 2000),
                          ENTRY(cuDevicePrimaryCtxRetain, 7000),
                          ENTRY(cuDevicePrimaryCtxReset_v2, 11000),
                          ENTRY(cuDevicePrimaryCtxRelease_v2, 11000),
                          ENTRY(cuDevicePrimaryCtxGetState, 7000),
                          ENTRY(cuCtxCreate_v2, 3020),
                          ENTRY(cuCtxDestroy_v2, 4000),
                          ENTRY(cuCtxGetCurrent, 4000),
                          ENTRY(cuCtxSetCurrent, 4000),
                          ENTRY(cuCtxGetDevice, 2000),
                          ENTRY(cuCtxSynchronize_v2, 13000),
                          ENTRY(cuCtxSynchronize, 2000),
                          ENTRY(cuMemGetInfo_v2, 3020),
                          ENTRY(cuMemAlloc_v2, 3020),
                          ENTRY(cuMemFree_v2, 3020),
                          ENTRY(cuMemAllocManaged, 6000),
                          ENTRY(cuMemHostAlloc, 2020),
                          ENTRY(cuMemFreeHost, 2000),
                          ENTRY(cuMemGetAddressRange_v2, 3020),
                          ENTRY(cuIpcGetMemHandle, 4010),
                          ENTRY(cuIpcOpenMemHandle_v2, 11000),
                          ENTRY(cuIpcCloseMemHandle, 4010),
                          ENTRY(cuPointerGetAttributes, 7000),
                          ENTRY(cuMemcpyHtoD_v2, 3020),
                          ENTRY(cuMemcpyDtoH_v2, 3020),
                          ENTRY(cuMemcpyHtoDAsync_v2, 3020),
                          ENTRY(cuMemcpyDtoHAsync_v2, 3020),
                          ENTRY(cuMemcpy2DAsync_v2, 3020),
                          ENTRY(cuMemcpyDtoDAsync_v2, 3020),
                          ENTRY(cuMemcpyAsync, 4000),
                          ENTRY(cuMemHostRegister_v2, 6050),
                          ENTRY(cuMemHostUnregister, 4000),
                          ENTRY(cuMemHostGetDevicePointer_v2, 3020),
                          ENTRY(cuMemsetD8_v2, 3020),
                          ENTRY(cuMemsetD8Async, 3020),
                          ENTRY(cuStreamCreate, 2000),
                          ENTRY(cuStreamDestroy_v2, 4000),
                          ENTRY(cuStreamSynchronize, 2000),
                          ENTRY(cuStreamQuery, 2000),
                          ENTRY(cuLaunchHostFunc, 10000),
                          ENTRY(cuStreamWaitEvent, 3020),
                          ENTRY(cuStreamWaitValue32_v2, 12000),
                          ENTRY(cuStreamIsCapturing, 10000),
                          ENTRY(cuStreamBeginCapture_v2, 10010),
                          ENTRY(cuThreadExchangeStreamCaptureMode, 10010),
                          ENTRY(cuStreamEndCapture, 10000),
                          ENTRY(cuEventCreate, 2000),
                          ENTRY(cuEventDestroy_v2, 4000),
                          ENTRY(cuEventRecord, 2000),
                          ENTRY(cuEventSynchronize, 2000),
                          ENTRY(cuEventElapsedTime, 2000),
                          ENTRY(cuEventQuery, 2000),
                          ENTRY(cuModuleLoadData, 2000),
                          ENTRY(cuModuleLoadDataEx, 2010),
                          ENTRY(cuModuleLoadFatBinary, 2000),
                          ENTRY(cuModuleUnload, 2000),
                          ENTRY(cuModuleGetFunction, 2000),
                          ENTRY(cuModuleGetGlobal_v2, 3020),
                          ENTRY(cuFuncGetName, 12030),
                          ENTRY(cuFuncGetParamInfo, 12040),
                          ENTRY(cuFuncGetModule, 11000),
                          ENTRY(cuFuncGetAttribute, 2020),
                          ENTRY(cuFuncSetAttribute, 9000),
                          ENTRY(cuLibraryLoadData, 12000),
                          ENTRY(cuLibraryUnload, 12000),
                          ENTRY(cuLibraryGetKernel, 12000),
                          ENTRY(cuLibraryGetGlobal, 12000),
                          ENTRY(cuKernelGetFunction, 12000),
                          ENTRY(cuKernelGetLibrary, 12050),
                          ENTRY(cuKernelGetName, 12030),
                          ENTRY(cuKernelGetParamInfo, 12040),
                          ENTRY_WITH_TWIN(cuLaunchKernel, 4000),
                          ENTRY_WITH_TWIN(cuLaunchCooperativeKernel, 9000),
                          ENTRY_WITH_TWIN(cuLaunchKernelEx, 11060),
                          ENTRY(cuMemcpy3DAsync_v2, 3020),
                          ENTRY(cuMemsetD16Async, 3020),
                          ENTRY(cuMemsetD32Async, 3020),
                          ENTRY(cuMemsetD2D8Async, 3020),
                          ENTRY(cuMemsetD2D16Async, 3020),
                          ENTRY(cuMemsetD2D32Async, 3020),
                          ENTRY(cuGraphCreate, 10000),
                          ENTRY(cuGraphDestroy, 10000),
                          ENTRY(cuGraphAddKernelNode_v2, 12000),
                          ENTRY(cuGraphAddMemcpyNode, 10000),
                          ENTRY(cuGraphAddMemsetNode, 10000),
                          ENTRY(cuGraphAddHostNode, 10000),
                          ENTRY(cuGraphAddChildGraphNode, 10000),
                          ENTRY(cuGraphAddEmptyNode, 10000),
                          ENTRY(cuGraphInstantiateWithFlags, 11040),
                          ENTRY(cuGraphExecKernelNodeSetParams_v2, 12000),
                          ENTRY(cuGraphExecMemcpyNodeSetParams, 10020),
                          ENTRY(cuGraphExecMemsetNodeSetParams, 10020),
                          ENTRY(cuGraphExecHostNodeSetParams, 10020),
                          ENTRY(cuGraphExecChildGraphNodeSetParams, 11010),
                          ENTRY(cuGraphNodeSetEnabled, 11060),
                          ENTRY(cuGraphExecUpdate_v2, 12000),
                          ENTRY(cuGraphExecDestroy, 10000),
                          ENTRY_WITH_TWIN(cuGraphLaunch, 10000)};

#undef ENTRY
#undef ENTRY_WITH_TWIN

std::string_view without_version(std::string_view name) {
  return name.ends_with("_v2") ? name.substr(0, name.size() - 3) : name;
}

}  // namespace

CUresult enter() {
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (!current) return CUDA_ERROR_INVALID_CONTEXT;
  return failure;
}

CUcontext context_of_thread() { return current; }

CUdevice device_of(CUcontext context) { return context->device; }

void fail(CUresult error) {
  CUresult none = CUDA_SUCCESS;
  failure.compare_exchange_strong(none, error);
}

int architecture() {
  const char* const wanted = getenv("MSDA_STAND_IN_ARCHITECTURE");
  return wanted ? atoi(wanted) : 90;
}

extern "C" {

CUresult cuInit(unsigned int flags) {
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  static std::atomic<bool> is_in_child{false};
  if (is_in_child) return CUDA_ERROR_NOT_INITIALIZED;
  // As the real one, it works in no child.
  if (!initialized.exchange(true)) {
    pthread_atfork(nullptr, nullptr, [] {
      is_in_child = true;
      initialized = false;
    });
  }
  inject();
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int* version) {
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  const char* const wanted = getenv("MSDA_STAND_IN_VERSION");
  *version = wanted ? atoi(wanted) : kVersion;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  if (!text) return CUDA_ERROR_INVALID_VALUE;
  *text = nullptr;
  for (const auto& known : kErrors) {
    if (known.error == error) *text = known.text;
  }
  return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetProcAddress_v2(const char* symbol, void** pfn, int version, uint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  const uint64_t known = kProcAddressLegacyStream | cuda::kPerThreadDefaultStream;
  if (!symbol || !pfn || version > kVersion || (flags & ~known)) return CUDA_ERROR_INVALID_VALUE;
  auto result = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  *pfn = nullptr;
  for (const Entry& entry : kEntries) {
    // Like the real driver it finds no name that ends in _v2.
    if (symbol != without_version(entry.name)) continue;
    result = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    if (version < entry.since) continue;
    *pfn = flags & cuda::kPerThreadDefaultStream ? entry.per_thread : entry.function;
    result = CU_GET_PROC_ADDRESS_SUCCESS;
    break;
  }
  if (status) *status = result;
  return CUDA_SUCCESS;  // also if not found: the status says so
}

CUresult cuGetProcAddress(const char* symbol, void** pfn, int version, uint64_t flags) {
  const CUresult result = cuGetProcAddress_v2(symbol, pfn, version, flags, nullptr);
  return result == CUDA_SUCCESS && !*pfn ? CUDA_ERROR_NOT_FOUND : result;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (const CUresult error = check_device(ordinal)) return error;
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  if (const CUresult error = check_device(0)) return error;
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  *count = devices();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  if (const CUresult error = check_device(device)) return error;
  if (!name || length < 1) return CUDA_ERROR_INVALID_VALUE;
  std::strncpy(name, "stand-in", static_cast<size_t>(length));
  name[length - 1] = '\0';
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, int attribute, CUdevice device) {
  if (const CUresult error = check_device(device)) return error;
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = 1024;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      *value = 32;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
      *value = 1;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      *value = 227 << 10;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = architecture() / 10;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = architecture() % 10;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuCtxSynchronize_v2(CUcontext context) {
  if (context && !is_context(context)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return cuCtxSynchronize();
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  if (const CUresult error = check_device(device)) return error;
  if (!context) return CUDA_ERROR_INVALID_VALUE;
  *context = &primaries[device];
  ++retained[device];
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags, int* active) {
  if (const CUresult error = check_device(device)) return error;
  if (!flags || !active) return CUDA_ERROR_INVALID_VALUE;
  *flags = 0;
  *active = retained[device] > 0;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  if (const CUresult error = check_device(device)) return error;
  if (retained[device] == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--retained[device] == 0) end(&primaries[device]);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  if (const CUresult error = check_device(device)) return error;
  retained[device] = 0;
  end(&primaries[device]);
  return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v2(CUcontext* context, unsigned int, CUdevice device) {
  if (const CUresult error = check_device(device)) return error;
  if (!context) return CUDA_ERROR_INVALID_VALUE;
  current = *context = new cuda::ContextHandle{device};
  const std::lock_guard lock(others_mutex);
  others.insert(*context);
  return CUDA_SUCCESS;
}

CUresult cuCtxDestroy_v2(CUcontext context) {
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (!context || is_primary(context) || !is_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
  end(context);
  if (current == context) current = nullptr;
  if (const auto call = when_code_is_gone.load()) call();
  const std::lock_guard lock(others_mutex);
  others.erase(context);
  delete context;
  return CUDA_SUCCESS;
}

void stand_in_when_code_is_gone(void (*call)()) { when_code_is_gone = call; }

CUresult cuCtxGetCurrent(CUcontext* context) {
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (!context) return CUDA_ERROR_INVALID_VALUE;
  *context = current;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (context && !is_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
  current = context;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  if (const CUresult error = enter()) return error;
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  *device = current->device;
  return CUDA_SUCCESS;
}

}  // extern "C"

}  // namespace msda::stand_in
