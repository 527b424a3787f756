// Errors of the CUDA runtime, and memory on a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/guarded.h"

namespace msda::kernels::cuda {

// Throws CudaError, or std::bad_alloc if the device is out of memory.
void check(cudaError_t error, const char* what);

// Device memory, allocated and freed on a stream.
class Memory {
 public:
  Memory(size_t bytes, cudaStream_t stream);
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&&) = delete;
  ~Memory();
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
  cudaStream_t stream_;
};

}  // namespace msda::kernels::cuda
