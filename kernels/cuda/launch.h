// What launches of kernels have in common: blocks, errors, and arrays that travel in a kernel's parameters.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <vector>

#include "kernels/cuda/memory.h"
#include "kernels/cuda/problem.h"

namespace msda::kernels::cuda {

// Throws what is wrong with the launch just made.
inline void check_launch(const char* kernel) { check(cudaGetLastError(), kernel); }

// For a kernel whose blocks go on to further items.
inline unsigned blocks_for(int64_t items, int64_t of_a_block) {
  constexpr int64_t kMost = 65536;
  return static_cast<unsigned>(std::min(kMost, (items + of_a_block - 1) / of_a_block));
}

// Levels where a kernel finds them: in its parameters, or, where these cannot hold them, at `far`, far_count() of them
// in a workspace.
inline int64_t far_count(int64_t levels) { return levels <= Levels::kNear ? 0 : levels; }
template <class T>
void hand_over(const std::vector<T>& values, T* far, const T*& far_field, T* near_field, cudaStream_t stream) {
  if (values.size() <= Levels::kNear) {
    std::copy(values.begin(), values.end(), near_field);
    far_field = nullptr;
    return;
  }
  check(cudaMemcpyAsync(far, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice, stream),
        "cudaMemcpyAsync");
  far_field = far;
}

}  // namespace msda::kernels::cuda
