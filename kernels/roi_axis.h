// One axis of a box of ROIAlign: with which weight its bins read a pixel. After torchvision's roi_align_kernel.cu, each
// operation one rounding.
#pragma once

#include "kernels/gather_sum.h"
#include "kernels/roi_align.h"

namespace msda::kernels {

// Boxes whose sums come one after the other before they are added to those of the boxes before.
inline constexpr int kBoxRun = 32;

// Sizes and conventions of a call whose tensors have been checked against one another.
struct RoiSizes {
  int64_t N, C, K;
  int32_t sides[2], bins[2];  // x, y
  double spatial_scale;
  int32_t sampling_ratio;
  bool aligned;

  MSDA_HOST_DEVICE int64_t pixels() const { return int64_t{sides[0]} * sides[1]; }
  MSDA_HOST_DEVICE int32_t bins_of_box() const { return bins[0] * bins[1]; }
};

inline namespace MSDA_ISA {

// Pixels along an axis: from `first` to before `end`.
struct PixelRange {
  int32_t first, end;
};

template <class Real>
struct RoiAxis {
  Real start, bin;  // in pixels; the length of a bin
  int32_t points;   // of a bin
  int32_t side;     // of the image

  RoiAxis() = default;
  MSDA_HOST_DEVICE RoiAxis(const RoiSizes& s, int axis, Real low, Real high) : side(s.sides[axis]) {
    const Real scale = static_cast<Real>(s.spatial_scale), offset = s.aligned ? Real(0.5) : Real(0);
    start = low * scale - offset;
    Real length = (high * scale - offset) - start;
    if (!s.aligned && length < Real(1)) length = Real(1);
    bin = length / static_cast<Real>(s.bins[axis]);
    points = s.sampling_ratio > 0 ? s.sampling_ratio : rounded_up(bin);
  }

  // Returns false if no point can read the pixels from `first` to `last`.
  MSDA_HOST_DEVICE bool may_reach(int32_t bins, int32_t first, int32_t last) const {
    return may_reach(start, start + bin * static_cast<Real>(bins), first, last);
  }
  // Returns false if no point of bin `number` can read the pixel.
  MSDA_HOST_DEVICE bool bin_may_reach(int32_t number, int32_t pixel) const {
    const Real begin = start + bin * static_cast<Real>(number);
    return may_reach(begin, begin + bin, pixel, pixel);
  }

  // The pixels that the points of bin `number` lie among: from the first that one reads to before the end.
  MSDA_HOST_DEVICE PixelRange pixels(int32_t number) const {
    const Real low(-1), high = static_cast<Real>(side);
    const bool rises = bin >= Real(0);
    const int32_t begin =
        first_where(points, [&](int32_t i) { return rises ? at(number, i) >= low : at(number, i) <= high; });
    const int32_t end =
        first_where(points, [&](int32_t i) { return rises ? at(number, i) > high : at(number, i) < low; });
    if (begin >= end) return {0, 0};
    const Real first = at(number, rises ? begin : end - 1), last = at(number, rises ? end - 1 : begin);
    return {first_of(first), last_of(last) + 1};
  }

  // The points of bin `number` that read the pixel: from `first` to before `end`.
  struct Readers {
    int32_t first, end;
  };
  MSDA_HOST_DEVICE Readers readers(int32_t number, int32_t pixel) const {
    const Real low(-1), high = static_cast<Real>(side);
    if (bin >= Real(0)) {
      return {first_where(points, [&](int32_t i) { return at(number, i) >= low && last_of(at(number, i)) >= pixel; }),
              first_where(points, [&](int32_t i) { return at(number, i) > high || first_of(at(number, i)) > pixel; })};
    }
    return {first_where(points, [&](int32_t i) { return at(number, i) <= high && first_of(at(number, i)) <= pixel; }),
            first_where(points, [&](int32_t i) { return at(number, i) < low || last_of(at(number, i)) < pixel; })};
  }
  // Returns the mean over all points of the bin of their weights at the pixel.
  MSDA_HOST_DEVICE Real weight(int32_t number, int32_t pixel, const Readers& readers) const {
    Real sum(0);
    for (int32_t i = readers.first; i < readers.end; ++i) {
      const Real place = at(number, i);
      const int32_t low = first_of(place), high = last_of(place);
      const Real fraction = low == high || place < Real(0) ? Real(0) : place - static_cast<Real>(low);
      if (low == pixel) sum = sum + (Real(1) - fraction);
      if (low != high && high == pixel) sum = sum + fraction;
    }
    return sum / static_cast<Real>(points);
  }

 private:
  // Returns whether points from `begin` to `end` may read the pixels: a point reads the pixels less than one pixel
  // away; if it is outside the image, the first two.
  MSDA_HOST_DEVICE bool may_reach(Real begin, Real end, int32_t first, int32_t last) const {
    const Real low = end < begin ? end : begin, high = end < begin ? begin : end;
    const Real slack = Real(1) + Real(1e-5) * (magnitude(start) + magnitude(begin) + magnitude(end));  // for rounding
    const Real inside = high < Real(0) ? Real(0) : high;
    return !(low - slack > static_cast<Real>(last)) && !(inside + slack < static_cast<Real>(first)) &&
           !(high + slack < Real(0));
  }
  static MSDA_HOST_DEVICE Real magnitude(Real x) { return x < Real(0) ? -x : x; }
  static MSDA_HOST_DEVICE int32_t rounded_up(Real length) {
    const Real whole = -floor(-length);
    return !(whole > Real(0)) ? 0 : whole > Real(1 << 20) ? 1 << 20 : static_cast<int32_t>(whole);
  }
  MSDA_HOST_DEVICE Real at(int32_t number, int32_t point) const {
    const Real in_bin = ((static_cast<Real>(point) + Real(0.5)) * bin) / static_cast<Real>(points);
    return (start + static_cast<Real>(number) * bin) + in_bin;
  }
  // Return the first and the last pixel that a point reads, if it is not outside.
  MSDA_HOST_DEVICE int32_t first_of(Real place) const {
    if (!(place > Real(0))) return 0;
    return place >= static_cast<Real>(side - 1) ? side - 1 : static_cast<int32_t>(place);
  }
  MSDA_HOST_DEVICE int32_t last_of(Real place) const {
    const int32_t first = first_of(place);
    return first >= side - 1 ? first : first + 1;
  }
};

// The bins of a box that read a pixel: from the first to the last, with their weights. weights[i * step] is the weight
// of bin i, counted among all bins.
template <class Real>
struct RoiReaders {
  int32_t first, end;
  MSDA_HOST_DEVICE RoiReaders(const RoiAxis<Real>& axis, int32_t bins, int32_t pixel, Real* weights, int64_t step)
      : first(bins), end(0) {
    for (int32_t i = 0; i < bins; ++i) {
      weights[i * step] = Real(0);
      if (!axis.bin_may_reach(i, pixel)) continue;
      const auto readers = axis.readers(i, pixel);
      if (readers.first >= readers.end) continue;
      weights[i * step] = axis.weight(i, pixel, readers);
      first = first < i ? first : i;
      end = i + 1;
    }
  }
};

}  // namespace MSDA_ISA
}  // namespace msda::kernels
