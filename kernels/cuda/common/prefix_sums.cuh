// Sums over the threads before a thread.
#pragma once

#include "kernels/cuda/common/warp.cuh"

namespace msda::kernels::cuda {

// Returns the sum of `mine` over the lanes of a warp up to this one. All lanes must call it.
template <class T>
__device__ inline T sum_upto_lane(T mine) {
#pragma unroll
  for (int step = 1; step < kWarp; step *= 2) {
    const T below = __shfl_up_sync(~0u, mine, step);
    if (threadIdx.x % kWarp >= step) mine += below;
  }
  return mine;
}

// Returns the sum of `mine` over the threads before this one, and in `total` over all; `sums` has kWarp + 1 places. All
// threads of a block must call it.
template <class T>
__device__ inline T sum_before(T mine, T* sums, T& total) {
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const T inclusive = sum_upto_lane(mine);
  if (lane == kWarp - 1) sums[warp] = inclusive;
  __syncthreads();
  if (warp == 0) {
    const T whole = lane < blockDim.x / kWarp ? sums[lane] : T(0), upto = sum_upto_lane(whole);
    sums[lane] = upto - whole;
    if (lane == kWarp - 1) sums[kWarp] = upto;
  }
  __syncthreads();
  total = sums[kWarp];
  const T before = sums[warp] + inclusive - mine;
  __syncthreads();
  return before;
}

}  // namespace msda::kernels::cuda
