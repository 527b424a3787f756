// The deterministic backward pass of a short call in one launch, without memory in between. Some blocks each take a
// part of a level of a head: they find the samples that reach it, group them by cell in their shared memory, and add up
// each pixel's addends from there. The other blocks compute the samples' own gradients (short_samples.cuh), which
// depend on nothing else; they keep the device busy while the first ones group.
#pragma once

#include "kernels/cuda/msda/part_pixels.cuh"
#include "kernels/cuda/msda/short_samples.cuh"

namespace msda::kernels::cuda {

template <bool kWhole, class Stored, class Real>
__device__ inline void sum_part(const Problem<Stored>& p, const AtOncePlan& plan, const Part& part,
                                const Points& points, const Result& grad_value) {
  __shared__ PartCounts counts;
  const auto samples = static_cast<uint32_t>(p.Q * p.P);
  const PartRoom<Real> room(dynamic_shared<uint4>(), samples, plan.most_cells);
  group_part(p, part, points, samples, room, counts);

  const int lane = static_cast<int>(threadIdx.x % kGroup);
  const int channel = 4 * lane, channels = static_cast<int>(p.D) - channel;
  const auto row_elements = static_cast<uint32_t>(p.M * p.D);
  const Stored* rows = p.grad_output + first_row_of(p, part.head, p.Q) * p.D + channel;
  const Addends<kWhole, Stored, Real> addends(room.sorted, rows, row_elements * uint32_t{sizeof(Stored)}, channels);
  fold_runs(addends, room, counts);
  if (channels <= 0) return;
  const Level level = p.levels.near[part.l];
  const auto width = static_cast<uint32_t>(level.width);
  const bool clamps = corners_clamp(p.dialect, p.padding);
  const Division by_width = plan.levels[part.l].by_width;
  const int64_t first = (first_row_of(p, part.head, p.S) + level.start * p.M) * p.D + channel;
  for (uint32_t pixel = threadIdx.x / kGroup; pixel < part.rows * width; pixel += kAtOnceGroups) {
    const auto [row, x] = by_width.divide(pixel);
    const uint32_t y = part.first_row + row;
    Edges edges{0};
    if (clamps) {
      edges.at = (x == 0 ? edges.kLeft : 0) | (x + 1 == width ? edges.kRight : 0) | (y == 0 ? edges.kTop : 0) |
                 (y + 1 == static_cast<uint32_t>(level.height) ? edges.kBottom : 0);
    }
    Real out[4] = {};
    sum_pixel(addends, room.starts + row * (width + 1) + x, width + 1, edges, out);
    const int64_t at = first + int64_t{part.first_row * width + pixel} * row_elements;
    store_four<kWhole>(grad_value.data, grad_value.dtype, at, channels, out);
  }
}

// The first `part_blocks` blocks sum up parts, head by head. D is at most kLanes.
template <bool kWhole, class Stored, class Real>
__global__ void __launch_bounds__(kAtOnceThreads, kGradientBlocks<true, Real>)
    at_once_kernel(Problem<Stored> p, AtOncePlan plan, Division by_parts, Points points, uint32_t part_blocks,
                   RowParts row_parts, Result grad_value, Result grad_locations, Result grad_weights) {
  static_assert(kAtOnceThreads == kSampleThreads);
  if (blockIdx.x < part_blocks) {
    sum_part<kWhole, Stored, Real>(p, plan, part_of(p, plan, by_parts), points, grad_value);
  } else {
    short_gradients<kWhole, false>(p, row_parts, blockIdx.x - part_blocks, static_cast<Real*>(nullptr), grad_locations,
                                   grad_weights);
  }
}

}  // namespace msda::kernels::cuda
