// grad_grid of grid_sample where four channels of an image fit into a block's shared memory: it is read there once, in
// its order, and then looked up at random. Each block sums four of the tree's 32 lanes (sample.h, kLanes).
#pragma once

#include "kernels/cuda/grid_sample/short.cuh"

namespace msda::kernels::cuda {

inline constexpr int kPlaneLanes = 4;

// How the sums over channels are divided.
struct GridPlanes {
  uint32_t groups = 0;  // of four lanes; 0: no block sums
  uint32_t parts = 1;   // of a batch's samples
  int64_t part = 0;     // samples to each
  uint32_t blocks(int64_t N) const { return static_cast<uint32_t>(N) * groups * parts; }
  // Return the channels for each lane of a group, and the numbers in a group's planes.
  MSDA_HOST_DEVICE static int64_t rounds(int64_t C) { return (C + kLanes - 1) / kLanes; }
  MSDA_HOST_DEVICE static int64_t stride(int64_t pixels) { return (kPlaneLanes * pixels + 7) / 8 * 8; }
  static int64_t bytes(int64_t C, int64_t pixels, int64_t element_bytes) {
    return rounds(C) * stride(pixels) * element_bytes;
  }
};

// Writes the sums of four lanes to `partial` [N, groups, samples, axes], for the samples that are in the image. All
// threads of the block must call it.
template <int kAxes, int kTaps, class Stored, class Real>
__device__ inline void sum_planes(const GridCall<Stored>& p, const GridPlanes& planes, uint32_t block, Real* partial) {
  constexpr int kCount = taps_of_sample(kAxes, kTaps);
  const uint32_t part = block % planes.parts, group = block / planes.parts % planes.groups;
  const int64_t n = block / planes.parts / planes.groups, lane = int64_t{group} * kPlaneLanes;
  auto* const shared = dynamic_shared<Stored>();
  const int64_t stride = GridPlanes::stride(p.pixels);
  for (int64_t round = 0; lane + round * kLanes < p.C; ++round) {
    const int64_t first = lane + round * kLanes, count = min(int64_t{kPlaneLanes}, p.C - first);
    copy_to_shared(shared + round * stride, p.input + (n * p.C + first) * p.pixels, count * p.pixels);
  }
  wait_for_copies();
  __syncthreads();
  const int64_t begin = part * planes.part, end = min(begin + planes.part, p.samples);
  Real* const to = partial + (n * planes.groups + group) * p.samples * kAxes;
  for (int64_t sample = begin + threadIdx.x; sample < end; sample += kFirstThreads) {
    const GridPlace<kAxes, Real> place = place_of<kAxes, kTaps, Real>(p, n, sample);
    if (!place.sampled) continue;
    int32_t pixels[kCount];
    for_each_tap<kAxes, kTaps>([&](int number, const int(&tap)[3]) {
      pixels[number] = static_cast<int32_t>(image_pixel(place.taps, p.sides, tap));
    });
    Real lanes[kAxes][kPlaneLanes] = {};
    for (int64_t round = 0; lane + round * kLanes < p.C; ++round) {
      const int64_t first = lane + round * kLanes;
      const Stored* const image = shared + round * stride;
      const Stored* const grad_output = p.grad_output + (n * p.C + first) * p.samples + sample;
#pragma unroll
      for (int j = 0; j < kPlaneLanes; ++j) {
        if (first + j >= p.C) break;
        const Real go = static_cast<Real>(widened(grad_output[j * p.samples]));
        Real values[kCount];
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
          values[i] = pixels[i] < 0 ? Real(0) : static_cast<Real>(widened(image[j * p.pixels + pixels[i]]));
        }
        add_slopes<kAxes, kTaps>(place, values, go, j, lanes);
      }
    }
#pragma unroll
    for (int axis = 0; axis < kAxes; ++axis) to[sample * kAxes + axis] = sum_pairs<kPlaneLanes>(lanes[axis]);
  }
}

// Writes grad_grid of one sample, from the sums of its groups.
template <int kAxes, int kTaps, class Stored, class Real>
__device__ inline void combine_planes(const GridCall<Stored>& p, int64_t n, int64_t sample, uint32_t groups,
                                      const Real* partial, Result grad_grid) {
  constexpr int kGroups = kLanes / kPlaneLanes;
  const GridPlace<kAxes, Real> place = place_of<kAxes, kTaps, Real>(p, n, sample);
#pragma unroll
  for (int axis = 0; axis < kAxes; ++axis) {
    Real of[kGroups];
#pragma unroll
    for (uint32_t i = 0; i < kGroups; ++i) {
      const bool is_there = i < groups && place.sampled;
      of[i] = is_there ? partial[((n * groups + i) * p.samples + sample) * kAxes + axis] : Real(0);
    }
    const Real scaled = place.sampled ? sum_pairs<kGroups>(of) * place.scale[axis] : Real(0);
    store_one(grad_grid.data, grad_grid.dtype, (n * p.samples + sample) * kAxes + axis, scaled);
  }
}

}  // namespace msda::kernels::cuda
