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

template <class Real>
struct Spot {
  Axis<Real> x, y;
  bool sampled;
};

template <class Real, class Stored>
__device__ inline Spot<Real> locate_at(const Problem<Stored>& p, const Level& level, Real x, Real y) {
  Spot<Real> spot;
  spot.x = locate(p.dialect, p.padding, p.align_corners, x, level.width);
  spot.y = locate(p.dialect, p.padding, p.align_corners, y, level.height);
  spot.sampled = spot.x.sampled && spot.y.sampled;
  return spot;
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

// The cell's number in its level, or -1 for a sample that no pixel of the level gets anything from.
template <class Real>
__device__ inline int64_t cell_of(const Spot<Real>& spot, const Level& level) {
  const bool reached = spot.y.low >= -1 && spot.y.low < level.height && spot.x.low >= -1 && spot.x.low < level.width;
  if (!spot.sampled || !reached) return -1;
  return (int64_t{spot.y.low} + 1) * (int64_t{level.width} + 1) + spot.x.low + 1;
}

// Pixel number within the level of each corner of the cell at (low_y, low_x), or -1 where the corner reads zero.
template <class Stored>
__device__ inline void corner_pixels(const Problem<Stored>& p, const Level& level, int32_t low_y, int32_t low_x,
                                     int64_t (&pixels)[4]) {
#pragma unroll
  for (int corner = 0; corner < 4; ++corner) {
    const int32_t y = corner_pixel(p.dialect, p.padding, low_y, corner / 2, level.height);
    const int32_t x = corner_pixel(p.dialect, p.padding, low_x, corner % 2, level.width);
    pixels[corner] = y < 0 || x < 0 ? -1 : int64_t{y} * level.width + x;
  }
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
