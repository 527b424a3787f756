// Atomic additions to four adjacent channels.
#pragma once

#include <cstdint>

#include "kernels/cuda/storage.cuh"

namespace msda::kernels::cuda {

// Adds to global memory atomically; the hardware chooses the order.
template <bool kWhole, class Real>
__device__ inline void add_four(Real* to, int count, const Real (&addend)[4]) {
#if __CUDA_ARCH__ >= 900
  constexpr bool kAtOnce = kWhole && sizeof(Real) == sizeof(float);
  if constexpr (kAtOnce) {
    if (count > 0) atomicAdd(reinterpret_cast<float4*>(to), make_float4(addend[0], addend[1], addend[2], addend[3]));
  }
#else
  constexpr bool kAtOnce = false;
#endif
  if constexpr (!kAtOnce) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i < count) atomicAdd(to + i, addend[i]);
    }
  }
}

}  // namespace msda::kernels::cuda
