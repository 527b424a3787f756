// The functions of the CUDA runtime for contexts, streams and graphs that libmsda calls, on the emulated GPU. A graph's
// kernels run in an order that their edges allow, each time another one. Wrong uses end the program.
#include "tests/emulated_gpu/graphs.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/emulated_gpu/emulated_gpu.h"

#define VISIBLE __attribute__((visibility("default")))
VISIBLE int emulated_gpu_context = 1, emulated_gpu_address = 0, emulated_gpu_captures = 0,
            emulated_gpu_refuses = kRefusesNothing;
VISIBLE int emulated_gpu_forks = 0, emulated_gpu_graph_launches = 0, emulated_gpu_instances = 0,
            emulated_gpu_destroyed = 0, emulated_gpu_changes = 0;
VISIBLE int emulated_gpu_calls = 0, emulated_gpu_exchanges = 0, emulated_gpu_allocations = 0, emulated_gpu_frees = 0;

namespace {

struct Kernel {
  dim3 grid, block;
  size_t shared_bytes;
  emulated_gpu::Bound bound;
  explicit Kernel(const cudaKernelNodeParams& from)
      : grid(from.gridDim),
        block(from.blockDim),
        shared_bytes(from.sharedMemBytes),
        bound(emulated_gpu::bound(from.func, from.kernelParams)) {}
};

void expect(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "emulated_gpu: %s\n", what);
  std::abort();
}

thread_local cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;

using emulated_gpu::count;
using emulated_gpu::expect_relaxed;

}  // namespace

void emulated_gpu::count(int& counter) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  ++counter;
}
void emulated_gpu::expect_relaxed() {
  expect(capture_mode == cudaStreamCaptureModeRelaxed, "a call may allocate outside of the relaxed capture mode");
}

struct CUgraphNode_st {
  Kernel kernel;
  std::vector<size_t> waits_for;
  size_t number;
};
struct CUgraph_st {
  std::vector<CUgraphNode_st*> nodes;
};
struct CUgraphExec_st {
  int context;
  const CUgraph_st* graph;
  std::vector<Kernel> kernels;  // by the node's number
  std::vector<std::vector<size_t>> waits_for;
  std::atomic<bool> in_use{false};
};

namespace {

// One thread at a time uses an instance, and only in its context.
class Use {
 public:
  explicit Use(cudaGraphExec_t instance) : instance_(instance) {
    expect(instance->context == emulated_gpu_context, "a graph of a context that is gone is used");
    expect(!instance->in_use.exchange(true), "two threads use a graph");
  }
  ~Use() { instance_->in_use = false; }

 private:
  cudaGraphExec_t instance_;
};

bool has_branches(const CUgraphExec_st& instance) {
  std::vector<int> followers(instance.kernels.size() + 1);  // the last: of the beginning
  for (const auto& waits_for : instance.waits_for) {
    if (waits_for.empty()) ++followers.back();
    for (const size_t before : waits_for) ++followers[before];
  }
  return std::any_of(followers.begin(), followers.end(), [](int n) { return n > 1; });
}

}  // namespace

extern "C" {

static CUresult current(CUcontext* context) {
  count(emulated_gpu_calls);
  *context = reinterpret_cast<CUcontext>(static_cast<uintptr_t>(1000 + emulated_gpu_address));
  return CUDA_SUCCESS;
}
static CUresult number_of(CUcontext, unsigned long long* number) {
  count(emulated_gpu_calls);
  *number = static_cast<unsigned long long>(emulated_gpu_context);
  return CUDA_SUCCESS;
}
static cudaError_t entry_point(std::string_view name, void** function, cudaDriverEntryPointQueryResult* result) {
  count(emulated_gpu_calls);
  *function = name == "cuCtxGetCurrent" ? reinterpret_cast<void*>(current)
              : name == "cuCtxGetId"    ? reinterpret_cast<void*>(number_of)
                                        : nullptr;
  *result = *function != nullptr ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
#if CUDART_VERSION >= 12050
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  return entry_point(name, function, result);
}
#else
cudaError_t cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long,
                                    cudaDriverEntryPointQueryResult* result) {
  return entry_point(name, function, result);
}
#endif

cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  count(emulated_gpu_calls);
  *status = emulated_gpu_captures != 0 ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  count(emulated_gpu_calls);
  count(emulated_gpu_exchanges);
  std::swap(*mode, capture_mode);
  return cudaSuccess;
}
cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* number) {
  count(emulated_gpu_calls);
  *number = reinterpret_cast<uintptr_t>(stream);
  return cudaSuccess;
}

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned) {
  count(emulated_gpu_calls);
  *graph = new CUgraph_st;
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  count(emulated_gpu_calls);
  for (CUgraphNode_st* node : graph->nodes) delete node;
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* before,
                                   size_t count_before, const cudaKernelNodeParams* kernel) {
  count(emulated_gpu_calls);
  *node = new CUgraphNode_st{Kernel(*kernel), {}, graph->nodes.size()};
  for (size_t i = 0; i < count_before; ++i) (*node)->waits_for.push_back(before[i]->number);
  graph->nodes.push_back(*node);
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* instance, cudaGraph_t graph, unsigned long long) {
  count(emulated_gpu_calls);
  expect_relaxed();
  if (emulated_gpu_refuses == kRefusesInstances) return cudaErrorNotSupported;
  *instance = new CUgraphExec_st{.context = emulated_gpu_context, .graph = graph, .kernels = {}, .waits_for = {}};
  for (const CUgraphNode_st* node : graph->nodes) {
    (*instance)->kernels.push_back(node->kernel);
    (*instance)->waits_for.push_back(node->waits_for);
  }
  count(emulated_gpu_instances);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t instance) {
  count(emulated_gpu_calls);
  expect_relaxed();
  { const Use use(instance); }
  delete instance;
  count(emulated_gpu_destroyed);
  return cudaSuccess;
}
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t instance, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* kernel) {
  count(emulated_gpu_calls);
  expect_relaxed();
  const Use use(instance);
  expect(instance->graph->nodes.at(node->number) == node, "a graph has no such node");
  if (emulated_gpu_refuses == kRefusesParameters) return cudaErrorGraphExecUpdateFailure;
  instance->kernels[node->number] = Kernel(*kernel);
  count(emulated_gpu_changes);
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t instance, cudaStream_t) {
  count(emulated_gpu_calls);
  const Use use(instance);
  if (emulated_gpu_refuses == kRefusesLaunches) return cudaErrorUnknown;
  static std::atomic<unsigned> launches{0};
  std::minstd_rand random(++launches);
  std::vector<bool> ended(instance->kernels.size());
  for (size_t left = ended.size(); left > 0; --left) {
    std::vector<size_t> ready;
    for (size_t i = 0; i < ended.size(); ++i) {
      const auto& before = instance->waits_for[i];
      if (!ended[i] && std::all_of(before.begin(), before.end(), [&](size_t j) { return ended[j]; })) {
        ready.push_back(i);
      }
    }
    const size_t next = ready[(random() >> 8) % ready.size()];
    const Kernel& kernel = instance->kernels[next];
    emulated_gpu::launch(kernel.grid, kernel.block.x, kernel.shared_bytes, kernel.bound);
    ended[next] = true;
  }
  count(emulated_gpu_graph_launches);
  if (has_branches(*instance)) count(emulated_gpu_forks);
  return cudaSuccess;
}
}
