#include "kernels/cuda/common/workspace.h"

#include <new>

namespace msda::kernels::cuda {

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
  char* const memory = static_cast<char*>(work_.allocate(bytes_));
  for (int i = 0; i < count_; ++i) *pieces_[i].pointer = memory + pieces_[i].offset;
}

}  // namespace msda::kernels::cuda
