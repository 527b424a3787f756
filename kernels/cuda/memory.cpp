#include "kernels/cuda/memory.h"

#include <map>
#include <mutex>
#include <new>
#include <string>

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

void Workspace::add(void** pointer, int64_t count, size_t size) {
  constexpr size_t kAlignment = 256;
  size_t bytes = 0;
  if (count_ == kMost || __builtin_mul_overflow(static_cast<size_t>(count), size, &bytes) ||
      __builtin_add_overflow(bytes_, bytes + kAlignment, &bytes)) {
    throw std::bad_alloc();
  }
  *pointer = nullptr;
  pieces_[count_++] = {pointer, bytes_};
  bytes_ = (bytes - 1) / kAlignment * kAlignment;
}

void Workspace::take() {
  if (bytes_ == 0) return;
  check(cudaMallocFromPoolAsync(&memory_, bytes_, pool_of_this_device(), stream_), "cudaMallocFromPoolAsync");
  for (int i = 0; i < count_; ++i) *pieces_[i].pointer = static_cast<char*>(memory_) + pieces_[i].offset;
}

Workspace::~Workspace() {
  if (memory_ != nullptr && cudaFreeAsync(memory_, stream_) != cudaSuccess) cudaGetLastError();
}

}  // namespace msda::kernels::cuda
