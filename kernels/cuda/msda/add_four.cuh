// Atomic additions to four channels of a row.
#pragma once

#include <cstdint>

#include "kernels/cuda/common/storage.cuh"

namespace msda::kernels::cuda {

// Float64 is added one number at a time: where four threads then take adjacent channels, which are one sector of 32
// bytes, the device has a quarter of the sectors to change that it has where each thread takes four channels.
template <class Real>
inline constexpr int kChannelStep = sizeof(Real) == sizeof(double) ? 4 : 1;
// Returns the first of a thread's channels of a row; the others are kChannelStep apart. `lane`: in its group.
template <class Real>
__device__ inline int first_channel(int lane) {
  return kChannelStep<Real> == 1 ? 4 * lane : lane / 4 * 16 + lane % 4;
}
// Turns four adjacent channels of each thread into the ones above. All of `lanes`, whole groups, must call it.
template <class Real>
__device__ inline void exchange_channels(Real (&four)[4], unsigned lanes = ~0u) {
  if constexpr (kChannelStep<Real> == 1) return;
  const bool odd = (threadIdx.x & 1) != 0, high = (threadIdx.x & 2) != 0;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const Real received = __shfl_xor_sync(lanes, odd ? four[i] : four[i + 1], 1);
    four[i] = odd ? received : four[i];
    four[i + 1] = odd ? four[i + 1] : received;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const Real received = __shfl_xor_sync(lanes, high ? four[i] : four[i + 2], 2);
    four[i] = high ? received : four[i];
    four[i + 2] = high ? four[i + 2] : received;
  }
}

// Adds to global memory atomically; the hardware chooses the order. `count`: channels from `to` on to the row's end.
template <bool kWhole, int kStep = 1, class Real>
__device__ inline void add_four(Real* to, int count, const Real (&addend)[4]) {
#if __CUDA_ARCH__ >= 900
  constexpr bool kAtOnce = kWhole && kStep == 1 && sizeof(Real) == sizeof(float);
  if constexpr (kAtOnce) {
    if (count > 0) atomicAdd(reinterpret_cast<float4*>(to), make_float4(addend[0], addend[1], addend[2], addend[3]));
  }
#else
  constexpr bool kAtOnce = false;
#endif
  if constexpr (!kAtOnce) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i * kStep < count) atomicAdd(to + i * kStep, addend[i]);
    }
  }
}

}  // namespace msda::kernels::cuda
