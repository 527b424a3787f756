// grad_grid of grid_sample with the image in global memory, and the mode atomic. A block's threads take adjacent
// samples, whose grad_output lies side by side; up to eight share the channels of one.
#pragma once

#include "kernels/cuda/grid_sample/lists.cuh"

namespace msda::kernels::cuda {

inline constexpr int kGridThreads = 256, kGridGroups = 8;

// Returns a sample's threads, as a power of two: as many as the channels need.
inline uint32_t groups_log(int64_t channels) { return channels <= 4 ? 0 : channels <= 8 ? 1 : channels <= 16 ? 2 : 3; }

// Adds up what the threads of a sample have found of the sums over channels: group g has lanes 4g to 4g + 3 of the tree
// (sample.h, kLanes). All threads must call it; those of group 0 get the sums.
template <int kAxes, class Real>
__device__ inline void sum_groups(uint32_t groups, Real (&sums)[kAxes]) {
  __shared__ Real parts[kAxes][kGridThreads];
  const uint32_t columns = kGridThreads / groups;
#pragma unroll
  for (int axis = 0; axis < kAxes; ++axis) parts[axis][threadIdx.x] = sums[axis];
  __syncthreads();
  if (threadIdx.x >= columns) return;
#pragma unroll
  for (int axis = 0; axis < kAxes; ++axis) {
    Real of[kGridGroups];
#pragma unroll
    for (uint32_t i = 0; i < kGridGroups; ++i) of[i] = i < groups ? parts[axis][i * columns + threadIdx.x] : Real(0);
    sums[axis] = sum_pairs<kGridGroups>(of);
  }
}

// kAtomic: also adds to `sums` [N, C, pixels], if there are any.
template <int kAxes, int kTaps, bool kAtomic, class Stored, class Real>
__global__ void __launch_bounds__(kGridThreads)
    grid_samples_kernel(GridCall<Stored> p, Division by_blocks, uint32_t log, Real* sums, Result grad_grid) {
  constexpr int kCount = taps_of_sample(kAxes, kTaps);
  const uint32_t columns_log = 8 - log, column = threadIdx.x & ((1u << columns_log) - 1),
                 group = threadIdx.x >> columns_log;
  static_assert(kGridThreads == 1 << 8);
  const auto [n, block] = by_blocks.divide(blockIdx.x);
  const int64_t sample = (int64_t{block} << columns_log) + column;
  const bool exists = sample < p.samples, wants_grid = grad_grid.data != nullptr && kTaps > 1;
  GridPlace<kAxes, Real> place;
  place.sampled = false;
  if (exists) place = place_of<kAxes, kTaps, Real>(p, n, sample);
  Real gradient[kAxes] = {};
  if (place.sampled && (wants_grid || (kAtomic && sums != nullptr))) {
    int64_t pixels[kCount];
    for_each_tap<kAxes, kTaps>(
        [&](int number, const int(&tap)[3]) { pixels[number] = image_pixel(place.taps, p.sides, tap); });
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
          for_each_tap<kAxes, kTaps>([&](int number, const int(&tap)[3]) {
            if (sums == nullptr || pixels[number] < 0) return;
            atomicAdd(&sums[(n * p.C + c) * p.pixels + pixels[number]], image_weight(place.taps, tap) * go);
          });
        }
        if (!wants_grid) continue;
        Real values[kCount];
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
          values[i] = pixels[i] < 0 ? Real(0) : static_cast<Real>(widened(image[c * p.pixels + pixels[i]]));
        }
        add_slopes<kAxes, kTaps>(place, values, go, j, lanes);
      }
    }
#pragma unroll
    for (int axis = 0; axis < kAxes; ++axis) gradient[axis] = sum_pairs<4>(lanes[axis]);
  }
  if (grad_grid.data == nullptr) return;
  sum_groups(1u << log, gradient);
  if (group != 0 || !exists) return;
#pragma unroll
  for (int axis = 0; axis < kAxes; ++axis) {
    const Real scaled = place.sampled && kTaps > 1 ? gradient[axis] * place.scale[axis] : Real(0);
    store_one(grad_grid.data, grad_grid.dtype, (n * p.samples + sample) * kAxes + axis, scaled);
  }
}

}  // namespace msda::kernels::cuda
