// The functions of the CUDA runtime that libmsda calls, of a GPU whose memory is the host's. All is done at once.
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>

#include "kernels/cuda/stages.h"
#include "kernels/guarded.h"

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {  // of an H200
  *value = attribute == cudaDevAttrMultiProcessorCount ? 132 : 227 << 10;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return "an error of the emulated GPU"; }

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps*) {
  *pool = nullptr;
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }
cudaError_t cudaMallocFromPoolAsync(void** memory, size_t bytes, cudaMemPool_t, cudaStream_t) {
  *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (*memory == nullptr) return cudaErrorMemoryAllocation;
  std::memset(*memory, 0xcd, bytes);  // of no use to who reads it before it is written
  return cudaSuccess;
}
cudaError_t cudaFreeAsync(void* memory, cudaStream_t) {
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t) {
  std::memset(memory, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
}

namespace msda::kernels::cuda {

// The stages sort with a library that only CUDA's compiler reads.
void stages(const CheckedCall&, const msda_call&, const msda_tensor&, uint32_t,
            const msda_tensor* const[MSDA_STAGE_COUNT], cudaStream_t) {
  throw Unavailable("the emulated GPU has no stages");
}

}  // namespace msda::kernels::cuda
