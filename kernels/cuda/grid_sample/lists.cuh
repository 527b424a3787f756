// The addends of grid_sample's grad_input, grouped by pixel, and where samples land.
#pragma once

#include "kernels/cuda/common/ahead.cuh"
#include "kernels/cuda/common/device.h"
#include "kernels/cuda/common/division.h"
#include "kernels/cuda/common/storage.cuh"
#include "kernels/cuda/common/warp.cuh"
#include "kernels/cuda/grid_sample/problem.h"
#include "kernels/grid_point.h"

namespace msda::kernels::cuda {

// An addend of a pixel: weight * grad_output of this sample.
template <class Real>
struct alignas(2 * sizeof(Real)) GridEntry {
  Real weight;
  uint32_t sample;
};

// The addends of each pixel, in the order of the samples. A sample reaches a pixel by one of its taps at most, as
// interpolation is bilinear or nearest.
template <class Real>
struct GridLists {
  int64_t stride;            // from a batch's numbers to the next one's: more than pixels, a multiple of four
  uint32_t* begin;           // [N, stride]: where a pixel's addends begin; to be read by begin_of
  GridEntry<Real>* entries;  // [N, samples * taps]
  // Returns where a pixel's addends begin among those of its batch. The numbers go on from batch to batch, modulo 2^32.
  __device__ uint32_t begin_of(int64_t n, int64_t pixel) const { return begin[n * stride + pixel] - begin[n * stride]; }
};

// A call's conventions with the interpolation as a constant, so that the compiler unrolls the loops over taps.
template <int kTaps>
struct GridFixed {
  static constexpr msda_interpolation interpolation = kTaps == 1 ? MSDA_NEAREST : MSDA_BILINEAR;
  msda_grid_padding padding;
  bool align_corners;
};

template <int kAxes, int kTaps, class Real, class Stored>
__device__ inline GridPlace<kAxes, Real> place_of(const GridCall<Stored>& p, int64_t n, int64_t sample) {
  Real at[kAxes];
#pragma unroll
  for (int i = 0; i < kAxes; ++i) {
    at[i] = static_cast<Real>(widened(p.grid[(n * p.samples + sample) * kAxes + i]));
  }
  return GridPlace<kAxes, Real>(GridFixed<kTaps>{p.padding, p.align_corners}, at, p.sides);
}

// The addends of one sample.
template <int kAxes, int kTaps, class Real>
struct SampleAddends {
  static constexpr int kCount = taps_of_sample(kAxes, kTaps);
  static constexpr uint32_t kNone = ~0u;
  uint32_t pixel[kCount];  // or kNone
  Real weight[kCount];
  template <class Stored>
  __device__ SampleAddends(const GridCall<Stored>& p, int64_t n, int64_t sample) {
    const GridPlace<kAxes, Real> place = place_of<kAxes, kTaps, Real>(p, n, sample);
    for_each_tap<kAxes, kTaps>([&](int number, const int(&tap)[3]) {
      const int64_t at = place.sampled ? image_pixel(place.taps, p.sides, tap) : -1;
      pixel[number] = at < 0 ? kNone : static_cast<uint32_t>(at);
      weight[number] = place.sampled ? image_weight(place.taps, tap) : Real(0);
    });
  }
};

// Adds a channel's share to the sums for each axis, in lane j of a thread's four. `values`: those of the pixels that
// the sample reads.
template <int kAxes, int kTaps, class Real>
__device__ inline void add_slopes(const GridPlace<kAxes, Real>& place,
                                  const Real (&values)[taps_of_sample(kAxes, kTaps)], Real grad_output, int j,
                                  Real (&lanes)[kAxes][4]) {
#pragma unroll
  for (int axis = 0; axis < kAxes; ++axis) {
    const Real slope = slope_along<kAxes, kTaps>(
        place.taps, axis, [&](const int(&tap)[3]) { return values[(tap[2] * kTaps + tap[1]) * kTaps + tap[0]]; });
    lanes[axis][j] = fma(grad_output, slope, lanes[axis][j]);
  }
}

// A barrier of the threads that work together: a warp, or all of the block.
template <int kThreads>
__device__ inline void synchronize() {
  if constexpr (kThreads == kWarp) {
    __syncwarp();
  } else {
    __syncthreads();
  }
}

// Returns the pixels to a block, at most `most`; fewer if occupying the whole device takes that. `lists`: groups of
// pixels that have blocks of their own.
inline int64_t tile_of(int64_t pixels, int64_t lists, int64_t most, const Device& device) {
  constexpr int64_t kBlocks = 4;  // to a multiprocessor
  int64_t tile = most;
  while (tile > 1 && lists * ((pixels + tile - 1) / tile) < kBlocks * device.processors) tile /= 2;
  return tile;
}

// Copies adjacent numbers to shared memory, sixteen bytes at a time and without waiting where the addresses allow it.
// All threads must call it, and then wait_for_copies() and a barrier before the numbers are read.
template <class Stored>
__device__ inline void copy_to_shared(Stored* to, const Stored* from, int64_t count) {
  constexpr int64_t kEach = sizeof(uint4) / sizeof(Stored);
  const auto is_even = [](const void* at) { return reinterpret_cast<uintptr_t>(at) % sizeof(uint4) == 0; };
  const int64_t whole = is_even(to) && is_even(from) ? count / kEach : 0;
  for (int64_t i = threadIdx.x; i < whole; i += blockDim.x) copy_ahead<sizeof(uint4)>(to + i * kEach, from + i * kEach);
  for (int64_t i = whole * kEach + threadIdx.x; i < count; i += blockDim.x) to[i] = from[i];
}

}  // namespace msda::kernels::cuda
