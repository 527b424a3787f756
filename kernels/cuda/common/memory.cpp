#include "kernels/cuda/common/memory.h"

#include <map>
#include <mutex>
#include <new>
#include <string>
#include <utility>

namespace msda::kernels::cuda {
namespace {

// Returns the device's memory pool: memory that a call frees stays there for the next call.
cudaMemPool_t pool_of(int device) {
  static std::mutex mutex;
  static auto* pools = new std::map<int, cudaMemPool_t>;
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

Memory::Memory(size_t bytes, Target& target) : block_{nullptr, bytes}, target_(&target) {
  target.relax();
  check(cudaMallocFromPoolAsync(&block_.data, bytes, pool_of(target.device().number), target.stream()),
        "cudaMallocFromPoolAsync");
}
Memory::Memory(Memory&& source) noexcept : block_(std::exchange(source.block_, {})), target_(source.target_) {}
Memory::~Memory() {
  if (block_.data == nullptr) return;
  target_->relax();
  if (cudaFreeAsync(block_.data, target_->stream()) != cudaSuccess) cudaGetLastError();
}

}  // namespace msda::kernels::cuda
