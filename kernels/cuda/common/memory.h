// Errors of the CUDA runtime, and memory on a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <utility>

#include "kernels/cuda/common/target.h"
#include "kernels/guarded.h"

namespace msda::kernels::cuda {

// Throws CudaError, or std::bad_alloc if the device is out of memory.
void check(cudaError_t error, const char* what);

struct Block {
  void* data = nullptr;
  size_t bytes = 0;
};

// Device memory, allocated from our pool of the device, and freed on the target's stream.
class Memory {
 public:
  Memory(size_t bytes, Target& target);
  Memory(Block block, Target& target) : block_(block), target_(&target) {}  // takes a block of this class, to be freed
  Memory(Memory&& source) noexcept;
  Memory& operator=(Memory&&) = delete;
  ~Memory();

  void* data() const { return block_.data; }
  size_t bytes() const { return block_.bytes; }
  // Exchanges the blocks: the one taken in is then freed in its place.
  void swap(Block& block) { std::swap(block_, block); }

 private:
  Block block_;
  Target* target_;
};

}  // namespace msda::kernels::cuda
