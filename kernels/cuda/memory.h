// Errors of the CUDA runtime, and memory on a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/guarded.h"

namespace msda::kernels::cuda {

// Throws CudaError, or std::bad_alloc if the device is out of memory.
void check(cudaError_t error, const char* what);

// Device memory for one call: one block, allocated and freed on a stream, and divided into pieces.
class Workspace {
 public:
  explicit Workspace(cudaStream_t stream) : stream_(stream) {}
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace();

  // First registers each piece, then allocates all of them at once.
  template <class T>
  void want(T*& pointer, int64_t count) {
    add(reinterpret_cast<void**>(&pointer), count, sizeof(T));
  }
  void want(void*& pointer, int64_t count, size_t element_bytes) { add(&pointer, count, element_bytes); }
  void take();

 private:
  void add(void** pointer, int64_t count, size_t size);
  struct Piece {
    void** pointer;
    size_t offset;
  };
  static constexpr int kMost = 16;
  cudaStream_t stream_;
  Piece pieces_[kMost];
  int count_ = 0;
  size_t bytes_ = 0;
  void* memory_ = nullptr;
};

}  // namespace msda::kernels::cuda
