// grad_value from the sums over runs: the runs of each cell are added up by the tree (sample.h, kRun), then eight
// threads take a pixel and add the sums of the cells that reach it, in their order. One writer to a pixel, and nothing
// has to be zeroed before.
#pragma once

#include "kernels/cuda/runs.cuh"

namespace msda::kernels::cuda {

inline constexpr int kPixelThreads = 256, kPixelGroups = kPixelThreads / kGroup;

template <class Real>
__device__ inline void add_to(Real (&sum)[4], const Real (&addend)[4]) {
#pragma unroll
  for (int d = 0; d < 4; ++d) sum[d] = sum[d] + addend[d];
}

// From left to right, `count` of at most 32; the first is in `sum`.
template <class Real>
__device__ inline void add_runs(const Real* first, int64_t step, uint32_t count, Real (&sum)[4]) {
#pragma unroll 4
  for (uint32_t i = 1; i < count; ++i) {
    Real next[4];
    load_four<true>(first + i * step, 4, next);
    add_to(sum, next);
  }
}

inline constexpr int kFoldThreads = 512;

// The tree of runs of those cells that have many: every 32 of them into the first of these, and so on until one is
// left. A block to each batch, head and level.
template <class Real>
__global__ void __launch_bounds__(kFoldThreads)
    fold_kernel(LevelPlans plans, uint32_t levels, const HotCell* hot, const uint32_t* hot_count, uint32_t most_hot,
                RunSums<Real> sums) {
  const LevelPlan& plan = plan_of(plans, static_cast<int>(blockIdx.x % levels));
  const uint32_t head = blockIdx.x / levels, cells = hot_count[blockIdx.x];
  const int64_t first_run = int64_t{blockIdx.y} * sums.most + plan.first_run + int64_t{head} * plan.most_runs;
  for (uint32_t i = 0; i < cells; ++i) {
    const HotCell cell = hot[int64_t{blockIdx.x} * most_hot + i];
    Real* runs = sums.to + (first_run + cell.first_run) * (4 * kLanes);
    int64_t step = 4 * kLanes;
    for (uint32_t left = cell.runs; left > 1; left = (left + kRun - 1) / kRun) {
      // Four threads of a channel each to a chain would do; eight of four channels read whole lines.
      const uint32_t chains = (left + kRun - 1) / kRun;
      for (uint32_t unit = threadIdx.x / kGroup; unit < 4 * chains; unit += kFoldThreads / kGroup) {
        const uint32_t chain = unit / 4;
        Real* first = runs + int64_t{chain} * kRun * step + unit % 4 * kLanes + 4 * (threadIdx.x % kGroup);
        Real sum[4];
        load_four<true>(first, 4, sum);
        add_runs(first, step, min(left - chain * kRun, static_cast<uint32_t>(kRun)), sum);
        *reinterpret_cast<Four<Real>*>(first) = *reinterpret_cast<Four<Real>*>(sum);
      }
      __syncthreads();
      step *= kRun;
    }
  }
}

template <bool kWhole, class Stored, class Real>
__global__ void __launch_bounds__(kPixelThreads)
    sum_pixels_kernel(Problem<Stored> p, LevelPlans plans, const CellStart* cells, RunSums<Real> from,
                      Result grad_value) {
  const int lane = static_cast<int>(threadIdx.x % kGroup);
  const int channel = static_cast<int>(blockIdx.y) * kLanes + 4 * lane, channels = static_cast<int>(p.D) - channel;
  const auto pixels = static_cast<uint32_t>(p.S);
  const Share share = share_of(p, (pixels + kPixelGroups - 1) / kPixelGroups);
  const uint32_t head = share.head, pixel = share.number * kPixelGroups + threadIdx.x / kGroup;
  if (pixel >= pixels || channels <= 0) return;
  int l = 0;
  while (l + 1 < p.L && plan_of(plans, l + 1).level.start <= pixel) ++l;
  const LevelPlan& plan = plan_of(plans, l);
  const uint32_t width = plan.level.width, of_level = pixel - static_cast<uint32_t>(plan.level.start);
  const auto y = static_cast<int32_t>(of_level / width), x = static_cast<int32_t>(of_level % width);
  const CellStart* starts = cells + plan.first_cell + int64_t{head} * plan.stride;
  constexpr int64_t step = 4 * kLanes;
  const Real* runs = from.to + (int64_t{blockIdx.y} * from.most + plan.first_run + int64_t{head} * plan.most_runs) * step + 4 * lane;
  const bool clamps = p.dialect == MSDA_MSDA_TRITON && p.padding == MSDA_PADDING_BORDER;

  uint32_t begin[2][3];
#pragma unroll
  for (int row = 0; row < 2; ++row) {
#pragma unroll
    for (int i = 0; i < 3; ++i) begin[row][i] = starts[int64_t{y + row} * (width + 1) + x + i].run;
  }
  // The cell at (y + row - 1, x + column - 1) reaches the pixel with the corner opposite.
  const auto runs_of = [&](int row, int column, int corner) {
    return runs + begin[row][column] * step + corner * kLanes;
  };
  const auto count_of = [&](int row, int column) {
    const uint32_t count = begin[row][column + 1] - begin[row][column];
    return count * kRun > kManySamples ? 1 : count;  // folded
  };
  Real out[4] = {};
  if (!(clamps && (y == 0 || x == 0 || y + 1 == plan.level.height || x + 1 == plan.level.width))) {
    Real sum[4][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (count_of(i / 2, i % 2) != 0) load_four<true>(runs_of(i / 2, i % 2, 3 - i), 4, sum[i]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t count = count_of(i / 2, i % 2);
      if (count == 0) continue;
      if (count > 1) add_runs(runs_of(i / 2, i % 2, 3 - i), step, count, sum[i]);
      add_to(out, sum[i]);
    }
  } else {
    for (int i = 0; i < 4; ++i) {
      const int row = i / 2, column = i % 2;
      const uint32_t count = count_of(row, column);
      for (int c = 0; c < 4 && count != 0; ++c) {
        if (corner_pixel(p.dialect, p.padding, y + row - 1, c / 2, plan.level.height) != y) continue;
        if (corner_pixel(p.dialect, p.padding, x + column - 1, c % 2, plan.level.width) != x) continue;
        Real sum[4];
        load_four<true>(runs_of(row, column, c), 4, sum);
        add_runs(runs_of(row, column, c), step, count, sum);
        add_to(out, sum);
      }
    }
  }
  const auto heads = static_cast<uint32_t>(p.M);
  const int64_t at = (int64_t{head / heads} * p.S + pixel) * p.M + head % heads;
  store_four<kWhole>(grad_value.data, grad_value.dtype, at * p.D + channel, channels, out);
}

}  // namespace msda::kernels::cuda
