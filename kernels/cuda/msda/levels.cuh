// The levels of a call on their way to its kernels.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/msda/problem.h"

namespace msda::kernels::cuda {

// Returns how many levels lie at `far`, in a workspace: none if all of them fit into the kernel's parameters.
inline int64_t far_count(int64_t levels) { return levels <= Levels::kNear ? 0 : levels; }

// Values on their way to `far`: by parameters, because a captured copy would read the host's memory when the graph is
// launched.
template <class T>
struct LevelBatch {
  T at[Levels::kNear];
};
template <class T>
__global__ void hand_over_kernel(LevelBatch<T> values, int count, T* far) {
  const auto i = static_cast<int>(threadIdx.x);
  if (i < count) far[i] = values.at[i];
}

template <class T>
void hand_over(const std::vector<T>& values, T* far, const T*& far_field, T* near_field, Work& work) {
  if (values.size() <= Levels::kNear) {
    std::copy(values.begin(), values.end(), near_field);
    far_field = nullptr;
    return;
  }
  constexpr int kThreads = 32;
  static_assert(kThreads >= Levels::kNear);
  for (size_t first = 0; first < values.size(); first += Levels::kNear) {
    const size_t count = std::min<size_t>(values.size() - first, Levels::kNear);
    LevelBatch<T> some{};
    std::copy_n(values.begin() + static_cast<ptrdiff_t>(first), count, some.at);
    launch("hand_over_kernel", hand_over_kernel<T>, 1, kThreads, 0, work, some, static_cast<int>(count), far + first);
  }
  far_field = far;
}

}  // namespace msda::kernels::cuda
