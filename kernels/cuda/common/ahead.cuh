// Asynchronous copies from global to shared memory.
#pragma once

#include <cstring>

#include "kernels/cuda/common/storage.cuh"

namespace msda::kernels::cuda {

template <int kBytes>
__device__ inline void copy_ahead(void* to_shared, const void* from) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes % 16 == 0);
#if defined(__CUDA_ARCH__)
  if constexpr (kBytes > 16) {
    copy_ahead<16>(to_shared, from);
    copy_ahead<kBytes - 16>(static_cast<char*>(to_shared) + 16, static_cast<const char*>(from) + 16);
  } else if constexpr (kBytes == 16) {
    const auto to = static_cast<unsigned>(__cvta_generic_to_shared(to_shared));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
  } else {
    const auto to = static_cast<unsigned>(__cvta_generic_to_shared(to_shared));
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(kBytes) : "memory");
  }
#else
  memcpy(to_shared, from, kBytes);
#endif
}

// Waits for all copies of this thread; __syncwarp() then shows them to the other threads of the warp.
__device__ inline void wait_for_copies() {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// Copies four channels of a row, of which `count` exist; the others become 0. kWhole: all four, aligned.
template <bool kWhole, class Stored>
__device__ inline void copy_four_ahead(Four<Stored>& to_shared, const Stored* row, int count) {
  if constexpr (kWhole) {
    copy_ahead<sizeof(Four<Stored>)>(&to_shared, row);
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) to_shared.at[i] = i < count ? row[i] : static_cast<Stored>(0.0f);
  }
}

}  // namespace msda::kernels::cuda
