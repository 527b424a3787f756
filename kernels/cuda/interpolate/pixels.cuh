// grad_input of interpolate on a GPU: each pixel gathers the output pixels that read it, so nothing has to be added
// atomically, or cleared. A thread sums up a pixel; which output pixels read it, and with which weight, a block finds
// once for the columns and the rows of its tile.
#pragma once

#include "kernels/cuda/common/division.h"
#include "kernels/cuda/common/result.h"
#include "kernels/cuda/common/several.cuh"
#include "kernels/cuda/common/storage.cuh"
#include "kernels/cuda/common/warp.cuh"
#include "kernels/resize.h"

namespace msda::kernels::cuda {

inline constexpr int kSeveral = 4;  // planes at a time
inline constexpr int kTileThreads = 256, kMostWide = 32, kLeastWide = 8, kMostHigh = kTileThreads / kLeastWide;

template <class Stored, class Real>
struct InterpolateCall {
  const Stored* grad_output;
  Result grad_input;
  int64_t planes, pixels, outputs;
  Resize<Real> axes[3];
  int wide_log;  // of a tile's columns
  uint32_t tiles_across, tiles_down;
};

// The readers of some pixels along an axis; the weights of the first kListed of each.
template <class Real, int kPixels>
struct ReaderTable {
  static constexpr int kListed = 20;
  static_assert(kListed <= kRun);
  int32_t first[kPixels], count[kPixels];
  Real weights[kListed][kPixels];

  __device__ void fill(const Resize<Real>& axis, int number, int32_t pixel) {
    const auto found = pixel < axis.in ? axis.readers(pixel) : typename Resize<Real>::Readers{0, 0};
    first[number] = found.first;
    count[number] = found.end - found.first;
    for (int32_t i = 0; i < kListed && i < found.end - found.first; ++i) {
      weights[i][number] = axis.weight(found.first + i, pixel);
    }
  }
  __device__ bool lists_all(int number) const { return count[number] <= kListed; }
  __device__ Real weight(const Resize<Real>& axis, int number, int32_t pixel, int32_t i) const {
    return i < kListed ? weights[i][number] : axis.weight(first[number] + i, pixel);
  }
};

template <class Real>
struct TileTables {
  ReaderTable<Real, kMostWide> x;
  ReaderTable<Real, kMostHigh> y;
  ReaderTable<Real, 1> z;
};

// Returns the sum of several planes at one pixel, all of whose readers are listed.
template <class Stored, class Real>
__device__ inline Several<Real, kSeveral> sum_listed(const InterpolateCall<Stored, Real>& p,
                                                     const TileTables<Real>& tables, int column, int line,
                                                     const Stored* const (&planes)[kSeveral]) {
  const int32_t width = p.axes[0].out, height = p.axes[1].out;
  const int32_t across = tables.x.count[column], down = tables.y.count[line], deep = tables.z.count[0];
  if (across == 0 || down == 0 || deep == 0) return {};
  const auto slice = [&](int32_t k) {
    const auto row = [&](int32_t j) {
      const int64_t from =
          (int64_t{tables.z.first[0] + k} * height + tables.y.first[line] + j) * width + tables.x.first[column];
      return gather_run(
          across, [&](int32_t i) { return tables.x.weights[i][column]; },
          [&](int32_t i) {
            Several<Real, kSeveral> read;
#pragma unroll
            for (int s = 0; s < kSeveral; ++s) read.at[s] = static_cast<Real>(widened(planes[s][from + i]));
            return read;
          });
    };
    return gather_run(
        down, [&](int32_t j) { return tables.y.weights[j][line]; }, row);
  };
  return gather_run(
      deep, [&](int32_t k) { return tables.z.weights[k][0]; }, slice);
}

// Returns the sum of one plane at one pixel with any number of readers. gather_sum() has two ways, for few terms and
// for many: in all three loops it would be compiled eight times.
template <class Stored, class Real>
__device__ inline Real sum_any(const InterpolateCall<Stored, Real>& p, const TileTables<Real>& tables, int column,
                               int line, const int32_t (&pixel)[3], const Stored* plane) {
  const int32_t width = p.axes[0].out, height = p.axes[1].out;
  const auto slice = [&](int32_t k) {
    const auto row = [&](int32_t j) {
      const Stored* const from =
          plane + (int64_t{tables.z.first[0] + k} * height + tables.y.first[line] + j) * width + tables.x.first[column];
      return gather_sum<Real>(
          tables.x.count[column], [&](int32_t i) { return tables.x.weight(p.axes[0], column, pixel[0], i); },
          [&](int32_t i) { return static_cast<Real>(widened(from[i])); });
    };
    return gather_runs<Real>(
        tables.y.count[line], [&](int32_t j) { return tables.y.weight(p.axes[1], line, pixel[1], j); }, row);
  };
  return gather_runs<Real>(
      tables.z.count[0], [&](int32_t k) { return tables.z.weight(p.axes[2], 0, pixel[2], k); }, slice);
}

// A block for each tile of pixels, and some of the planes.
template <class Stored, class Real>
__global__ void __launch_bounds__(kTileThreads)
    interpolate_tiles_kernel(const __grid_constant__ InterpolateCall<Stored, Real> p) {
  __shared__ TileTables<Real> tables;
  const int wide = 1 << p.wide_log, high = kTileThreads >> p.wide_log;
  const int column = static_cast<int>(threadIdx.x) & (wide - 1), line = static_cast<int>(threadIdx.x) >> p.wide_log;
  const uint32_t row_of_tiles = blockIdx.x / p.tiles_across;
  const int32_t left = static_cast<int32_t>(blockIdx.x % p.tiles_across) * wide;
  const int32_t top = static_cast<int32_t>(row_of_tiles % p.tiles_down) * high;
  const int32_t pixel[3] = {left + column, top + line, static_cast<int32_t>(row_of_tiles / p.tiles_down)};
  const auto thread = static_cast<int>(threadIdx.x);
  if (thread < wide) {
    tables.x.fill(p.axes[0], thread, left + thread);
  } else if (thread >= 64 && thread < 64 + high) {
    tables.y.fill(p.axes[1], thread - 64, top + thread - 64);
  } else if (thread == 128) {
    tables.z.fill(p.axes[2], 0, pixel[2]);
  }
  __syncthreads();
  if (pixel[0] >= p.axes[0].in || pixel[1] >= p.axes[1].in) return;
  const bool listed = tables.x.lists_all(column) && tables.y.lists_all(line) && tables.z.lists_all(0);
  const int64_t at = (int64_t{pixel[2]} * p.axes[1].in + pixel[1]) * p.axes[0].in + pixel[0];
  for (int64_t first = int64_t{blockIdx.y} * kSeveral; first < p.planes; first += int64_t{gridDim.y} * kSeveral) {
    const Stored* planes[kSeveral];
#pragma unroll
    for (int s = 0; s < kSeveral; ++s) planes[s] = p.grad_output + min(first + s, p.planes - 1) * p.outputs;
    Several<Real, kSeveral> sums;
    if (listed) {
      sums = sum_listed(p, tables, column, line, planes);
    } else {
      for (int s = 0; s < kSeveral; ++s) sums.at[s] = sum_any(p, tables, column, line, pixel, planes[s]);
    }
    visit_elements(p.grad_input.data, p.grad_input.dtype, [&]<class To>(To* to) {
#pragma unroll
      for (int s = 0; s < kSeveral; ++s) {
        if (first + s < p.planes) to[(first + s) * p.pixels + at] = narrowed<To>(Real(0) + sums.at[s]);
      }
    });
  }
}

inline constexpr int kDoubledThreads = 256;

// Nearest pixels of an image that was enlarged exactly twice along x and y: each reads a square of four, all with
// weight 1. A thread takes two pixels side by side. `pairs`: of a row; output rows 2 * i and 2 * i + 1 belong to row i
// of all planes.
template <class Stored, class Real>
__global__ void __launch_bounds__(kDoubledThreads)
    interpolate_doubled_kernel(const Stored* grad_output, Result grad_input, Division pairs, uint32_t count) {
  const uint32_t number = blockIdx.x * kDoubledThreads + threadIdx.x;
  if (number >= count) return;
  const Division::Result at = pairs.divide(number);
  const Stored* const from = grad_output + 4 * (int64_t{at.quotient} * 2 * pairs.by + at.rest);
  Real upper[4], lower[4], sums[2];
  load_four<true>(from, 4, upper);
  load_four<true>(from + int64_t{4} * pairs.by, 4, lower);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    sums[i] = Real(0) + ((upper[2 * i] + upper[2 * i + 1]) + (lower[2 * i] + lower[2 * i + 1]));
  }
  store_two(grad_input.data, grad_input.dtype, number, sums[0], sums[1]);
}

inline constexpr int kCrowdThreads = 128;

// A block for each pixel of a plane: for few pixels with many readers. A thread sums up a row of output pixels.
template <class Stored, class Real>
__global__ void __launch_bounds__(kCrowdThreads)
    interpolate_crowds_kernel(const __grid_constant__ InterpolateCall<Stored, Real> p) {
  __shared__ Real rows[kCrowdThreads];
  int64_t number = blockIdx.x;
  int32_t pixel[3], first[3], count[3];
  for (int axis = 0; axis < 3; ++axis) {
    pixel[axis] = static_cast<int32_t>(number % p.axes[axis].in);
    number /= p.axes[axis].in;
    const auto found = p.axes[axis].readers(pixel[axis]);
    first[axis] = found.first;
    count[axis] = found.end - found.first;
  }
  for (int64_t plane = blockIdx.y; plane < p.planes; plane += gridDim.y) {
    GatherSum<Real> slices;
    for (int32_t k = 0; k < count[2]; ++k) {
      GatherSum<Real> lines;
      for (int32_t begin = 0; begin < count[1]; begin += kCrowdThreads) {
        const int32_t j = begin + static_cast<int32_t>(threadIdx.x);
        __syncthreads();
        if (j < count[1]) {
          const Stored* const from = p.grad_output + plane * p.outputs + first[0] +
                                     (int64_t{first[2] + k} * p.axes[1].out + first[1] + j) * p.axes[0].out;
          rows[threadIdx.x] = gather_sum<Real>(
              count[0], [&](int32_t i) { return p.axes[0].weight(first[0] + i, pixel[0]); },
              [&](int32_t i) { return static_cast<Real>(widened(from[i])); });
        }
        __syncthreads();
        for (int32_t i = 0; threadIdx.x == 0 && i < kCrowdThreads && begin + i < count[1]; ++i) {
          lines.add(p.axes[1].weight(first[1] + begin + i, pixel[1]), rows[i]);
        }
      }
      slices.add(p.axes[2].weight(first[2] + k, pixel[2]), lines.sum());
    }
    if (threadIdx.x == 0) {
      store_one(p.grad_input.data, p.grad_input.dtype, plane * p.pixels + blockIdx.x, Real(0) + slices.sum());
    }
  }
}

}  // namespace msda::kernels::cuda
