// What launches of kernels have in common.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>

#include "kernels/cuda/common/clear.h"
#include "kernels/cuda/common/context.h"
#include "kernels/cuda/common/device.h"
#include "kernels/cuda/common/workspace.h"

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

// Returns the number of blocks for a kernel whose blocks each process several items.
inline unsigned blocks_for(int64_t items, int64_t of_a_block) {
  constexpr int64_t kMost = 65536;
  return static_cast<unsigned>(std::min(kMost, (items + of_a_block - 1) / of_a_block));
}

}  // namespace msda::kernels::cuda
