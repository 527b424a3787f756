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

// From left to right, `count` of at most 32; the first is in `sum`. kUnrolled: for where there tend to be many.
template <int kUnrolled, class Real>
__device__ inline void add_chain(const Real* first, int64_t step, uint32_t count, Real (&sum)[4]) {
#pragma unroll kUnrolled
  for (uint32_t i = 1; i < count; ++i) {
    Real next[4];
    load_four<true>(first + i * step, 4, next);
    add_to(sum, next);
  }
}

// The tree of a cell's runs, kManySamples / 32 of them at most; the first is in `sum`.
template <int kUnrolled, class Real>
__device__ inline void add_runs(const Real* first, int64_t step, uint32_t count, Real (&sum)[4]) {
  static_assert(kManySamples <= kRun * kRun * kRun);  // a chain of chains will do
  add_chain<kUnrolled>(first, step, min(count, static_cast<uint32_t>(kRun)), sum);
  for (uint32_t done = kRun; done < count; done += kRun) {
    Real chain[4];
    load_four<true>(first + done * step, 4, chain);
    add_chain<kUnrolled>(first + done * step, step, min(count - done, static_cast<uint32_t>(kRun)), chain);
    add_to(sum, chain);
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
      const uint32_t chains = (left + kRun - 1) / kRun;
      for (uint32_t unit = threadIdx.x / kGroup; unit < 4 * chains; unit += kFoldThreads / kGroup) {
        const uint32_t chain = unit / 4;
        Real* first = runs + int64_t{chain} * kRun * step + unit % 4 * kLanes + 4 * (threadIdx.x % kGroup);
        Real sum[4];
        load_four<true>(first, 4, sum);
        add_chain<4>(first, step, min(left - chain * kRun, static_cast<uint32_t>(kRun)), sum);
        *reinterpret_cast<Four<Real>*>(first) = *reinterpret_cast<Four<Real>*>(sum);
      }
      __syncthreads();
      step *= kRun;
    }
  }
}

// kClamps: corners outside the level read the border (corner_pixel), and so a pixel there may be more than one corner
// of a cell. kDense: there are several runs to a cell.
template <bool kWhole, bool kClamps, bool kDense, class Stored, class Real>
__global__ void __launch_bounds__(kPixelThreads, (kDense ? 4 : 6) / (sizeof(Real) / sizeof(float)))
    sum_pixels_kernel(Problem<Stored> p, LevelPlans plans, Division by_blocks, const CellStart* cells,
                      RunSums<Real> from, Result grad_value) {
  constexpr uint32_t kRunSize = 4 * kLanes, kRunStep = kRunSize * sizeof(Real);
  constexpr int kUnrolled = kDense ? 4 : 1;
  const int lane = static_cast<int>(threadIdx.x % kGroup);
  const int channel = static_cast<int>(blockIdx.y) * kLanes + 4 * lane, channels = static_cast<int>(p.D) - channel;
  const auto pixels = static_cast<uint32_t>(p.S);
  const Share share = share_of(by_blocks);
  const uint32_t head = share.head, pixel = share.number * kPixelGroups + threadIdx.x / kGroup;
  if (pixel >= pixels || channels <= 0) return;
  int l = 0;
  while (l + 1 < p.L && plan_of(plans, l + 1).level.start <= pixel) ++l;
  const LevelPlan& plan = plan_of(plans, l);
  const auto width = static_cast<uint32_t>(plan.level.width);
  const uint32_t of_level = pixel - static_cast<uint32_t>(plan.level.start), y = plan.by_width.quotient(of_level),
                 x = of_level - y * width;
  const CellStart* starts = starts_of(cells, plan, head) + y * (width + 1) + x;
  const int64_t first_run = int64_t{blockIdx.y} * from.most + plan.first_run + int64_t{head} * plan.most_runs;
  const Real* runs = from.to + first_run * kRunSize + 4 * lane;

  // The cells around, at (y - 1, x - 1), (y - 1, x), (y, x - 1), (y, x).
  uint32_t first[4], count[4];
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const CellStart* of_row = starts + row * (width + 1);
    const uint32_t begin[3] = {of_row[0].run, of_row[1].run, of_row[2].run};
#pragma unroll
    for (int column = 0; column < 2; ++column) {
      const uint32_t number = begin[column + 1] - begin[column];
      first[2 * row + column] = begin[column];
      count[2 * row + column] = number > kManySamples / kRun ? 1 : number;  // folded
    }
  }
  Real out[4] = {};
  const bool at_edge =
      kClamps && (y == 0 || x == 0 || y + 1 == static_cast<uint32_t>(plan.level.height) || x + 1 == width);
  if (!at_edge) {
    // Each reaches the pixel with the corner opposite.
    Real sum[4][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (count[i] != 0) load_four<true>(row_at(runs, first[i], kRunStep) + (3 - i) * kLanes, 4, sum[i]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (count[i] == 0) continue;
      add_runs<kUnrolled>(row_at(runs, first[i], kRunStep) + (3 - i) * kLanes, kRunSize, count[i], sum[i]);
      add_to(out, sum[i]);
    }
  } else {
#pragma unroll 1
    for (int i = 0; i < 16; ++i) {
      const int cell = i / 4, c = i % 4;
      const auto corner_y = static_cast<int32_t>(y) + cell / 2 - 1, corner_x = static_cast<int32_t>(x) + cell % 2 - 1;
      if (corner_pixel(p.dialect, p.padding, corner_y, c / 2, plan.level.height) != static_cast<int32_t>(y)) continue;
      if (corner_pixel(p.dialect, p.padding, corner_x, c % 2, plan.level.width) != static_cast<int32_t>(x)) continue;
      uint32_t of_first = 0, of_count = 0;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        if (k != cell) continue;
        of_first = first[k];
        of_count = count[k];
      }
      if (of_count == 0) continue;
      const Real* of_corner = row_at(runs, of_first, kRunStep) + c * kLanes;
      Real sum[4];
      load_four<true>(of_corner, 4, sum);
      add_runs<kUnrolled>(of_corner, kRunSize, of_count, sum);
      add_to(out, sum);
    }
  }
  const int64_t at = first_row_of(p, head, p.S) + pixel * p.M;
  store_four<kWhole>(grad_value.data, grad_value.dtype, at * p.D + channel, channels, out);
}

}  // namespace msda::kernels::cuda
