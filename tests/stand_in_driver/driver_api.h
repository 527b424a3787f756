// The part of the CUDA driver API that the stand-in driver has, as cuda.h 13.0 declares it: the functions carry the
// names that libcuda.so.1 exports. Structures, and functions that the project calls, are those of
// recorder/device/cuda_driver.h, which tests/device/cuda_driver_test.cpp compares with cuda.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "recorder/device/cuda_driver.h"

namespace msda::stand_in {

// In the signatures that cuda_driver.h has.
using cuda::Context, cuda::DevicePointer, cuda::Event, cuda::Function, cuda::Graph, cuda::GraphNode, cuda::Library,
    cuda::Module, cuda::Result, cuda::Stream;
using cuda::CopyOfBox, cuda::CopyOfRows, cuda::KernelNodeParameters, cuda::LaunchConfig, cuda::NodeType,
    cuda::SetNodeParameters;

extern "C" {

using CUresult = cuda::Result;
using CUdevice = int;
using CUdeviceptr = cuda::DevicePointer;
using CUcontext = cuda::Context;
using CUstream = cuda::Stream;
using CUevent = cuda::Event;
using CUmodule = cuda::Module;
using CUfunction = cuda::Function;
using CUlibrary = cuda::Library;
using CUkernel = struct CUkern_st*;  // a cuda::Function in signatures
using CUgraph = cuda::Graph;
using CUgraphNode = cuda::GraphNode;
using CUgraphExec = cuda::GraphExec;

enum : CUresult {
  CUDA_SUCCESS = cuda::kSuccess,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = cuda::kOutOfMemory,
  CUDA_ERROR_NOT_INITIALIZED = cuda::kNotInitialized,
  CUDA_ERROR_INVALID_DEVICE = 101,
  CUDA_ERROR_INVALID_IMAGE = 200,
  CUDA_ERROR_INVALID_CONTEXT = 201,
  CUDA_ERROR_NO_BINARY_FOR_GPU = cuda::kNoBinaryForGpu,
  CUDA_ERROR_INVALID_HANDLE = 400,
  CUDA_ERROR_ILLEGAL_STATE = 401,
  CUDA_ERROR_NOT_FOUND = cuda::kNotFound,
  CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
  CUDA_ERROR_NOT_READY = cuda::kNotReady,
  CUDA_ERROR_ILLEGAL_ADDRESS = 700,
  CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
  CUDA_ERROR_LAUNCH_TIMEOUT = 702,
  CUDA_ERROR_NOT_SUPPORTED = 801,
  CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
  CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
  CUDA_ERROR_STREAM_CAPTURE_ISOLATION = 905,
  CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
  CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD = 908
};

enum CUdevice_attribute : int {
  CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
  CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97
};

enum CUstreamCaptureStatus : int {
  CU_STREAM_CAPTURE_STATUS_NONE = 0,
  CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
  CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2
};

enum CUstreamCaptureMode : int {
  CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
  CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
  CU_STREAM_CAPTURE_MODE_RELAXED = 2
};

enum CUdriverProcAddressQueryResult : int {
  CU_GET_PROC_ADDRESS_SUCCESS = 0,
  CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND = 1,
  CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT = 2
};

struct CUDA_HOST_NODE_PARAMS {
  void (*fn)(void*);
  void* userData;
};

struct CUgraphExecUpdateResultInfo {
  int result;
  CUgraphNode errorNode, errorFromNode;
};

// Macros in cuda.h, so under other names here.
enum : uintptr_t { kStreamLegacy = 1, kStreamPerThread = 2 };
enum : unsigned int { kStreamNonBlocking = 1 };
enum : uint64_t { kProcAddressLegacyStream = 1 };

#pragma GCC visibility push(default)

#define MSDA_DECLARE(users, field, name, parameters) Result name parameters;
MSDA_CUDA_FUNCTIONS(MSDA_DECLARE)
#undef MSDA_DECLARE

// Functions that the project does not call.
CUresult cuGetProcAddress(const char* symbol, void** pfn, int version, uint64_t flags);
CUresult cuGetProcAddress_v2(const char* symbol, void** pfn, int version, uint64_t flags,
                             CUdriverProcAddressQueryResult* status);
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device);
CUresult cuCtxCreate_v2(CUcontext* context, unsigned int flags, CUdevice device);
CUresult cuCtxDestroy_v2(CUcontext context);
CUresult cuCtxSynchronize(void);
CUresult cuCtxSynchronize_v2(CUcontext context);  // null: the current one

CUresult cuMemAllocManaged(CUdeviceptr* pointer, size_t bytes, unsigned int flags);
CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset, unsigned long long handle,
                  unsigned long long flags);
CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes);
CUresult cuIpcGetMemHandle(cuda::IpcHandle* handle, CUdeviceptr pointer);
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* pointer, cuda::IpcHandle handle, unsigned int flags);
CUresult cuIpcCloseMemHandle(CUdeviceptr pointer);
CUresult cuLaunchHostFunc(CUstream stream, void (*function)(void*), void* data);
CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr at, unsigned int value, unsigned int flags);
CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode);
CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph);
CUresult cuEventQuery(CUevent event);
// The option lists are enum* in cuda.h; the stand-in ignores them.
CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int count, int* options, void** values);
CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image);
CUresult cuModuleUnload(CUmodule module);
CUresult cuLaunchKernel_ptsz(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                             unsigned int block_x, unsigned int block_y, unsigned int block_z,
                             unsigned int shared_bytes, CUstream stream, void** parameters, void** extra);
CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                                   unsigned int block_x, unsigned int block_y, unsigned int block_z,
                                   unsigned int shared_bytes, CUstream stream, void** parameters);
CUresult cuLaunchCooperativeKernel_ptsz(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                                        unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                        unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                                        void** parameters);
CUresult cuLaunchKernelEx_ptsz(const cuda::LaunchConfig* config, CUfunction function, void** parameters, void** extra);
// cuLaunchKernelEx under a name that nobody knows, as cuGetExportTable's functions are.
CUresult stand_in_hidden_launch(const cuda::LaunchConfig* config, CUfunction function, void** parameters, void** extra);
// Is called once a context's code is gone, before cuCtxDestroy returns: then another thread may get its handles.
void stand_in_when_code_is_gone(void (*call)());

CUresult cuGraphCreate(CUgraph* graph, unsigned int flags);
CUresult cuGraphDestroy(CUgraph graph);
CUresult cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,
                                 const cuda::KernelNodeParameters* parameters);
CUresult cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,
                              const cuda::CopyOfBox* copy, CUcontext context);
CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,
                              const cuda::SetNodeParameters* set, CUcontext context);
CUresult cuGraphAddHostNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,
                            const CUDA_HOST_NODE_PARAMS* host);
CUresult cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,
                                  CUgraph child);
CUresult cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count);
CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags);
// cuGraphInstantiateWithFlags under a name that nobody knows.
CUresult stand_in_hidden_instantiate(CUgraphExec* exec, CUgraph graph, unsigned long long flags);
CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                           const cuda::KernelNodeParameters* parameters);
CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const cuda::CopyOfBox* copy,
                                        CUcontext context);
CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node, const cuda::SetNodeParameters* set,
                                        CUcontext context);
CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS* host);
CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child);
CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int enabled);
CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* outcome);
CUresult cuGraphExecDestroy(CUgraphExec exec);
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream);
CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream);

#pragma GCC visibility pop

}  // extern "C"

}  // namespace msda::stand_in
