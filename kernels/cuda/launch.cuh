// What launches of kernels have in common: blocks, and arrays that are passed in a kernel's parameters.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <vector>

#include "kernels/cuda/clear.h"
#include "kernels/cuda/context.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/problem.h"
#include "kernels/cuda/workspace.h"

namespace msda::kernels::cuda {

// Adds a kernel to a call's work. Without CUDA's compiler a program emulates the threads (tests/emulated_gpu), so that
// what a kernel computes can be tested on any machine.
template <class... Parameters, class... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), dim3 grid, int threads, int64_t shared_bytes, Work& work,
            const Arguments&... arguments) {
#if !defined(__CUDACC__)
  emulated_gpu::know(kernel);
#endif
  const auto add = [&](const Parameters&... parameters) {
    work.add({name, reinterpret_cast<const void*>(kernel), grid, threads, shared_bytes}, parameters...);
  };
  add(arguments...);
}

// Bytes of shared memory that the blocks of every kernel can have, what the kernel declares included.
inline constexpr int64_t kSharedWithoutAsking = 48 << 10;

// For a kernel whose blocks each process several items.
inline unsigned blocks_for(int64_t items, int64_t of_a_block) {
  constexpr int64_t kMost = 65536;
  return static_cast<unsigned>(std::min(kMost, (items + of_a_block - 1) / of_a_block));
}

// The levels as a kernel finds them: in its parameters, or, if there are too many, at `far`, far_count() of them in a
// workspace.
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
