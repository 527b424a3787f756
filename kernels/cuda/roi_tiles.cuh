// grad_input of ROIAlign on a GPU: each pixel gathers what boxes send to it, so nothing has to be added atomically, or
// cleared. A block takes a tile of pixels and eight channels, a thread a pixel. It looks for boxes that may reach the
// tile, in their order; of a few of them at a time it keeps, in shared memory, which bins read each column and each row
// of the tile, with which weights, and the bins' gradients.
#pragma once

#include "kernels/cuda/samples.cuh"
#include "kernels/cuda/several.cuh"
#include "kernels/roi_axis.h"

namespace msda::kernels::cuda {

inline constexpr int kRoiThreads = 256, kRoiWide = 32, kRoiHigh = kRoiThreads / kRoiWide, kRoiChannels = 8;
inline constexpr int kRoiSides = kRoiWide + kRoiHigh;  // columns and rows of a tile

template <class Stored>
struct RoiCall : RoiSizes {
  const Stored* boxes;
  const Stored* grad_output;
  Result grad_input;
  uint32_t tiles_across, tiles_down;
  int32_t most_bins;  // along an axis
  int together;       // boxes at a time
};

// A block's shared memory for `together` boxes.
template <class Real>
struct RoiRoom {
  Real* gradients;  // [boxes, channels, bins]
  Real* weights;    // [boxes, bins along an axis, columns and rows]
  int2* bins;       // [boxes, columns and rows]: the first bin, and how many
  static int64_t bytes_of_box(int32_t bins_of_box, int32_t most_bins) {
    return (int64_t{kRoiChannels} * bins_of_box + int64_t{most_bins} * kRoiSides) * int64_t{sizeof(Real)} +
           kRoiSides * int64_t{sizeof(int2)};
  }
  __device__ RoiRoom(void* memory, int together, int32_t bins_of_box, int32_t most_bins)
      : gradients(static_cast<Real*>(memory)),
        weights(gradients + together * kRoiChannels * bins_of_box),
        bins(reinterpret_cast<int2*>(weights + together * most_bins * kRoiSides)) {}
};

// The numbers of up to kRoiThreads boxes that may reach a tile, in their order.
class RoiList {
 public:
  // Of the boxes from `first` on, one for each thread. All threads must call it.
  template <class MayReach>
  __device__ uint32_t fill(uint32_t first, MayReach&& may_reach) {
    const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
    const bool mine = may_reach(first + threadIdx.x);
    const unsigned lanes = __ballot_sync(~0u, mine);
    __syncthreads();
    if (lane == 0) counts_[warp] = static_cast<uint32_t>(__popc(lanes));
    __syncthreads();
    uint32_t before = 0, all = 0;
    for (unsigned i = 0; i < kRoiThreads / kWarp; ++i) {
      before += i < warp ? counts_[i] : 0;
      all += counts_[i];
    }
    if (mine) numbers_[before + static_cast<uint32_t>(__popc(lanes & ((1u << lane) - 1)))] = first + threadIdx.x;
    __syncthreads();
    return all;
  }
  __device__ uint32_t operator[](uint32_t i) const { return numbers_[i]; }

 private:
  uint32_t counts_[kRoiThreads / kWarp], numbers_[kRoiThreads];
};

template <class Real, class Stored>
__device__ inline RoiAxis<Real> roi_axis(const RoiCall<Stored>& p, uint32_t box, int axis) {
  const Stored* const edges = p.boxes + int64_t{box} * 5 + 1 + axis;
  return {p, axis, static_cast<Real>(widened(edges[0])), static_cast<Real>(widened(edges[2]))};
}

// Fills the room with `count` boxes of the list from `first` on. All threads must call it, followed by a barrier.
template <class Real, class Stored>
__device__ inline void fill_room(const RoiCall<Stored>& p, const RoiList& list, uint32_t first, uint32_t count,
                                 int32_t left, int32_t top, int64_t channel, const RoiRoom<Real>& room) {
  for (uint32_t i = threadIdx.x; i < count * kRoiSides; i += kRoiThreads) {
    const uint32_t box = i / kRoiSides, side = i % kRoiSides;
    const int axis = side < kRoiWide ? 0 : 1;
    const int32_t pixel = axis == 0 ? left + static_cast<int32_t>(side) : top + static_cast<int32_t>(side) - kRoiWide;
    const RoiReaders<Real> bins(roi_axis<Real>(p, list[first + box], axis), p.bins[axis], pixel,
                                room.weights + box * p.most_bins * kRoiSides + side, kRoiSides);
    room.bins[i] = int2{bins.first, bins.end - bins.first};
  }
  const auto of_box = static_cast<uint32_t>(p.bins_of_box() * min(int64_t{kRoiChannels}, p.C - channel));
  for (uint32_t i = threadIdx.x; i < count * of_box; i += kRoiThreads) {
    const uint32_t box = i / of_box, number = i % of_box;
    const Stored* const from = p.grad_output + (list[first + box] * p.C + channel) * p.bins_of_box();
    room.gradients[box * kRoiChannels * p.bins_of_box() + number] = static_cast<Real>(widened(from[number]));
  }
}

template <class Stored, class Real>
__global__ void __launch_bounds__(kRoiThreads, 3) roi_tiles_kernel(RoiCall<Stored> p) {
  using Channels = Several<Real, kRoiChannels>;
  __shared__ RoiList list;
  const RoiRoom<Real> room(dynamic_shared<uint4>(), p.together, p.bins_of_box(), p.most_bins);
  const uint32_t row_of_tiles = blockIdx.x / p.tiles_across;
  const int32_t left = static_cast<int32_t>(blockIdx.x % p.tiles_across) * kRoiWide;
  const int32_t top = static_cast<int32_t>(row_of_tiles % p.tiles_down) * kRoiHigh;
  const int64_t image = row_of_tiles / p.tiles_down, channel = int64_t{blockIdx.y} * kRoiChannels;
  const int column = static_cast<int>(threadIdx.x) % kRoiWide, line = static_cast<int>(threadIdx.x) / kRoiWide;
  Channels run{}, total{};
  uint32_t of_run = 0;  // the run of boxes
  const auto end_run = [&] {
#pragma unroll
    for (int c = 0; c < kRoiChannels; ++c) {
      total.at[c] = total.at[c] + run.at[c];
      run.at[c] = Real(0);
    }
  };
  for (uint32_t chunk = 0; chunk < p.K; chunk += kRoiThreads) {
    const uint32_t found = list.fill(chunk, [&](uint32_t box) {
      if (box >= p.K || !(widened(p.boxes[int64_t{box} * 5]) >= 0) ||
          static_cast<int64_t>(widened(p.boxes[int64_t{box} * 5])) != image) {
        return false;
      }
      return roi_axis<Real>(p, box, 0).may_reach(p.bins[0], left, left + kRoiWide - 1) &&
             roi_axis<Real>(p, box, 1).may_reach(p.bins[1], top, top + kRoiHigh - 1);
    });
    for (uint32_t first = 0; first < found; first += static_cast<uint32_t>(p.together)) {
      const uint32_t count = min(found - first, static_cast<uint32_t>(p.together));
      fill_room(p, list, first, count, left, top, channel, room);
      __syncthreads();
      for (uint32_t box = 0; box < count; ++box) {
        if (list[first + box] / kBoxRun != of_run) {
          end_run();
          of_run = list[first + box] / kBoxRun;
        }
        const int2 across = room.bins[box * kRoiSides + column], down = room.bins[box * kRoiSides + kRoiWide + line];
        if (across.y <= 0 || down.y <= 0) continue;
        const Real* const weights = room.weights + box * p.most_bins * kRoiSides;
        const Real* const of_columns = weights + across.x * kRoiSides + column;
        const Real* const of_rows = weights + down.x * kRoiSides + kRoiWide + line;
        const Real* const bins = room.gradients + box * kRoiChannels * p.bins_of_box() + down.x * p.bins[0] + across.x;
        const auto of_row = [&](int32_t j) {
          return gather_run(
              across.y, [&](int32_t i) { return of_columns[i * kRoiSides]; },
              [&](int32_t i) {
                Channels read;
#pragma unroll
                for (int c = 0; c < kRoiChannels; ++c) read.at[c] = bins[c * p.bins_of_box() + j * p.bins[0] + i];
                return read;
              });
        };
        const Channels sum = gather_run(
            down.y, [&](int32_t j) { return of_rows[j * kRoiSides]; }, of_row);
#pragma unroll
        for (int c = 0; c < kRoiChannels; ++c) run.at[c] = run.at[c] + sum.at[c];
      }
      __syncthreads();
    }
  }
  end_run();
  const int32_t x = left + column, y = top + line;
  if (x >= p.sides[0] || y >= p.sides[1]) return;
  const int64_t at = (image * p.C + channel) * p.pixels() + int64_t{y} * p.sides[0] + x;
  visit_elements(p.grad_input.data, p.grad_input.dtype, [&]<class To>(To* to) {
#pragma unroll
    for (int c = 0; c < kRoiChannels; ++c) {
      if (channel + c < p.C) to[at + c * p.pixels()] = narrowed<To>(total.at[c]);
    }
  });
}

}  // namespace msda::kernels::cuda
