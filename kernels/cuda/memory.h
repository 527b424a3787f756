// Errors of the CUDA runtime, and memory on a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/cuda/target.h"
#include "kernels/guarded.h"

namespace msda::kernels::cuda {

// Throws CudaError, or std::bad_alloc if the device is out of memory.
void check(cudaError_t error, const char* what);

// Device memory, allocated from our pool of the device, and freed on the target's stream.
class Memory {
 public:
  Memory(size_t bytes, Target& target);
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&&) = delete;
  ~Memory();

  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
  Target* target_;
};

}  // namespace msda::kernels::cuda
