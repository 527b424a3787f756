// A program's side of the CUDA driver: finds it as real programs do, and launches the stand-in's kernels.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/stand_in_driver/driver_api.h"

namespace msda::stand_in {

#define MSDA_STAND_IN_FUNCTIONS(X)  \
  X(cuInit)                         \
  X(cuGetErrorString)               \
  X(cuDevicePrimaryCtxRetain)       \
  X(cuDevicePrimaryCtxReset_v2)     \
  X(cuCtxCreate_v2)                 \
  X(cuCtxDestroy_v2)                \
  X(cuCtxSetCurrent)                \
  X(cuCtxSynchronize_v2)            \
  X(cuMemAlloc_v2)                  \
  X(cuMemFree_v2)                   \
  X(cuMemAllocManaged)              \
  X(cuMemHostAlloc)                 \
  X(cuMemFreeHost)                  \
  X(cuMemGetAddressRange_v2)        \
  X(cuMemcpyHtoD_v2)                \
  X(cuMemcpyDtoH_v2)                \
  X(cuMemcpyDtoHAsync_v2)           \
  X(cuMemcpyDtoDAsync_v2)           \
  X(cuMemsetD8Async)                \
  X(cuStreamCreate)                 \
  X(cuStreamDestroy_v2)             \
  X(cuStreamSynchronize)            \
  X(cuStreamIsCapturing)            \
  X(cuStreamBeginCapture_v2)        \
  X(cuStreamEndCapture)             \
  X(cuEventCreate)                  \
  X(cuEventDestroy_v2)              \
  X(cuEventRecord)                  \
  X(cuEventSynchronize)             \
  X(cuStreamWaitEvent)              \
  X(cuModuleLoadData)               \
  X(cuModuleLoadDataEx)             \
  X(cuModuleLoadFatBinary)          \
  X(cuModuleUnload)                 \
  X(cuModuleGetFunction)            \
  X(cuLibraryLoadData)              \
  X(cuLibraryUnload)                \
  X(cuLibraryGetKernel)             \
  X(cuLaunchKernel)                 \
  X(cuLaunchKernel_ptsz)            \
  X(cuLaunchCooperativeKernel)      \
  X(cuLaunchCooperativeKernel_ptsz) \
  X(cuLaunchKernelEx)               \
  X(cuLaunchKernelEx_ptsz)

// Functions of graphs.
#define MSDA_STAND_IN_GRAPH_FUNCTIONS(X) \
  X(cuMemcpyAsync)                       \
  X(cuMemcpyHtoDAsync_v2)                \
  X(cuMemcpyDtoHAsync_v2)                \
  X(cuMemcpyDtoDAsync_v2)                \
  X(cuMemsetD8Async)                     \
  X(cuMemsetD32Async)                    \
  X(cuLaunchHostFunc)                    \
  X(cuStreamBeginCapture_v2)             \
  X(cuStreamEndCapture)                  \
  X(cuGraphCreate)                       \
  X(cuGraphDestroy)                      \
  X(cuGraphAddKernelNode_v2)             \
  X(cuGraphAddMemcpyNode)                \
  X(cuGraphAddMemsetNode)                \
  X(cuGraphAddHostNode)                  \
  X(cuGraphAddChildGraphNode)            \
  X(cuGraphAddEmptyNode)                 \
  X(cuGraphInstantiateWithFlags)         \
  X(cuGraphExecKernelNodeSetParams_v2)   \
  X(cuGraphExecMemcpyNodeSetParams)      \
  X(cuGraphExecMemsetNodeSetParams)      \
  X(cuGraphExecHostNodeSetParams)        \
  X(cuGraphExecChildGraphNodeSetParams)  \
  X(cuGraphNodeSetEnabled)               \
  X(cuGraphExecUpdate_v2)                \
  X(cuGraphExecDestroy)                  \
  X(cuGraphLaunch)                       \
  X(cuGraphLaunch_ptsz)

struct GraphApi {
#define MSDA_STAND_IN_MEMBER(name) decltype(&msda::stand_in::name) name = nullptr;
  MSDA_STAND_IN_GRAPH_FUNCTIONS(MSDA_STAND_IN_MEMBER)
#undef MSDA_STAND_IN_MEMBER
};

struct Api {
#define MSDA_STAND_IN_MEMBER(name) decltype(&msda::stand_in::name) name = nullptr;
  MSDA_STAND_IN_FUNCTIONS(MSDA_STAND_IN_MEMBER)
#undef MSDA_STAND_IN_MEMBER
};

// Where a program gets the driver's functions: each by dlsym; only cuGetProcAddress_v2, and from it the others; or by
// linking, in a plug-in.
enum class Via { kDlsym, kProcAddress, kLinked };

// Throws std::runtime_error. Not for kLinked.
GraphApi graph_api(Via via);

struct ProfilerApi;
// As the plug-in is linked to them. Throws std::runtime_error.
void find_linked(Api& api, ProfilerApi& profiler);

// Which of the ways to launch.
struct LaunchWay {
  bool ex = false;                  // cuLaunchKernelEx
  bool cooperative = false;         // cuLaunchCooperativeKernel
  bool packed = false;              // arguments by `extra` instead of kernelParams
  bool per_thread_default = false;  // the _ptsz twin
  bool hidden = false;              // by a function that no hook knows
};

struct Extent {
  unsigned int x = 1, y = 1, z = 1;
};

// An argument of a kernel, by its bytes; refers to the variable.
struct Argument {
  template <class T>
  Argument(const T& value) : data(&value), bytes(sizeof(T)), alignment(alignof(T)) {}  // NOLINT: for argument lists

  const void* data;
  size_t bytes, alignment;
};

class Client {
 public:
  // Loads libcuda.so.1, initializes it and makes its context current in this thread. Throws std::runtime_error.
  explicit Client(Via via);

  const Api& api() const { return api_; }

  // Every further thread calls this first.
  void enter_thread() const;
  // Waits for all work of the context, as cudaDeviceSynchronize does.
  void wait_for_all() const { check(api_.cuCtxSynchronize_v2(context_)); }

  // The kernel, from a module of its own; `as_kernel`: a CUkernel in disguise, as CUDA's runtime passes.
  CUfunction load(const std::string& kernel, bool as_kernel = false) const;
  // The same from an image of the caller's; `call` is data, ex or fatbin, of cuModuleLoad*. It is loaded twice, and
  // unloaded between.
  CUfunction load_image(const std::string& kernel, const std::string& image, const std::string& call,
                        bool as_kernel) const;

  CUdeviceptr allocate(size_t bytes) const;

  template <class T>
  CUdeviceptr upload(const std::vector<T>& values) const {
    const CUdeviceptr pointer = allocate(values.size() * sizeof(T));
    check(api_.cuMemcpyHtoD_v2(pointer, values.data(), values.size() * sizeof(T)));
    return pointer;
  }

  template <class T>
  std::vector<T> download(CUdeviceptr pointer, size_t count) const {
    std::vector<T> values(count);
    check(api_.cuMemcpyDtoH_v2(values.data(), pointer, count * sizeof(T)));
    return values;
  }

  void launch(LaunchWay way, CUfunction function, Extent grid, Extent block, CUstream stream,
              std::span<const Argument> arguments) const;

  // Throws with the driver's text if `error` is one.
  void check(CUresult error) const;

 private:
  void start();

  Api api_;
  decltype(&msda::stand_in::stand_in_hidden_launch) hidden_launch_ = nullptr;
  CUcontext context_ = nullptr;
};

}  // namespace msda::stand_in
