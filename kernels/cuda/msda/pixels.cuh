// grad_value from the sums over runs: the runs of each cell are added up by the tree (sample.h, kRun), then eight
// threads take a pixel and add the sums of the cells that reach it, in their order. Each pixel has one writer, so
// nothing has to be cleared first.
#pragma once

#include "kernels/cuda/msda/runs.cuh"

namespace msda::kernels::cuda {

inline constexpr int kPixelThreads = 256, kPixelGroups = kPixelThreads / kGroup;

template <class Real>
__device__ inline void add_to(Real (&sum)[4], const Real (&addend)[4]) {
#pragma unroll
  for (int d = 0; d < 4; ++d) sum[d] = sum[d] + addend[d];
}

// Adds `count` addends, at most 32, from left to right; the first is in `sum`. kUnrolled: for cells that tend to have
// many.
template <int kUnrolled, class Real>
__device__ inline void add_chain(const Real* first, int64_t step, uint32_t count, Real (&sum)[4]) {
#pragma unroll kUnrolled
  for (uint32_t i = 1; i < count; ++i) {
    Real next[4];
    load_four<true>(first + i * step, 4, next);
    add_to(sum, next);
  }
}

// Adds up the tree of a cell's runs, kManySamples / 32 of them at most; the first is in `sum`.
template <int kUnrolled, class Real>
__device__ inline void add_runs(const Real* first, int64_t step, uint32_t count, Real (&sum)[4]) {
  static_assert(kManySamples <= kRun * kRun * kRun);  // two levels of the tree suffice
  add_chain<kUnrolled>(first, step, min(count, static_cast<uint32_t>(kRun)), sum);
  for (uint32_t done = kRun; done < count; done += kRun) {
    Real chain[4];
    load_four<true>(first + done * step, 4, chain);
    add_chain<kUnrolled>(first + done * step, step, min(count - done, static_cast<uint32_t>(kRun)), chain);
    add_to(sum, chain);
  }
}

inline constexpr int kFoldThreads = 512;

// The tree of runs for cells that have many: every 32 runs are summed into the first of them, and so on until one is
// left. One block for each batch, head and level.
template <class Real>
__global__ void __launch_bounds__(kFoldThreads)
    fold_kernel(LevelPlans plans, uint32_t levels, const HotCell* hot, const uint32_t* hot_count, uint32_t most_hot,
                RunSums<Real> sums) {
  const LevelPlan& plan = plan_of(plans, static_cast<int>(blockIdx.x % levels));
  const uint32_t head = blockIdx.x / levels, cells = hot_count[blockIdx.x];
  const int64_t first_run = int64_t{blockIdx.y} * sums.most + plan.first_run + int64_t{head} * plan.most_runs;
  for (uint32_t i = 0; i < cells; ++i) {
    const HotCell cell = hot[int64_t{blockIdx.x} * most_hot + i];
    Real* runs = sums.to + (first_run + cell.first_run) * kRunSize;
    int64_t step = kRunSize;
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

// The cells around a pixel, at (y - 1, x - 1), (y - 1, x), (y, x - 1), (y, x), and the sums of their runs.
template <class Real>
struct CellsAround {
  const Real* runs;      // of the head and level, this thread's channels
  uint32_t begin[2][3];  // where the runs of each cell begin, and those of the next cell
  __device__ uint32_t count(int cell) const {
    const uint32_t number = begin[cell / 2][cell % 2 + 1] - begin[cell / 2][cell % 2];
    return number > kManySamples / kRun ? 1 : number;  // the tree has summed them
  }
  __device__ const Real* corner(int cell, int c) const {
    return row_at(runs, begin[cell / 2][cell % 2], uint32_t{kRunSize * sizeof(Real)}) + c * kLanes;
  }
  // The same for a cell number that is not a compile-time constant.
  __device__ void find(int cell, uint32_t& number, const Real*& first_corner) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i != cell) continue;
      number = count(i);
      first_corner = corner(i, 0);
    }
  }
};

// The edges of the level at which a pixel lies, if corners outside read the border: there a cell reaches the pixel with
// more than one corner.
struct Edges {
  static constexpr uint32_t kLeft = 1, kRight = 2, kTop = 4, kBottom = 8;
  uint32_t at;
  // Returns whether corner c of a cell around the pixel is the pixel.
  __device__ bool reached_by(int cell, int c) const {
    return along(cell / 2 + c / 2, kTop, kBottom) && along(cell % 2 + c % 2, kLeft, kRight);
  }
  // At one edge two of the four cells have a second corner at the pixel: two cells side by side or one above the other,
  // the first two or the last two. It comes before the other corner or after it.
  __device__ bool is_one() const { return __popc(at) == 1; }
  __device__ bool is_side() const { return at < kTop; }
  __device__ bool is_low() const { return (at & (kLeft | kTop)) != 0; }
  __device__ int cell_of_second(int k) const {
    const int low = is_side() ? 2 * k : k;
    return is_low() ? low : low + (is_side() ? 1 : 2);
  }

 private:
  __device__ bool along(int steps, uint32_t low, uint32_t high) const {
    return steps == 1 || (at & (steps == 0 ? low : high)) != 0;
  }
};

// Adds up the second corners at one edge.
template <int kUnrolled, class Real>
__device__ inline void sum_second_corners(const CellsAround<Real>& cells, const Edges& edges, Real (&second)[2][4]) {
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const int cell = edges.cell_of_second(k);
    uint32_t count = 0;
    const Real* corner = nullptr;
    cells.find(cell, count, corner);
#pragma unroll
    for (int d = 0; d < 4; ++d) second[k][d] = Real(-0.0);
    if (count == 0) continue;
    corner += ((3 - cell) ^ (edges.is_side() ? 1 : 2)) * kLanes;
    load_four<true>(corner, 4, second[k]);
    add_runs<kUnrolled>(corner, kRunSize, count, second[k]);
  }
}

// Adds in the order of cells, and of each cell's corners.
template <class Real>
__device__ inline void add_with_second(const Edges& edges, const Real (&sum)[4][4], const Real (&second)[2][4],
                                       Real (&out)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const bool has_second = (edges.is_side() ? i % 2 : i / 2) == (edges.is_low() ? 0 : 1);
    const auto add_second = [&] {
#pragma unroll
      for (int d = 0; d < 4; ++d) out[d] = out[d] + (edges.is_side() ? second[i / 2][d] : second[i % 2][d]);
    };
    if (has_second && edges.is_low()) add_second();
    add_to(out, sum[i]);
    if (has_second && !edges.is_low()) add_second();
  }
}

// Visits all corners where edges meet, one cell at a time.
template <int kUnrolled, class Real>
__device__ inline void add_every_corner(const CellsAround<Real>& cells, const Edges& edges, Real (&out)[4]) {
#pragma unroll 1
  for (int cell = 0; cell < 4; ++cell) {
    uint32_t count = 0;
    const Real* corners = nullptr;
    cells.find(cell, count, corners);
    if (count == 0) continue;
    Real sum[4][4];
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      if (edges.reached_by(cell, c)) load_four<true>(corners + c * kLanes, 4, sum[c]);
    }
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      if (!edges.reached_by(cell, c)) continue;
      add_runs<kUnrolled>(corners + c * kLanes, kRunSize, count, sum[c]);
      add_to(out, sum[c]);
    }
  }
}

// Blocks that a multiprocessor runs at a time: as many as its registers allow.
template <bool kClamps, bool kDense, class Real>
inline constexpr int kPixelBlocks = sizeof(Real) == 4   ? (kClamps || kDense ? 4 : 5)
                                    : kClamps || kDense ? 2
                                                        : 3;

// kClamps: corners outside the level read the border (corner_pixel). kDense: there are several runs to a cell. The
// pixels of all heads at one place are adjacent in memory and are processed at the same time: each head's `blocks` from
// first_block on.
template <bool kWhole, bool kClamps, bool kDense, class Stored, class Real>
__global__ void __launch_bounds__(kPixelThreads, kPixelBlocks<kClamps, kDense, Real>)
    sum_pixels_kernel(Problem<Stored> p, LevelPlans plans, Division by_heads, uint32_t blocks, uint32_t first_block,
                      const CellStart* cell_starts, RunSums<Real> from, Result grad_value) {
  constexpr int kUnrolled = !kDense ? 1 : kClamps ? 2 : 4;
  const int lane = static_cast<int>(threadIdx.x % kGroup);
  const int channel = static_cast<int>(blockIdx.y) * kLanes + 4 * lane, channels = static_cast<int>(p.D) - channel;
  const auto [number, head] = by_heads.divide(blockIdx.x);
  const uint32_t block = first_block + number;
  const uint32_t pixel = (block < blocks ? block : block - blocks) * kPixelGroups + threadIdx.x / kGroup;
  if (pixel >= static_cast<uint32_t>(p.S) || channels <= 0) return;
  int l = 0;
  while (l + 1 < p.L && plan_of(plans, l + 1).level.start <= pixel) ++l;
  const LevelPlan& plan = plan_of(plans, l);
  const auto width = static_cast<uint32_t>(plan.level.width);
  const auto [y, x] = plan.by_width.divide(pixel - static_cast<uint32_t>(plan.level.start));

  CellsAround<Real> cells;
  const int64_t first_run = int64_t{blockIdx.y} * from.most + plan.first_run + int64_t{head} * plan.most_runs;
  cells.runs = from.to + first_run * kRunSize + 4 * lane;
  const CellStart* starts = starts_of(cell_starts, plan, head) + y * (width + 1) + x;
#pragma unroll
  for (int i = 0; i < 6; ++i) cells.begin[i / 3][i % 3] = starts[i / 3 * (width + 1) + i % 3].run;
  Edges edges{0};
  if constexpr (kClamps) {
    edges.at = (x == 0 ? edges.kLeft : 0) | (x + 1 == width ? edges.kRight : 0) | (y == 0 ? edges.kTop : 0) |
               (y + 1 == static_cast<uint32_t>(plan.level.height) ? edges.kBottom : 0);
  }

  Real sum[4][4], second[2][4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int d = 0; d < 4; ++d) sum[i][d] = Real(-0.0);  // adding it changes no bit
    if (cells.count(i) != 0) load_four<true>(cells.corner(i, 3 - i), 4, sum[i]);
  }
  if (kClamps && edges.is_one()) sum_second_corners<kUnrolled>(cells, edges, second);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    add_runs<kUnrolled>(cells.corner(i, 3 - i), kRunSize, cells.count(i), sum[i]);
  }
  Real out[4] = {};
  if (!kClamps || edges.at == 0) {
#pragma unroll
    for (int i = 0; i < 4; ++i) add_to(out, sum[i]);
  } else if (edges.is_one()) {
    add_with_second(edges, sum, second, out);
  } else {
    add_every_corner<kUnrolled>(cells, edges, out);
  }
  const int64_t at = first_row_of(p, head, p.S) + pixel * p.M;
  store_four<kWhole>(grad_value.data, grad_value.dtype, at * p.D + channel, channels, out);
}

}  // namespace msda::kernels::cuda
