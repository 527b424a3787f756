// Device memory for the kernels of a call: one block, divided into pieces.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/common/work.h"

namespace msda::kernels::cuda {

// Registers each piece first, then allocates all of them at once. The memory lives as long as the work.
class Workspace {
 public:
  explicit Workspace(Work& work) : work_(work) {}
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

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
  Work& work_;
  Piece pieces_[kMost];
  int count_ = 0;
  size_t bytes_ = 0;
};

}  // namespace msda::kernels::cuda
