// The samples of grid_sample on a GPU: grad_grid, and where each sample contributes to grad_input. A block takes 32
// consecutive samples, whose grad_output lies side by side, and eight threads share the channels of one.
#pragma once

#include "kernels/cuda/grid_problem.h"
#include "kernels/cuda/grouping.h"
#include "kernels/cuda/samples.cuh"
#include "kernels/grid_point.h"

namespace msda::kernels::cuda {

inline constexpr int kGridColumns = 32, kGridGroups = 8, kGridThreads = kGridColumns * kGridGroups;

// The addends of grad_input, numbered through in each batch: sample * taps + tap.
template <class Real>
struct GridAddends {
  Real* weights;  // [N, samples * taps]
  // For short calls: the addends of a pixel as a linked list in the order in which they arrived.
  int32_t* heads;  // [N, pixels]; -1: none
  int32_t* next;   // [N, samples * taps]
  // For long ones: to be sorted.
  CellNumbers numbers;
};

template <int kAxes, class Stored, class Real>
__device__ inline GridPlace<kAxes, Real> place_of(const GridCall<Stored>& p, int64_t n, int64_t sample) {
  Real at[kAxes];
#pragma unroll
  for (int i = 0; i < kAxes; ++i) {
    at[i] = static_cast<Real>(widened(p.grid[(n * p.samples + sample) * kAxes + i]));
  }
  return GridPlace<kAxes, Real>(p, at, p.sides);
}

// What the eight threads of a sample have found of the sums over channels: lanes 4g to 4g + 3 of the tree (sample.h,
// kLanes) in group g. All threads must call it; those of group 0 get the sums.
template <int kAxes, class Real>
__device__ inline void sum_groups(Real (&sums)[kAxes]) {
  __shared__ Real parts[kGridGroups][kAxes][kGridColumns];
  const int column = threadIdx.x % kGridColumns, group = threadIdx.x / kGridColumns;
#pragma unroll
  for (int axis = 0; axis < kAxes; ++axis) parts[group][axis][column] = sums[axis];
  __syncthreads();
  if (group != 0) return;
#pragma unroll
  for (int axis = 0; axis < kAxes; ++axis) {
    Real of[kGridGroups];
#pragma unroll
    for (int i = 0; i < kGridGroups; ++i) of[i] = parts[i][axis][column];
    sums[axis] = sum_pairs<kGridGroups>(of);
  }
}

template <int kAxes, int kTaps, class Real>
struct GridReads {
  static constexpr int kCount = taps_of_sample(kAxes, kTaps);
  int64_t pixels[kCount];  // -1: none
  Real weights[kCount];
  __device__ GridReads(const GridPlace<kAxes, Real>& place, const int32_t (&sides)[3]) {
    for_each_tap<kAxes, kTaps>([&](int number, const int(&tap)[3]) {
      pixels[number] = place.sampled ? image_pixel(place.taps, sides, tap) : -1;
      weights[number] = place.sampled ? image_weight(place.taps, tap) : Real(0);
    });
  }
};

// Tells grad_input's kernel of the sample's addends.
template <int kCount, class Real, class Stored>
__device__ inline void hand_over_addends(const GridCall<Stored>& p, int64_t n, int64_t sample,
                                         const int64_t (&pixels)[kCount], const Real (&weights)[kCount],
                                         const GridAddends<Real>& to) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const int64_t number = sample * kCount + i, at = n * p.samples * kCount + number;
    if (to.numbers.cell != nullptr) {
      to.numbers.cell[at] = static_cast<uint64_t>(pixels[i] < 0 ? p.N * p.pixels : n * p.pixels + pixels[i]);
      to.numbers.sample[at] = static_cast<uint32_t>(number);
      to.weights[at] = weights[i];
    } else if (pixels[i] >= 0) {
      to.weights[at] = weights[i];
      to.next[at] = atomicExch(&to.heads[n * p.pixels + pixels[i]], static_cast<int32_t>(number));
    }
  }
}

// kAtomic: adds to `sums` [N, C, pixels], instead of handing the addends over.
template <int kAxes, int kTaps, bool kAtomic, class Stored, class Real>
__global__ void __launch_bounds__(kGridThreads)
    grid_samples_kernel(GridCall<Stored> p, Division by_blocks, GridAddends<Real> addends, Real* sums,
                        Result grad_grid) {
  const int column = threadIdx.x % kGridColumns, group = threadIdx.x / kGridColumns;
  const auto [n, block] = by_blocks.divide(blockIdx.x);
  const int64_t sample = int64_t{block} * kGridColumns + column;
  const bool exists = sample < p.samples;
  GridPlace<kAxes, Real> place;
  place.sampled = false;
  if (exists) place = place_of<kAxes, Stored, Real>(p, n, sample);
  const GridReads<kAxes, kTaps, Real> reads(place, p.sides);
  const bool hands_over = addends.weights != nullptr, wants_grid = grad_grid.data != nullptr && kTaps > 1;
  if (hands_over && exists && group == 0) hand_over_addends(p, n, sample, reads.pixels, reads.weights, addends);

  Real gradient[kAxes] = {};
  if (place.sampled && (kAtomic ? sums != nullptr || wants_grid : wants_grid)) {
    Real lanes[kAxes][4] = {};
    const Stored* grad_output = p.grad_output + n * p.C * p.samples + sample;
    const Stored* image = p.input + n * p.C * p.pixels;
    for (int64_t first = 4 * group; first < p.C; first += kLanes) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int64_t c = first + j;
        if (c >= p.C) break;
        const Real go = static_cast<Real>(widened(grad_output[c * p.samples]));
        if constexpr (kAtomic) {
#pragma unroll
          for (int i = 0; i < reads.kCount; ++i) {
            if (sums != nullptr && reads.pixels[i] >= 0) {
              atomicAdd(&sums[(n * p.C + c) * p.pixels + reads.pixels[i]], reads.weights[i] * go);
            }
          }
        }
        if (!wants_grid) continue;
        Real values[reads.kCount];
#pragma unroll
        for (int i = 0; i < reads.kCount; ++i) {
          values[i] = reads.pixels[i] < 0 ? Real(0) : static_cast<Real>(widened(image[c * p.pixels + reads.pixels[i]]));
        }
#pragma unroll
        for (int axis = 0; axis < kAxes; ++axis) {
          const Real slope = slope_along<kAxes, kTaps>(
              place.taps, axis, [&](const int(&tap)[3]) { return values[(tap[2] * kTaps + tap[1]) * kTaps + tap[0]]; });
          lanes[axis][j] = fma(go, slope, lanes[axis][j]);
        }
      }
    }
#pragma unroll
    for (int axis = 0; axis < kAxes; ++axis) gradient[axis] = sum_pairs<4>(lanes[axis]);
  }
  if (grad_grid.data == nullptr) return;
  sum_groups(gradient);
  if (group != 0 || !exists) return;
#pragma unroll
  for (int axis = 0; axis < kAxes; ++axis) {
    const Real scaled = place.sampled && kTaps > 1 ? gradient[axis] * place.scale[axis] : Real(0);
    store_one(grad_grid.data, grad_grid.dtype, (n * p.samples + sample) * kAxes + axis, scaled);
  }
}

}  // namespace msda::kernels::cuda
