// The sums of a channel of an image, by one warp, which holds them in the block's shared memory and takes the boxes one
// after the other: the order is fixed, and no two threads add to a pixel at the same time.
#pragma once

#include "kernels/cuda/common/division.h"
#include "kernels/cuda/common/result.h"
#include "kernels/cuda/roi_pool/taps.cuh"

namespace msda::kernels::cuda {

inline constexpr int kRoiAhead = 4;  // loads that are under way together: little else hides their time

// A plane's pixels are divided into tiles, which blocks take.
struct RoiPlanes {
  uint32_t tiles;  // of a plane
  int32_t tile;    // pixels of one
  Division bins;   // of a box
};

template <class Real>
struct RoiPoolSums {
  const Real* before;  // of the batches before; null: nothing
  Result to;
};

template <class Stored, class Real>
class RoiPlaneWarp {
 public:
  __device__ RoiPlaneWarp(const RoiPoolCall<Stored>& p, const RoiPlanes& planes)
      : p_(p),
        planes_(planes),
        plane_(blockIdx.x / planes.tiles),
        first_(blockIdx.x % planes.tiles * static_cast<uint32_t>(planes.tile)),
        count_(min(static_cast<uint32_t>(planes.tile), static_cast<uint32_t>(p.pixels()) - first_)),
        image_(plane_ / p.C),
        channel_(plane_ % p.C),
        sums_(dynamic_shared<Real>()),
        list_(reinterpret_cast<uint32_t*>(sums_ + planes.tile)) {}

  __device__ void start(const Real* before) {
    for (uint32_t i = lane(); i < count_; i += kWarp) sums_[i] = before == nullptr ? Real(0) : before[element() + i];
    __syncwarp();
  }
  __device__ void store(const Result& to) const {
    __syncwarp();
    for (uint32_t i = lane(); i < count_; i += kWarp) store_one(to.data, to.dtype, element() + i, sums_[i]);
  }

  __device__ void add_maxima() {
    each_group([&](int64_t first, unsigned boxes) {
      if ((boxes >> lane() & 1) != 0) list_[__popc(boxes & ((1u << lane()) - 1))] = lane();
      __syncwarp();
      const uint32_t total = static_cast<uint32_t>(__popc(boxes)) * planes_.bins.by;
      for (uint32_t i = lane(); i - lane() < total; i += kRoiAhead * kWarp) {
        uint32_t pixel[kRoiAhead];
        Real gradient[kRoiAhead];
#pragma unroll
        for (uint32_t k = 0; k < kRoiAhead; ++k) {
          const uint32_t at = i + k * kWarp;
          pixel[k] = ~0u;
          if (at >= total) continue;
          const auto place = planes_.bins.divide(at);
          const int64_t bin = ((first + list_[place.quotient]) * p_.C + channel_) * planes_.bins.by + place.rest;
          pixel[k] = static_cast<uint32_t>(p_.indices[bin]) - first_;
          gradient[k] = static_cast<Real>(widened(p_.grad_output[bin]));
        }
#pragma unroll
        for (uint32_t k = 0; k < kRoiAhead; ++k) add_in_order(pixel[k], gradient[k]);
      }
      __syncwarp();
    });
  }

  __device__ void add_bins(const RoiTaps<Real>& taps) {
    const int32_t column = p_.bin_of(channel_, 0), row = p_.bin_of(channel_, 1);
    each_group([&](int64_t first, unsigned boxes) {
      const int64_t mine = first + lane();
      uint32_t wide = 0, high = 0;
      Real share(0);
      if ((boxes >> lane() & 1) != 0) {
        wide = taps.count(p_, mine, 0, column);
        high = taps.count(p_, mine, 1, row);
        share = share_of_bin(p_, static_cast<Real>(widened(p_.grad_output[mine * p_.C + channel_])), high, wide);
      }
      unsigned left = __ballot_sync(~0u, wide > 0 && high > 0 && reaches_tile(taps.of(p_, mine, 1, row), high));
      while (left != 0) {
        Bin bins[kRoiAhead];
#pragma unroll
        for (int k = 0; k < kRoiAhead; ++k) {
          const int from = left != 0 ? __ffs(static_cast<int>(left)) - 1 : 0;
          Bin& bin = bins[k];
          bin.wide = __shfl_sync(~0u, wide, from);
          bin.count = left != 0 ? bin.wide * __shfl_sync(~0u, high, from) : 0;
          bin.share = __shfl_sync(~0u, share, from);
          bin.x = taps.of(p_, first + from, 0, column);
          bin.y = taps.of(p_, first + from, 1, row);
          bin.first = addend(bin, lane());
          left &= left - 1;
        }
#pragma unroll
        for (int k = 0; k < kRoiAhead; ++k) add(bins[k]);
      }
    });
  }

 private:
  struct Addend {
    uint32_t pixel;
    Real x;
  };
  struct Bin {  // of one box
    uint32_t wide, count;
    Real share;
    const RoiTap<Real>*x, *y;
    Addend first;  // of this lane
  };

  __device__ static unsigned lane() { return threadIdx.x; }
  __device__ int64_t element() const { return int64_t{plane_} * p_.pixels() + first_; }
  __device__ bool is_of_image(int64_t box) const {
    if (box >= p_.count) return false;
    const auto image = widened(p_.boxes[box * 5]);
    return image >= 0 && static_cast<int64_t>(image) == image_;
  }
  // Calls visit(first, boxes) for each 32 boxes; `boxes` has a bit for each that is of this image.
  template <class Visit>
  __device__ void each_group(Visit&& visit) const {
    bool is_next = is_of_image(lane());
    for (int64_t first = 0; first < p_.count; first += kWarp) {
      const unsigned boxes = __ballot_sync(~0u, is_next);
      is_next = is_of_image(first + kWarp + lane());
      if (boxes != 0) visit(first, boxes);
    }
  }

  // Adds the lanes' numbers, those of the same pixel in the order of the lanes.
  __device__ void add_in_order(uint32_t pixel, Real x) {
    const bool is_here = pixel < count_;
    if (!__any_sync(~0u, is_here)) return;
    const unsigned same = __match_any_sync(~0u, static_cast<int>(is_here ? pixel : ~lane()));
    const int before = __popc(same & ((1u << lane()) - 1));
    for (int turn = 0; __any_sync(~0u, is_here && before >= turn); ++turn) {
      if (is_here && before == turn) sums_[pixel] = sums_[pixel] + x;
      __syncwarp();
    }
  }

  __device__ bool reaches_tile(const RoiTap<Real>* rows, uint32_t count) const {
    if (planes_.tiles == 1) return true;
    const auto begin = static_cast<uint32_t>(rows[0].pixel) * p_.sides[0],
               end = static_cast<uint32_t>(rows[count - 1].pixel + 1) * p_.sides[0];
    return begin < first_ + count_ && end > first_;
  }
  __device__ Addend addend(const Bin& bin, uint32_t i) const {
    if (i >= bin.count) return {~0u, Real(0)};
    const RoiTap<Real> y = bin.y[i / bin.wide], x = bin.x[i % bin.wide];
    return {static_cast<uint32_t>(y.pixel) * p_.sides[0] + x.pixel - first_, addend_of(y, x, bin.share)};
  }
  __device__ void add(const Bin& bin) {
    Addend next = bin.first;
    for (uint32_t i = lane(); i - lane() < bin.count; i += kWarp) {
      if (next.pixel < count_) sums_[next.pixel] = sums_[next.pixel] + next.x;
      next = addend(bin, i + kWarp);
    }
    __syncwarp();
  }

  const RoiPoolCall<Stored>& p_;
  const RoiPlanes& planes_;
  const uint32_t plane_, first_, count_;  // of the image and channel; the tile's pixels
  const int64_t image_, channel_;
  Real* const sums_;
  uint32_t* const list_;  // boxes of a group
};

template <bool kMaxima, class Stored, class Real>
__global__ void __launch_bounds__(kWarp)
    roi_planes_kernel(const __grid_constant__ RoiPoolCall<Stored> p, const __grid_constant__ RoiPlanes planes,
                      RoiTaps<Real> taps, RoiPoolSums<Real> sums) {
  RoiPlaneWarp<Stored, Real> warp(p, planes);
  warp.start(sums.before);
  if constexpr (kMaxima) {
    warp.add_maxima();
  } else {
    warp.add_bins(taps);
  }
  warp.store(sums.to);
}

}  // namespace msda::kernels::cuda
