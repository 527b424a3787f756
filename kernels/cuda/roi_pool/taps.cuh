// What the bins of position-sensitive pooling read, found once for all channels.
#pragma once

#include "kernels/cuda/common/storage.cuh"
#include "kernels/cuda/common/warp.cuh"
#include "kernels/roi_bins.h"

namespace msda::kernels::cuda {

inline constexpr int kTapThreads = 128;

// Boxes are taken in batches, so that the taps take little memory. Boxes are counted from the batch's first.
template <class Stored>
struct RoiPoolCall : RoiPoolSizes {
  const Stored* boxes;        // the batch's
  const Stored* grad_output;  // the batch's
  const int32_t* indices;     // the batch's
  int64_t count;              // boxes of the batch

  MSDA_HOST_DEVICE int64_t axes_of_box() const { return int64_t{bins[0]} + bins[1]; }
  MSDA_HOST_DEVICE int64_t taps_of_box() const { return int64_t{bins[0]} * sides[0] + int64_t{bins[1]} * sides[1]; }
};

// The taps of a batch: each box has its bins along x, then those along y.
template <class Real>
struct RoiTaps {
  uint32_t* counts;    // [boxes, bins]
  RoiTap<Real>* taps;  // [boxes, bins, side]: the first of each are used

  MSDA_HOST_DEVICE static int64_t bytes_of_box(const RoiPoolSizes& s) {
    return (int64_t{s.bins[0]} + s.bins[1]) * int64_t{sizeof(uint32_t)} +
           (int64_t{s.bins[0]} * s.sides[0] + int64_t{s.bins[1]} * s.sides[1]) * int64_t{sizeof(RoiTap<Real>)};
  }
  template <class Stored>
  __device__ uint32_t& count(const RoiPoolCall<Stored>& p, int64_t box, int axis, int32_t bin) const {
    return counts[box * p.axes_of_box() + (axis == 0 ? 0 : p.bins[0]) + bin];
  }
  template <class Stored>
  __device__ RoiTap<Real>* of(const RoiPoolCall<Stored>& p, int64_t box, int axis, int32_t bin) const {
    return taps + box * p.taps_of_box() + (axis == 0 ? 0 : int64_t{p.bins[0]} * p.sides[0]) +
           int64_t{bin} * p.sides[axis];
  }
};

// A warp for each bin along an axis: its lanes compute the pixels' weights, and list those that are not 0.
template <class Stored, class Real>
__global__ void __launch_bounds__(kTapThreads)
    roi_taps_kernel(const __grid_constant__ RoiPoolCall<Stored> p, RoiTaps<Real> taps) {
  const int64_t warp = (int64_t{blockIdx.x} * kTapThreads + threadIdx.x) / kWarp;
  const int64_t box = warp / p.axes_of_box();
  if (box >= p.count) return;
  const auto number = static_cast<int32_t>(warp % p.axes_of_box());
  const int axis = number < p.bins[0] ? 0 : 1;
  const int32_t of_axis = axis == 0 ? number : number - p.bins[0];
  const Stored* const edges = p.boxes + box * 5 + 1 + axis;
  const PsRoiBin<Real> bin(p, axis, static_cast<Real>(widened(edges[0])), static_cast<Real>(widened(edges[2])),
                           of_axis);
  const unsigned lane = threadIdx.x % kWarp;
  RoiTap<Real>* const list = taps.of(p, box, axis, of_axis);
  uint32_t count = 0;
  for (int32_t first = bin.range().first; first < bin.range().end; first += kWarp) {
    const int32_t pixel = first + static_cast<int32_t>(lane);
    const Real weight = pixel < bin.range().end ? bin.weight(pixel) : Real(0);
    const unsigned read = __ballot_sync(~0u, weight != Real(0));
    if (weight != Real(0)) list[count + __popc(read & ((1u << lane) - 1))] = {weight, pixel};
    count += static_cast<uint32_t>(__popc(read));
  }
  if (lane == 0) taps.count(p, box, axis, of_axis) = count;
}

}  // namespace msda::kernels::cuda
