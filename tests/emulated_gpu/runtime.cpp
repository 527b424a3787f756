// The functions of the CUDA runtime that libmsda calls, for a GPU whose memory is the host's, except those of graphs
// and streams (graphs.cpp). Everything runs synchronously.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>
#include <vector>

#include "kernels/cuda/common/stable_sort.h"
#include "kernels/cuda/msda/stages.h"
#include "kernels/guarded.h"
#include "tests/emulated_gpu/emulated_gpu.h"
#include "tests/emulated_gpu/graphs.h"

using emulated_gpu::count;
using emulated_gpu::expect_relaxed;

extern "C" {

cudaError_t cudaGetDeviceCount(int* devices) {
  count(emulated_gpu_calls);
  *devices = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  count(emulated_gpu_calls);
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  count(emulated_gpu_calls);
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = 132;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = 227 << 10;
      return cudaSuccess;
    case cudaDevAttrL2CacheSize:
      *value = 1 << 20;  // small, as the tests' calls are, so that some are forked
      return cudaSuccess;
    default:
      return cudaErrorInvalidValue;
  }
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  count(emulated_gpu_calls);
  *attributes = {};
  return cudaSuccess;
}
// Fails if a function's attribute is not always the same: host threads that launch it would race.
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute, int value) {
  count(emulated_gpu_calls);
  static std::mutex mutex;
  static std::map<const void*, int> values;
  const std::lock_guard lock(mutex);
  return values.emplace(kernel, value).first->second == value ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** parameters, size_t shared_bytes,
                             cudaStream_t) {
  count(emulated_gpu_calls);
  emulated_gpu::launch(grid, block.x, shared_bytes, emulated_gpu::bound(kernel, parameters));
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return "an error of the emulated GPU"; }

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps*) {
  count(emulated_gpu_calls);
  expect_relaxed();
  *pool = nullptr;
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) {
  count(emulated_gpu_calls);
  return cudaSuccess;
}
cudaError_t cudaMallocFromPoolAsync(void** memory, size_t bytes, cudaMemPool_t, cudaStream_t) {
  count(emulated_gpu_calls);
  count(emulated_gpu_allocations);
  expect_relaxed();
  *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (*memory == nullptr) return cudaErrorMemoryAllocation;
  std::memset(*memory, 0xcd, bytes);  // so that reading it uninitialized shows
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  count(emulated_gpu_calls);
  count(emulated_gpu_frees);
  expect_relaxed();
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaFreeAsync(void* memory, cudaStream_t) { return cudaFree(memory); }
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t) {
  count(emulated_gpu_calls);
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
}

namespace msda::kernels::cuda {

// Sorting goes by a library that only CUDA's compiler accepts.
template <class Key>
StableSort<Key>::StableSort(int64_t count, int64_t most) : count_(count), most_(most) {}
template <class Key>
void StableSort<Key>::want(Workspace& workspace) {
  for (auto*& memory : keys_) workspace.want(memory, count_);
  for (auto*& memory : numbers_) workspace.want(memory, count_);
}
template <class Key>
typename StableSort<Key>::Sorted StableSort<Key>::sorted(Work& work) {
  work.enqueue();
  std::vector<int64_t> order(static_cast<size_t>(count_));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return keys_[0][a] < keys_[0][b]; });
  for (int64_t i = 0; i < count_; ++i) {
    keys_[1][i] = keys_[0][order[static_cast<size_t>(i)]];
    numbers_[1][i] = numbers_[0][order[static_cast<size_t>(i)]];
  }
  return {keys_[1], numbers_[1]};
}
template class StableSort<uint32_t>;

// The stages' kernels are not among those that are emulated.
void stages(const CheckedCall&, const msda_call&, const msda_tensor&, uint32_t,
            const msda_tensor* const[MSDA_STAGE_COUNT], Work&) {
  throw Unavailable("the emulated GPU has no stages");
}

}  // namespace msda::kernels::cuda
