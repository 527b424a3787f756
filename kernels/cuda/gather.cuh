// grad_value from grouped samples: a block takes a tile of one level's pixels, sums the samples of every cell that
// reaches the tile, and adds up what each pixel gets from its cells. One writer to a pixel and one order (sample.h,
// kRun), so no atomics and the same bits always; nothing has to be zeroed before.
#pragma once

#include "kernels/cuda/group.cuh"

namespace msda::kernels::cuda {

inline constexpr int kGatherThreads = 256, kGroups = kGatherThreads / kGroup;

// A tile's side in pixels. Doubles take twice the shared memory, so their tiles are half as high.
template <class Real>
inline constexpr int kTileHeight = sizeof(Real) == 4 ? 8 : 4;
inline constexpr int kTileWidth = 8;

// Which tiles there are: of each level `count`, one level after the other; the last level, whose cells hold most
// samples, begins.
struct Tiles {
  const int64_t* far_end;  // in device memory, or null: the number of tiles of levels l, l + 1, ... together
  int64_t near_end[Levels::kNear];
};

template <class Real>
struct CornerSums {
  Real of[4][4];  // by corner and channel
};

// One run: up to 32 addends to each corner, from left to right.
template <bool kWhole, class Stored, class Real>
__device__ inline CornerSums<Real> sum_run(const Entry<Real>* entries, int entry_count, const Stored* grad_output,
                                           int64_t query_step, int channels) {
  CornerSums<Real> sums;
  constexpr int kAhead = 4;
  for (int first = 0; first < entry_count; first += kAhead) {
    Entry<Real> entry[kAhead];
    Real go[kAhead][4];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      entry[i] = entries[min(first + i, entry_count - 1)];
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      load_four<kWhole>(grad_output + int64_t{entry[i].query} * query_step, channels, go[i]);
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (first + i >= entry_count) break;
      const auto weights = corner_weights(entry[i].fraction_y, entry[i].fraction_x);
#pragma unroll
      for (int d = 0; d < 4; ++d) {
        const Real weighted = go[i][d] * entry[i].attention;
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          const Real addend = value_contribution(weights.w[c], weighted);
          sums.of[c][d] = first + i == 0 ? addend : sums.of[c][d] + addend;
        }
      }
    }
  }
  return sums;
}

template <class Real>
__device__ inline void add_sums(CornerSums<Real>& to, const CornerSums<Real>& addend) {
#pragma unroll
  for (int c = 0; c < 4; ++c) {
#pragma unroll
    for (int d = 0; d < 4; ++d) to.of[c][d] = to.of[c][d] + addend.of[c][d];
  }
}

// The higher levels of the tree for one number: a counter to the base 32 whose digits are partial sums.
template <class Real>
class Digits {
 public:
  __device__ explicit Digits(int64_t addends) {
    for (int64_t capacity = kRun; capacity < addends; capacity *= kRun) ++top_;
  }
  __device__ void add(Real x) {
    put(0, x);
    for (int i = 0; i < top_ && filled_[i] == kRun; ++i) carry(i);
  }
  __device__ Real sum() {
    for (int i = 0; i < top_; ++i) {
      if (filled_[i] > 0) carry(i);
    }
    return digit_[top_];
  }

 private:
  __device__ void put(int i, Real x) { digit_[i] = filled_[i]++ == 0 ? x : digit_[i] + x; }
  __device__ void carry(int i) {
    put(i + 1, digit_[i]);
    filled_[i] = 0;
  }
  static constexpr int kMost = 6;
  Real digit_[kMost];
  int filled_[kMost] = {};
  int top_ = 0;
};

template <class Real>
struct TileMemory {
  static constexpr int kRows = kTileHeight<Real> + 1, kColumns = kTileWidth + 1;
  Real sums[kRows * kColumns][4][kLanes];  // of each cell
  Real runs[kGroups][4][kLanes];           // of a cell that has too many samples for one group
  uint32_t begin[kRows][kColumns + 1];     // where the samples of each cell begin; the last column ends a row
};

template <bool kWhole, class Stored, class Real>
__global__ void __launch_bounds__(kGatherThreads)
    gather_kernel(Problem<Stored> p, const Entry<Real>* sorted, CellTable table, Tiles tiles, Result grad_value) {
  extern __shared__ __align__(16) char memory[];
  auto& tile = *reinterpret_cast<TileMemory<Real>*>(memory);
  constexpr int kRows = TileMemory<Real>::kRows, kColumns = TileMemory<Real>::kColumns;
  constexpr int kMostOfAGroup = kRun * kRun;
  const int group = static_cast<int>(threadIdx.x / kGroup), lane = static_cast<int>(threadIdx.x % kGroup);
  const int64_t heads = p.B * p.M, head = blockIdx.x % heads, b = head / p.M, m = head % p.M;
  int64_t number = blockIdx.x / heads;
  int l = static_cast<int>(p.L) - 1;
  const auto end_of = [&](int of) { return tiles.far_end != nullptr ? tiles.far_end[of] : tiles.near_end[of]; };
  while (number >= end_of(l)) --l;
  if (l + 1 < p.L) number -= end_of(l + 1);
  const Level level = level_of(p.levels, l);
  const int across = (level.width + kTileWidth - 1) / kTileWidth;
  const int top = static_cast<int>(number / across) * kTileHeight<Real>,
            left = static_cast<int>(number % across) * kTileWidth;
  // Cells around the tile: those of its rows and columns and the ones before.
  const int rows = min(kTileHeight<Real>, level.height - top) + 1, columns = min(kTileWidth, level.width - left) + 1;

  const uint32_t* begin = cells_begin(table, level, l, head);
  for (int i = threadIdx.x; i < kRows * (kColumns + 1); i += kGatherThreads) {
    const int row = i / (kColumns + 1), column = i % (kColumns + 1);
    if (row < rows && column <= columns) {
      tile.begin[row][column] = begin[int64_t{top + row} * (int64_t{level.width} + 1) + left + column];
    }
  }
  __syncthreads();

  const int64_t query_step = p.M * p.D;
  const int channel = static_cast<int>(blockIdx.y) * kLanes + 4 * lane, channels = static_cast<int>(p.D) - channel;
  const Stored* grad_output = p.grad_output + (b * p.Q * p.M + m) * p.D + (channels > 0 ? channel : 0);
  const Entry<Real>* entries = sorted + (head * p.L + l) * (p.Q * p.P);
  bool any_large = false;
  for (int cell = group; cell < rows * columns; cell += kGroups) {
    const int row = cell / columns, column = cell % columns;
    const uint32_t first = tile.begin[row][column], count = tile.begin[row][column + 1] - first;
    any_large |= count > kMostOfAGroup;
    if (count == 0 || count > kMostOfAGroup) continue;
    CornerSums<Real> sums;
    for (uint32_t done = 0; done < count; done += kRun) {
      const int run = static_cast<int>(min(count - done, static_cast<uint32_t>(kRun)));
      const auto of_run = sum_run<kWhole>(entries + first + done, run, grad_output, query_step, channels);
      if (done == 0) {
        sums = of_run;
      } else {
        add_sums(sums, of_run);
      }
    }
#pragma unroll
    for (int c = 0; c < 4; ++c) {
#pragma unroll
      for (int d = 0; d < 4; ++d) tile.sums[row * kColumns + column][c][4 * lane + d] = sums.of[c][d];
    }
  }

  // All groups together, a run each, for a cell with more samples.
  if (__syncthreads_or(any_large)) {
    for (int cell = 0; cell < rows * columns; ++cell) {
      const int row = cell / columns, column = cell % columns;
      const uint32_t first = tile.begin[row][column], count = tile.begin[row][column + 1] - first;
      if (count <= kMostOfAGroup) continue;
      const int corner = static_cast<int>(threadIdx.x / kLanes), lane_of_sum = static_cast<int>(threadIdx.x % kLanes);
      Digits<Real> digits((int64_t{count} + kRun - 1) / kRun);
      for (uint32_t done = 0; done < count; done += kRun * kGroups) {
        const uint32_t mine = done + static_cast<uint32_t>(group) * kRun;
        if (mine < count) {
          const int run = static_cast<int>(min(count - mine, static_cast<uint32_t>(kRun)));
          const auto sums = sum_run<kWhole>(entries + first + mine, run, grad_output, query_step, channels);
#pragma unroll
          for (int c = 0; c < 4; ++c) {
#pragma unroll
            for (int d = 0; d < 4; ++d) tile.runs[group][c][4 * lane + d] = sums.of[c][d];
          }
        }
        __syncthreads();
        if (corner < 4) {
          for (int i = 0; i < kGroups && done + static_cast<uint32_t>(i) * kRun < count; ++i) {
            digits.add(tile.runs[i][corner][lane_of_sum]);
          }
        }
        __syncthreads();
      }
      if (corner < 4) tile.sums[row * kColumns + column][corner][lane_of_sum] = digits.sum();
    }
    __syncthreads();
  }

  for (int pixel = group; pixel < (rows - 1) * (columns - 1); pixel += kGroups) {
    const int y = pixel / (columns - 1), x = pixel % (columns - 1);
    Real out[4] = {};
#pragma unroll
    for (int neighbour = 0; neighbour < 4; ++neighbour) {
      const int row = y + neighbour / 2, column = x + neighbour % 2;  // the cell at (top + row - 1, left + column - 1)
      if (tile.begin[row][column] == tile.begin[row][column + 1]) continue;
      const auto& sums = tile.sums[row * kColumns + column];
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int pixel_y = corner_pixel(p.dialect, p.padding, top + row - 1, c / 2, level.height);
        const int pixel_x = corner_pixel(p.dialect, p.padding, left + column - 1, c % 2, level.width);
        if (pixel_y != top + y || pixel_x != left + x) continue;
#pragma unroll
        for (int d = 0; d < 4; ++d) out[d] = out[d] + sums[c][4 * lane + d];
      }
    }
    if (channels > 0) {
      const int64_t at = (b * p.S + level.start + int64_t{top + y} * level.width + left + x) * p.M + m;
      store_four<kWhole>(grad_value.data, grad_value.dtype, at * p.D + channel, channels, out);
    }
  }
}

}  // namespace msda::kernels::cuda
