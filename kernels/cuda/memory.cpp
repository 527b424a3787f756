#include "kernels/cuda/memory.h"

#include <map>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "kernels/cuda/relaxed_capture.h"

namespace msda::kernels::cuda {
namespace {

// A memory pool for each device: memory that a call frees stays there for the next call.
cudaMemPool_t pool_of_this_device() {
  static std::mutex mutex;
  static auto* pools = new std::map<int, cudaMemPool_t>;
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  const std::lock_guard lock(mutex);
  const auto found = pools->find(device);
  if (found != pools->end()) return found->second;
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, device};
  cudaMemPool_t pool = nullptr;
  check(cudaMemPoolCreate(&pool, &properties), "cudaMemPoolCreate");
  uint64_t kept = ~uint64_t{0};
  check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept), "cudaMemPoolSetAttribute");
  return (*pools)[device] = pool;
}

}  // namespace

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // clears the error, which the next call would report again
  if (error == cudaErrorMemoryAllocation) throw std::bad_alloc();
  throw CudaError(std::string(what) + ": " + cudaGetErrorString(error));
}

Memory::Memory(size_t bytes, cudaStream_t stream) : stream_(stream) {
  const RelaxedCapture relaxed;  // this or another thread may capture a stream meanwhile
  check(cudaMallocFromPoolAsync(&data_, bytes, pool_of_this_device(), stream), "cudaMallocFromPoolAsync");
}
Memory::Memory(Memory&& other) noexcept : data_(std::exchange(other.data_, nullptr)), stream_(other.stream_) {}
Memory::~Memory() {
  if (data_ == nullptr) return;
  const RelaxedCapture relaxed;
  if (cudaFreeAsync(data_, stream_) != cudaSuccess) cudaGetLastError();
}

}  // namespace msda::kernels::cuda
