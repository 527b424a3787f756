// The part of the CUDA driver API that this project uses. It is declared here because recorder and replay build without
// CUDA: the recorder takes the driver from the process that it is loaded into, and the replay loads it. Names in
// libcuda.so.1, signatures and layouts are those of cuda.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace msda::cuda {

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

inline constexpr Result kSuccess = 0, kOutOfMemory = 2, kNotInitialized = 3, kDeinitialized = 4, kNoDevice = 100,
                        kNoBinaryForGpu = 209, kNotFound = 500, kNotReady = 600;
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

enum class MemoryType : int { kHost = 1, kDevice = 2, kArray = 3, kUnified = 4 };  // CU_MEMORYTYPE_*

struct CopyOfRows {  // CUDA_MEMCPY2D
  struct Side {
    size_t x = 0, y = 0;
    MemoryType type = MemoryType::kHost;
    void* host = nullptr;
    DevicePointer device = 0;
    void* array = nullptr;
    size_t pitch = 0;
  } from, to;
  size_t width, height;  // bytes, and rows
};
static_assert(offsetof(CopyOfRows, to) == 56 && sizeof(CopyOfRows) == 128);

struct CopyOfBox {  // CUDA_MEMCPY3D
  struct Side {
    size_t x, y, z, level;
    MemoryType type;
    void* host;
    DevicePointer device;
    void* array;
    void* reserved;
    size_t pitch, height;
  } from, to;
  size_t width, height, depth;
};
static_assert(offsetof(CopyOfBox, to) == 88 && sizeof(CopyOfBox) == 200);

// CU_GRAPH_NODE_TYPE_*
enum class NodeType : int { kKernel = 0, kCopy = 1, kSet = 2, kHost = 3, kGraph = 4, kEmpty = 5 };

struct KernelNodeParameters {  // CUDA_KERNEL_NODE_PARAMS_v2
  Function function;           // null: `kernel`, a CUkernel, is meant
  unsigned grid[3], block[3], shared_bytes;
  void** parameters;
  void** extra;
  // The first version, before CUDA 12, ends here.
  Function kernel;
  Context context;
};
static_assert(offsetof(KernelNodeParameters, parameters) == 40 && sizeof(KernelNodeParameters) == 72);

struct SetNodeParameters {  // CUDA_MEMSET_NODE_PARAMS
  DevicePointer to;
  size_t pitch;
  unsigned value, element_bytes;
  size_t width, height;  // elements, and rows
};
static_assert(sizeof(SetNodeParameters) == 40);

enum Users { kNobody = 0, kRecorder = 1, kReplay = 2, kBoth = kRecorder | kReplay };

// X(who cannot do without it, name in Driver, name in libcuda.so.1, parameters)
// clang-format off
#define MSDA_CUDA_FUNCTIONS(X)                                                                                         \
  X(kRecorder, function_name, cuFuncGetName, (const char** name, Function function))                                   \
  X(kBoth, function_parameter, cuFuncGetParamInfo, (Function function, size_t index, size_t* offset, size_t* bytes))   \
  X(kRecorder, kernel_name, cuKernelGetName, (const char** name, Function kernel))                                     \
  X(kRecorder, kernel_parameter, cuKernelGetParamInfo, (Function kernel, size_t index, size_t* offset, size_t*         \
    bytes))                                                                                                            \
  X(kBoth, copy_to_host, cuMemcpyDtoHAsync_v2, (void* to, DevicePointer from, size_t bytes, Stream stream))            \
  X(kBoth, synchronize, cuStreamSynchronize, (Stream stream))                                                          \
  X(kRecorder, query, cuStreamQuery, (Stream stream))                                                                  \
  X(kRecorder, is_capturing, cuStreamIsCapturing, (Stream stream, int* status))                                        \
  X(kRecorder, host_register, cuMemHostRegister_v2, (void* memory, size_t bytes, unsigned flags))                      \
  X(kRecorder, host_unregister, cuMemHostUnregister, (void* memory))                                                   \
  X(kBoth, host_allocate, cuMemHostAlloc, (void** memory, size_t bytes, unsigned flags))                               \
  X(kBoth, host_free, cuMemFreeHost, (void* memory))                                                                   \
  X(kBoth, allocate, cuMemAlloc_v2, (DevicePointer* memory, size_t bytes))                                             \
  X(kRecorder, set_bytes, cuMemsetD8Async, (DevicePointer to, unsigned char value, size_t count, Stream stream))       \
  X(kBoth, create_stream, cuStreamCreate, (Stream* stream, unsigned flags))                                            \
  X(kRecorder, destroy_stream, cuStreamDestroy_v2, (Stream stream))                                                    \
  X(kRecorder, address_range, cuMemGetAddressRange_v2, (DevicePointer* base, size_t* bytes, DevicePointer inside))     \
  X(kRecorder, current_context, cuCtxGetCurrent, (Context* context))                                                   \
  X(kRecorder, launch, cuLaunchKernel, (Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,          \
    unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream stream, void** parameters,     \
    void** extra))                                                                                                     \
  X(kRecorder, library_load, cuLibraryLoadData, (Library* library, const void* image, int* jit_options, void**         \
    jit_values, unsigned jit_count, int* options, void** values, unsigned count))                                      \
  X(kRecorder, library_kernel, cuLibraryGetKernel, (Function* kernel, Library library, const char* name))              \
  X(kRecorder, current_device, cuCtxGetDevice, (int* device))                                                          \
  X(kBoth, device_name, cuDeviceGetName, (char* name, int size, int device))                                           \
  X(kBoth, driver_version, cuDriverGetVersion, (int* version))                                                         \
  X(kReplay, initialize, cuInit, (unsigned flags))                                                                     \
  X(kReplay, error_text, cuGetErrorString, (Result error, const char** text))                                          \
  X(kReplay, count_devices, cuDeviceGetCount, (int* count))                                                            \
  X(kReplay, device_handle, cuDeviceGet, (int* device, int ordinal))                                                   \
  X(kReplay, device_attribute, cuDeviceGetAttribute, (int* value, int attribute, int device))                          \
  X(kReplay, retain_primary_context, cuDevicePrimaryCtxRetain, (Context* context, int device))                         \
  X(kReplay, set_context, cuCtxSetCurrent, (Context context))                                                          \
  X(kReplay, memory_info, cuMemGetInfo_v2, (size_t* available, size_t* total))                                         \
  X(kReplay, free, cuMemFree_v2, (DevicePointer memory))                                                               \
  X(kReplay, copy_to_device_now, cuMemcpyHtoD_v2, (DevicePointer to, const void* from, size_t bytes))                  \
  X(kReplay, copy_to_host_now, cuMemcpyDtoH_v2, (void* to, DevicePointer from, size_t bytes))                          \
  X(kReplay, copy_to_device, cuMemcpyHtoDAsync_v2, (DevicePointer to, const void* from, size_t bytes, Stream           \
    stream))                                                                                                           \
  X(kReplay, copy_rows, cuMemcpy2DAsync_v2, (const CopyOfRows* copy, Stream stream))                                   \
  X(kReplay, copy_on_device, cuMemcpyDtoDAsync_v2, (DevicePointer to, DevicePointer from, size_t bytes, Stream         \
    stream))                                                                                                           \
  X(kReplay, set_bytes_now, cuMemsetD8_v2, (DevicePointer to, unsigned char value, size_t count))                      \
  X(kReplay, create_event, cuEventCreate, (Event* event, unsigned flags))                                              \
  X(kReplay, destroy_event, cuEventDestroy_v2, (Event event))                                                          \
  X(kReplay, record_event, cuEventRecord, (Event event, Stream stream))                                                \
  X(kReplay, elapsed_time, cuEventElapsedTime, (float* milliseconds, Event begin, Event end))                          \
  X(kReplay, module_load, cuModuleLoadData, (Module* module, const void* image))                                       \
  X(kReplay, module_function, cuModuleGetFunction, (Function* function, Module module, const char* name))              \
  X(kReplay, function_attribute, cuFuncGetAttribute, (int* value, int attribute, Function function))                   \
  X(kReplay, set_function_attribute, cuFuncSetAttribute, (Function function, int attribute, int value))                \
  X(kReplay, launch_ex, cuLaunchKernelEx, (const LaunchConfig* config, Function function, void** parameters, void**    \
    extra))                                                                                                            \
  X(kNobody, exchange_capture_mode, cuThreadExchangeStreamCaptureMode, (int* mode))                                    \
  X(kNobody, function_module, cuFuncGetModule, (Module* module, Function function))                                    \
  X(kNobody, function_load, cuFuncLoad, (Function function))                                                           \
  X(kNobody, kernel_library, cuKernelGetLibrary, (Library* library, Function kernel))                                  \
  X(kNobody, kernel_function, cuKernelGetFunction, (Function* function, Function kernel))                              \
  X(kNobody, release_primary_context, cuDevicePrimaryCtxRelease_v2, (int device))                                      \
  X(kNobody, primary_context_state, cuDevicePrimaryCtxGetState, (int device, unsigned* flags, int* active))            \
  X(kNobody, host_device_pointer, cuMemHostGetDevicePointer_v2, (DevicePointer* pointer, void* memory, unsigned        \
    flags))                                                                                                            \
  X(kNobody, copy_anywhere, cuMemcpyAsync, (DevicePointer to, DevicePointer from, size_t bytes, Stream stream))        \
  X(kNobody, pointer_attributes, cuPointerGetAttributes, (unsigned count, const int* attributes, void** values,        \
    DevicePointer pointer))                                                                                            \
  X(kNobody, module_global, cuModuleGetGlobal_v2, (DevicePointer* variable, size_t* bytes, Module module, const        \
    char* name))                                                                                                       \
  X(kNobody, library_global, cuLibraryGetGlobal, (DevicePointer* variable, size_t* bytes, Library library, const       \
    char* name))                                                                                                       \
  X(kNobody, set_kernel_attribute, cuKernelSetAttribute, (int attribute, int value, Function kernel, int device))      \
  X(kNobody, wait_for_event, cuStreamWaitEvent, (Stream stream, Event event, unsigned flags))                          \
  X(kNobody, wait_on_host, cuEventSynchronize, (Event event))                                                          \
  X(kNobody, library_unload, cuLibraryUnload, (Library library))                                                       \
  X(kNobody, graph_nodes, cuGraphGetNodes, (Graph graph, GraphNode* nodes, size_t* count))                             \
  X(kNobody, graph_edges, cuGraphGetEdges_v2, (Graph graph, GraphNode* from, GraphNode* to, uint64_t* data, size_t*    \
    count))                                                                                                            \
  X(kNobody, graph_plain_edges, cuGraphGetEdges, (Graph graph, GraphNode* from, GraphNode* to, size_t* count))         \
  X(kNobody, node_type, cuGraphNodeGetType, (GraphNode node, NodeType* type))                                          \
  X(kNobody, kernel_node, cuGraphKernelNodeGetParams_v2, (GraphNode node, KernelNodeParameters* parameters))           \
  X(kNobody, kernel_node_first, cuGraphKernelNodeGetParams, (GraphNode node, KernelNodeParameters* parameters))        \
  X(kNobody, kernel_node_attribute, cuGraphKernelNodeGetAttribute, (GraphNode node, int attribute, void* value))       \
  X(kNobody, copy_node, cuGraphMemcpyNodeGetParams, (GraphNode node, CopyOfBox* parameters))                           \
  X(kNobody, set_node, cuGraphMemsetNodeGetParams, (GraphNode node, SetNodeParameters* parameters))                    \
  X(kNobody, child_node, cuGraphChildGraphNodeGetGraph, (GraphNode node, Graph* graph))                                \
  X(kNobody, copy_box, cuMemcpy3DAsync_v2, (const CopyOfBox* copy, Stream stream))                                     \
  X(kNobody, set_words, cuMemsetD32Async, (DevicePointer to, unsigned value, size_t count, Stream stream))             \
  X(kNobody, set_halves, cuMemsetD16Async, (DevicePointer to, unsigned short value, size_t count, Stream stream))      \
  X(kNobody, set_rows, cuMemsetD2D8Async, (DevicePointer to, size_t pitch, unsigned char value, size_t width, size_t   \
    height, Stream stream))                                                                                            \
  X(kNobody, set_rows_of_halves, cuMemsetD2D16Async, (DevicePointer to, size_t pitch, unsigned short value, size_t     \
    width, size_t height, Stream stream))                                                                              \
  X(kNobody, set_rows_of_words, cuMemsetD2D32Async, (DevicePointer to, size_t pitch, unsigned value, size_t width,     \
    size_t height, Stream stream))
// clang-format on

// The driver's functions. What this driver lacks is null.
struct Driver {
#define MSDA_FIELD(users, field, name, parameters) Result(*field) parameters = nullptr;
  MSDA_CUDA_FUNCTIONS(MSDA_FIELD)
#undef MSDA_FIELD
  const char* missing = nullptr;  // the first of these that is null and that `user` cannot do without
};

// Looks up every function with `find`, which takes a name and returns an address or null.
template <class Find>
Driver find_functions(Users user, Find&& find) {
  Driver driver;
#define MSDA_FIND(users, field, name, parameters)                       \
  driver.field = reinterpret_cast<decltype(driver.field)>(find(#name)); \
  if (driver.field == nullptr && driver.missing == nullptr && (users & user) != 0) driver.missing = #name;
  MSDA_CUDA_FUNCTIONS(MSDA_FIND)
#undef MSDA_FIND
  return driver;
}

}  // namespace msda::cuda
