// What all CUDA kernels share: eight threads work on one sample or pixel, each on four adjacent channels of 32, which
// is how the fixed tree over channels (sample.h, kLanes) falls onto a warp.
#pragma once

#include "kernels/cuda/problem.h"
#include "kernels/cuda/storage.cuh"
#include "kernels/sample.h"

namespace msda::kernels::cuda {

inline constexpr int kGroup = 8;  // threads to a group, each with four of 32 channels

__device__ inline const Level& level_of(const Levels& levels, int l) {
  return levels.far != nullptr ? levels.far[l] : levels.near[l];
}

template <class Real, class Stored>
__device__ inline Spot<Real> locate_sample(const Problem<Stored>& p, const Level& level, int64_t sample) {
  return locate_at(p, level, static_cast<Real>(widened(p.sampling_locations[2 * sample])),
                   static_cast<Real>(widened(p.sampling_locations[2 * sample + 1])));
}

// Axis::slope along a side of a level, where it is not flat.
template <class Real, class Stored>
__device__ inline Real slope_of(const Problem<Stored>& p, int32_t size) {
  return static_cast<Real>(p.align_corners ? size - 1 : size);
}

// The threads of this thread's group.
__device__ inline unsigned group_mask() { return 0xffu << (threadIdx.x & 24u); }

// The tree over 32 lanes, four of them in each thread of a group; every thread gets the sum.
template <class Real>
__device__ inline Real sum_over_group(const Real (&lanes)[4]) {
  Real sum = (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
#pragma unroll
  for (int step = 1; step < kGroup; step *= 2) sum = sum + __shfl_xor_sync(group_mask(), sum, step);
  return sum;
}

// The same for four samples at once, with fewer exchanges: lane j gets the sums of sample j % 4. All lanes of the warp.
template <int kSums, class Real>
__device__ inline void sums_over_group(const Real (&of)[4][kSums], Real (&sum)[kSums]) {
  const bool odd = (threadIdx.x & 1) != 0, upper = (threadIdx.x & 2) != 0;
#pragma unroll
  for (int k = 0; k < kSums; ++k) {
    Real half[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const Real kept = odd ? of[2 * h + 1][k] : of[2 * h][k], given = odd ? of[2 * h][k] : of[2 * h + 1][k];
      half[h] = kept + __shfl_xor_sync(~0u, given, 1);
    }
    const Real kept = upper ? half[1] : half[0], given = upper ? half[0] : half[1];
    sum[k] = kept + __shfl_xor_sync(~0u, given, 2);
    sum[k] = sum[k] + __shfl_xor_sync(~0u, sum[k], 4);
  }
}

}  // namespace msda::kernels::cuda
