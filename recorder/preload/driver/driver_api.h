// The part of the CUDA driver API that the recorder uses, declared here because the recorder builds without CUDA and
// takes the driver from the process that it is loaded into. Names, signatures and layouts are those of cuda.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace msda::record::cuda {

using Result = int;
using DevicePointer = unsigned long long;
using Context = struct ContextHandle*;
using Stream = struct StreamHandle*;
using Event = struct EventHandle*;
using Function = struct FunctionHandle*;  // a CUfunction, or a CUkernel that was launched as one
using Module = struct ModuleHandle*;
using Library = struct LibraryHandle*;
using Pool = struct PoolHandle*;
struct IpcHandle {  // CUipcMemHandle
  char bytes[64];
};
using Graph = struct GraphHandle*;
using GraphNode = struct GraphNodeHandle*;
using GraphExec = struct GraphExecHandle*;

inline constexpr Result kSuccess = 0, kNotInitialized = 3, kDeinitialized = 4, kNotReady = 600;
inline constexpr uintptr_t kParamEnd = 0, kParamBufferPointer = 1, kParamBufferSize = 2;  // of `extra`
inline constexpr uint64_t kPerThreadDefaultStream = 2;                                    // of cuGetProcAddress

inline const Stream kStreamPerThread = reinterpret_cast<Stream>(uintptr_t{2});

inline constexpr unsigned kDisableTiming = 2;  // of an event: CU_EVENT_DISABLE_TIMING

struct LaunchAttribute {  // CUlaunchAttribute
  int id;
  char padding[4];
  union {
    unsigned int numbers[16];
    char bytes[64];
  };
};
static_assert(sizeof(LaunchAttribute) == 72);

// What cuLaunchCooperativeKernel adds: CU_LAUNCH_ATTRIBUTE_COOPERATIVE.
inline constexpr LaunchAttribute kCooperativeLaunch{2, {}, {{1}}};

struct LaunchConfig {  // CUlaunchConfig
  unsigned int grid[3], block[3], shared_bytes;
  Stream stream;
  const LaunchAttribute* attributes;
  unsigned int attribute_count;
};
static_assert(offsetof(LaunchConfig, stream) == 32 && sizeof(LaunchConfig) == 56);

using LaunchKernelEx = Result(const LaunchConfig*, Function, void**, void**);
using LaunchKernel = Result(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream,
                            void**, void**);
using LibraryLoadData = Result(Library*, const void*, int*, void**, unsigned, int*, void**, unsigned);

// The functions that the recorder itself calls, looked up once in the process' libcuda. `complete` is false if a
// required one is missing.
struct Driver {
  Result (*function_name)(const char**, Function) = nullptr;                    // cuFuncGetName
  Result (*function_parameter)(Function, size_t, size_t*, size_t*) = nullptr;   // cuFuncGetParamInfo
  Result (*kernel_name)(const char**, Function) = nullptr;                      // cuKernelGetName
  Result (*kernel_parameter)(Function, size_t, size_t*, size_t*) = nullptr;     // cuKernelGetParamInfo
  Result (*copy_to_host)(void*, DevicePointer, size_t, Stream) = nullptr;       // cuMemcpyDtoHAsync_v2
  Result (*synchronize)(Stream) = nullptr;                                      // cuStreamSynchronize
  Result (*query)(Stream) = nullptr;                                            // cuStreamQuery
  Result (*is_capturing)(Stream, int*) = nullptr;                               // cuStreamIsCapturing
  Result (*host_register)(void*, size_t, unsigned) = nullptr;                   // cuMemHostRegister_v2
  Result (*host_unregister)(void*) = nullptr;                                   // cuMemHostUnregister
  Result (*host_allocate)(void**, size_t, unsigned) = nullptr;                  // cuMemHostAlloc
  Result (*host_free)(void*) = nullptr;                                         // cuMemFreeHost
  Result (*allocate)(DevicePointer*, size_t) = nullptr;                         // cuMemAlloc_v2
  Result (*set_bytes)(DevicePointer, unsigned char, size_t, Stream) = nullptr;  // cuMemsetD8Async
  Result (*create_stream)(Stream*, unsigned) = nullptr;                         // cuStreamCreate
  Result (*destroy_stream)(Stream) = nullptr;                                   // cuStreamDestroy_v2
  Result (*address_range)(DevicePointer*, size_t*, DevicePointer) = nullptr;    // cuMemGetAddressRange_v2
  Result (*current_context)(Context*) = nullptr;                                // cuCtxGetCurrent
  LaunchKernel* launch = nullptr;                                               // cuLaunchKernel
  LibraryLoadData* library_load = nullptr;                                      // cuLibraryLoadData
  Result (*library_kernel)(Function*, Library, const char*) = nullptr;          // cuLibraryGetKernel
  Result (*current_device)(int*) = nullptr;                                     // cuCtxGetDevice
  Result (*device_name)(char*, int, int) = nullptr;                             // cuDeviceGetName
  Result (*driver_version)(int*) = nullptr;                                     // cuDriverGetVersion
  const char* missing = nullptr;  // the first of these that this driver lacks
  // Any of these may be missing.
  Result (*exchange_capture_mode)(int*) = nullptr;                           // cuThreadExchangeStreamCaptureMode
  Result (*function_module)(Module*, Function) = nullptr;                    // cuFuncGetModule
  Result (*function_load)(Function) = nullptr;                               // cuFuncLoad
  Result (*function_attribute)(int*, int, Function) = nullptr;               // cuFuncGetAttribute
  Result (*kernel_library)(Library*, Function) = nullptr;                    // cuKernelGetLibrary
  Result (*kernel_function)(Function*, Function) = nullptr;                  // cuKernelGetFunction
  Result (*device_attribute)(int*, int, int) = nullptr;                      // cuDeviceGetAttribute
  Result (*retain_primary_context)(Context*, int) = nullptr;                 // cuDevicePrimaryCtxRetain
  Result (*release_primary_context)(int) = nullptr;                          // cuDevicePrimaryCtxRelease_v2
  Result (*set_context)(Context) = nullptr;                                  // cuCtxSetCurrent
  Result (*primary_context_state)(int, unsigned*, int*) = nullptr;           // cuDevicePrimaryCtxGetState
  Result (*host_device_pointer)(DevicePointer*, void*, unsigned) = nullptr;  // cuMemHostGetDevicePointer_v2
  // Only the survey uses these. It needs the first three.
  Result (*copy_on_device)(DevicePointer, DevicePointer, size_t, Stream) = nullptr;     // cuMemcpyDtoDAsync_v2
  Result (*copy_anywhere)(DevicePointer, DevicePointer, size_t, Stream) = nullptr;      // cuMemcpyAsync
  Result (*memory_info)(size_t*, size_t*) = nullptr;                                    // cuMemGetInfo_v2
  Result (*free)(DevicePointer) = nullptr;                                              // cuMemFree_v2
  Result (*pointer_attributes)(unsigned, const int*, void**, DevicePointer) = nullptr;  // cuPointerGetAttributes
  LaunchKernelEx* launch_ex = nullptr;                                                  // cuLaunchKernelEx
  Result (*module_global)(DevicePointer*, size_t*, Module, const char*) = nullptr;      // cuModuleGetGlobal_v2
  Result (*library_global)(DevicePointer*, size_t*, Library, const char*) = nullptr;    // cuLibraryGetGlobal
  Result (*set_kernel_attribute)(int, int, Function, int) = nullptr;                    // cuKernelSetAttribute
  Result (*create_event)(Event*, unsigned) = nullptr;                                   // cuEventCreate
  Result (*record_event)(Event, Stream) = nullptr;                                      // cuEventRecord
  Result (*wait_for_event)(Stream, Event, unsigned) = nullptr;                          // cuStreamWaitEvent
  Result (*wait_on_host)(Event) = nullptr;                                              // cuEventSynchronize
  Result (*library_unload)(Library) = nullptr;                                          // cuLibraryUnload
  Result (*copy_to_device)(DevicePointer, const void*, size_t, Stream) = nullptr;       // cuMemcpyHtoDAsync_v2
  bool complete = false;
};
const Driver& driver();

// Returns whether the memory is allocated from end to end. Reading other memory would be an error from which the
// program's context does not recover.
bool is_allocated(DevicePointer address, uint64_t bytes);

// Registers host memory with the driver for every context, so that copies to it are fast; best effort. Needs a current
// context.
void pin(void* memory, uint64_t bytes);
void unpin(void* memory);

// Adds the name of the calling thread's current device and the driver's version, if there is a current device: "gpu",
// "cuda".
void add_device_facts(std::map<std::string, std::string>& facts);

}  // namespace msda::record::cuda
