// One axis of a bin of ps_roi_pool and ps_roi_align: which pixels it reads, with which weights. After torchvision's
// kernels, each operation one rounding.
#pragma once

#include "kernels/roi_axis.h"
#include "kernels/roi_pool.h"

namespace msda::kernels {

// Sizes and conventions of a call whose tensors have been checked against one another. Bins along x, y.
struct RoiPoolSizes : RoiSizes {
  msda_roi_pooling pooling;

  // The bin of a position-sensitive channel.
  MSDA_HOST_DEVICE int32_t bin_of(int64_t channel, int axis) const {
    return static_cast<int32_t>(axis == 0 ? channel % bins[0] : channel / bins[0] % bins[1]);
  }
};

// A pixel that a bin reads, along one axis.
template <class Real>
struct RoiTap {
  Real weight;
  int32_t pixel;
};

inline namespace MSDA_ISA {

// Rounds to the nearest whole number, ties away from zero, and keeps it small. NaN gives the least.
template <class Real>
MSDA_HOST_DEVICE inline int32_t rounded(Real x) {
  constexpr int32_t kMost = 1 << 28;
  if (!(x > Real(-kMost))) return -kMost;
  if (x >= Real(kMost)) return kMost;
  const Real below = floor(x), rest = x - below;
  return static_cast<int32_t>(below) + (rest > Real(0.5) || (rest == Real(0.5) && x > Real(0)) ? 1 : 0);
}

template <class Real>
class PsRoiBin {
 public:
  // low, high: the box's edges.
  MSDA_HOST_DEVICE PsRoiBin(const RoiPoolSizes& s, int axis, Real low, Real high, int32_t number)
      : axis_(s, axis, low, high), number_(number), is_mean_(s.pooling == MSDA_ROI_PS_MEAN) {
    range_ = is_mean_ ? whole_pixels(s, axis, low, high) : axis_.pixels(number);
  }
  MSDA_HOST_DEVICE PixelRange range() const { return range_; }
  // Returns 0 for a pixel of the range that the bin does not read.
  MSDA_HOST_DEVICE Real weight(int32_t pixel) const {
    if (is_mean_) return Real(1);
    const auto readers = axis_.readers(number_, pixel);
    return readers.first < readers.end ? axis_.weight(number_, pixel, readers) : Real(0);
  }

 private:
  MSDA_HOST_DEVICE PixelRange whole_pixels(const RoiPoolSizes& s, int axis, Real low, Real high) const {
    const Real scale = static_cast<Real>(s.spatial_scale);
    const int32_t start = rounded(low * scale), length = rounded(high * scale) - start;
    const Real bin = static_cast<Real>(length > 1 ? length : 1) / static_cast<Real>(s.bins[axis]);
    const auto first = static_cast<int32_t>(floor(static_cast<Real>(number_) * bin));
    const auto end = static_cast<int32_t>(-floor(-(static_cast<Real>(number_ + 1) * bin)));
    return {inside(start + first, s.sides[axis]), inside(start + end, s.sides[axis])};
  }
  static MSDA_HOST_DEVICE int32_t inside(int32_t pixel, int32_t side) {
    return pixel < 0 ? 0 : pixel > side ? side : pixel;
  }

  RoiAxis<Real> axis_;
  int32_t number_;
  bool is_mean_;
  PixelRange range_;
};

// What a bin that reads `high` times `wide` pixels gives each of them, before their weights.
template <class Real>
MSDA_HOST_DEVICE inline Real share_of_bin(const RoiPoolSizes& s, Real gradient, int64_t high, int64_t wide) {
  return s.pooling == MSDA_ROI_PS_MEAN ? gradient / static_cast<Real>(high * wide) : gradient;
}
template <class Real>
MSDA_HOST_DEVICE inline Real addend_of(const RoiTap<Real>& y, const RoiTap<Real>& x, Real share) {
  return y.weight * (x.weight * share);
}

}  // namespace MSDA_ISA
}  // namespace msda::kernels
