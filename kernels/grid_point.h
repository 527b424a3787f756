// The arithmetic of one sample of grid_sample: where a coordinate lands along an axis of the image, which pixels it
// then reads, and with which weights. As in sample.h each operation is written once, and is one rounding.
#pragma once

#include "kernels/grid_sample.h"
#include "kernels/sample.h"

namespace msda::kernels {
inline namespace MSDA_ISA {

MSDA_HOST_DEVICE inline float fmod(float a, float b) { return ::fmodf(a, b); }
MSDA_HOST_DEVICE inline double fmod(double a, double b) { return ::fmod(a, b); }
MSDA_HOST_DEVICE inline float nearest(float a) { return ::nearbyintf(a); }
MSDA_HOST_DEVICE inline double nearest(double a) { return ::nearbyint(a); }
MSDA_HOST_DEVICE inline float magnitude(float a) { return ::fabsf(a); }
MSDA_HOST_DEVICE inline double magnitude(double a) { return ::fabs(a); }

// Returns how many pixels a sample reads along an axis.
MSDA_HOST_DEVICE constexpr int taps_along(msda_interpolation interpolation) {
  return interpolation == MSDA_BILINEAR ? 2 : interpolation == MSDA_NEAREST ? 1 : 4;
}
inline constexpr int kMostTaps = 4;

// A coordinate that padding has moved.
template <class Real>
struct Padded {
  Real pixel;
  Real sign;  // d pixel / d unpadded: 1, -1, or 0 where clipped
};

// Mirrors at the edges of the image, or with align_corners at the centres of its outermost pixels.
template <class Real>
MSDA_HOST_DEVICE inline Padded<Real> reflect(bool align_corners, Real pixel, int32_t size) {
  const Real low = align_corners ? Real(0) : Real(-0.5), span = static_cast<Real>(align_corners ? size - 1 : size);
  if (span == Real(0)) return {Real(0), Real(0)};
  const Real from_low = pixel - low, distance = magnitude(from_low), extra = fmod(distance, span);
  const Real sign = from_low < Real(0) ? Real(-1) : Real(1);
  const bool even = fmod(floor(distance / span), Real(2)) == Real(0);
  return even ? Padded<Real>{extra + low, sign} : Padded<Real>{(span - extra) + low, -sign};
}

// Clips to the image. PyTorch counts the border itself as outside: its gradient is 0.
template <class Real>
MSDA_HOST_DEVICE inline Padded<Real> clip(const Padded<Real>& at, int32_t size) {
  const Real last = static_cast<Real>(size - 1);
  if (at.pixel <= Real(0)) return {Real(0), Real(0)};
  if (at.pixel >= last) return {last, Real(0)};
  return at;
}

// Pads a coordinate; bicubic interpolation pads the pixels that it reads, not the coordinate.
template <class Grid, class Real>
MSDA_HOST_DEVICE inline Padded<Real> pad(const Grid& call, Real pixel, int32_t size) {
  const Padded<Real> as_is{pixel, Real(1)};
  const bool is_padded = call.padding == MSDA_GRID_BORDER || call.padding == MSDA_GRID_REFLECTION;
  if (call.interpolation == MSDA_BICUBIC || !is_padded || pixel != pixel) return as_is;
  if (call.padding == MSDA_GRID_BORDER) return clip(as_is, size);
  if (pixel - pixel != Real(0)) return as_is;  // infinite
  return clip(reflect(call.align_corners, pixel, size), size);
}

// Where a coordinate lands along one axis. `Grid`: anything with the conventions of a call.
template <class Real>
struct GridAxis {
  Real fraction;  // distance from pixel `low`
  Real scale;     // d padded pixel coordinate / d coordinate of the grid
  int32_t low;
  bool sampled;  // false: reads nothing
};

// Stage pixel_coordinates: returns the pixel coordinate of a grid coordinate, before padding.
template <class Grid, class Real>
MSDA_HOST_DEVICE inline Real grid_pixel(const Grid& call, Real at, int32_t size) {
  const Real one(1), half(0.5), sides = static_cast<Real>(size);
  if (call.padding == MSDA_GRID_PIXELS) return at;
  return call.align_corners ? ((at + one) * half) * (sides - one) : ((at + one) * sides - one) * half;
}

template <class Grid, class Real>
MSDA_HOST_DEVICE inline GridAxis<Real> locate_grid(const Grid& call, Real at, int32_t size) {
  const Real one(1), half(0.5), sides = static_cast<Real>(size);
  const Padded<Real> padded = pad(call, grid_pixel(call, at, size), size);
  const bool is_nearest = call.interpolation == MSDA_NEAREST;
  const Real low = is_nearest ? nearest(padded.pixel) : floor(padded.pixel);
  const Real far(5e8f);  // four times it is an int32_t
  GridAxis<Real> axis;
  const bool in_range = magnitude(padded.pixel) < far;  // false for NaN
  axis.sampled = in_range || call.interpolation == MSDA_BICUBIC;
  axis.fraction = is_nearest ? Real(0) : padded.pixel - low;
  axis.scale = is_nearest                         ? Real(0)
               : call.padding == MSDA_GRID_PIXELS ? Real(1)
                                                  : padded.sign * ((call.align_corners ? sides - one : sides) * half);
  axis.low = low >= far ? 500000000 : low > -far ? static_cast<int32_t>(low) : low != low ? -2 : -500000000;
  return axis;
}

// Returns the pixel that the tap with the unpadded number `tap` reads, or -1 if it reads 0.
template <class Grid>
MSDA_HOST_DEVICE inline int32_t tap_pixel(const Grid& call, int32_t tap, int32_t size) {
  if (tap >= 0 && tap < size) return tap;
  if (call.interpolation != MSDA_BICUBIC || call.padding == MSDA_GRID_ZEROS) return -1;
  if (call.padding == MSDA_GRID_BORDER) return tap < 0 ? 0 : size - 1;
  if (call.align_corners) {
    if (size == 1) return 0;
    const int32_t distance = tap < 0 ? -tap : tap, flips = distance / (size - 1), extra = distance % (size - 1);
    return flips % 2 == 0 ? extra : size - 1 - extra;
  }
  const int32_t distance = tap < 0 ? -tap - 1 : tap, flips = distance / size, extra = distance % size;
  return flips % 2 == 0 ? extra : size - 1 - extra;
}

// The pixels that a sample reads along one axis.
template <class Real>
struct GridTaps {
  int32_t pixel[kMostTaps];  // -1: none, it reads 0
  Real weight[kMostTaps];
  Real slope[kMostTaps];  // d weight / d pixel coordinate
};

// Returns Keys' polynomial at a distance of at most one pixel (`inner`), or of one to two.
template <class Real>
MSDA_HOST_DEVICE inline Real cubic_weight(Real x, bool inner) {
  const Real a(-0.75);
  return inner ? (((a + Real(2)) * x - (a + Real(3))) * x) * x + Real(1)
               : ((a * x - Real(5) * a) * x + Real(8) * a) * x - Real(4) * a;
}

template <class Real>
MSDA_HOST_DEVICE inline void cubic_taps(Real fraction, GridTaps<Real>& taps) {
  const Real a(-0.75), one(1);
  const Real distance[4] = {fraction + one, fraction, one - fraction, (one - fraction) + one};
  for (int i = 0; i < 4; ++i) {
    const Real x = distance[i], sign = i < 2 ? Real(1) : Real(-1);
    const bool inner = i == 1 || i == 2;
    taps.weight[i] = cubic_weight(x, inner);
    taps.slope[i] = sign * (inner ? (Real(3) * (a + Real(2)) * x - Real(2) * (a + Real(3))) * x
                                  : (Real(3) * a * x - Real(10) * a) * x + Real(8) * a);
  }
}

// Finds the taps for a coordinate that is sampled, at `fraction` from pixel `low`.
template <class Grid, class Real>
MSDA_HOST_DEVICE inline GridTaps<Real> grid_taps(const Grid& call, Real fraction, int32_t low, int32_t size) {
  GridTaps<Real> taps{};
  const int count = taps_along(call.interpolation), first = call.interpolation == MSDA_BICUBIC ? low - 1 : low;
  for (int i = 0; i < count; ++i) taps.pixel[i] = tap_pixel(call, first + i, size);
  if (call.interpolation == MSDA_BICUBIC) {
    cubic_taps(fraction, taps);
  } else if (call.interpolation == MSDA_BILINEAR) {
    taps.weight[0] = Real(1) - fraction;
    taps.weight[1] = fraction;
    taps.slope[0] = Real(-1);
    taps.slope[1] = Real(1);
  } else {
    taps.weight[0] = Real(1);
  }
  return taps;
}

// Where a sample lands, and what it reads along each axis.
template <int kAxes, class Real>
struct GridPlace {
  GridTaps<Real> taps[kAxes];
  Real scale[kAxes];
  bool sampled = true;

  GridPlace() = default;
  template <class Grid>
  MSDA_HOST_DEVICE GridPlace(const Grid& call, const Real (&at)[kAxes], const int32_t (&sides)[3]) {
    GridAxis<Real> axes[kAxes];
    for (int i = 0; i < kAxes; ++i) {
      axes[i] = locate_grid(call, at[i], sides[i]);
      sampled = sampled && axes[i].sampled;
    }
    if (!sampled) return;
    for (int i = 0; i < kAxes; ++i) {
      taps[i] = grid_taps(call, axes[i].fraction, axes[i].low, sides[i]);
      scale[i] = axes[i].scale;
    }
  }
};

// Calls visit(number, tap) for the pixels that a sample reads, x fastest; `tap` has the numbers along x, y and z.
template <int kAxes, int kTaps, class Visit>
MSDA_HOST_DEVICE inline void for_each_tap(Visit&& visit) {
  int number = 0;
  for (int z = 0; z < (kAxes == 3 ? kTaps : 1); ++z) {
    for (int y = 0; y < kTaps; ++y) {
      for (int x = 0; x < kTaps; ++x) {
        const int tap[3] = {x, y, z};
        visit(number++, tap);
      }
    }
  }
}

MSDA_HOST_DEVICE constexpr int taps_of_sample(int axes, int taps) {
  return axes == 3 ? taps * taps * taps : taps * taps;
}

// Returns the number in the image of the pixel that the taps with these numbers along x, y and z read, or -1 for none.
template <int kAxes, class Real>
MSDA_HOST_DEVICE inline int64_t image_pixel(const GridTaps<Real> (&taps)[kAxes], const int32_t (&sides)[3],
                                            const int (&tap)[3]) {
  int64_t pixel = 0;
  for (int axis = kAxes - 1; axis >= 0; --axis) {
    const int32_t along = taps[axis].pixel[tap[axis]];
    if (along < 0) return -1;
    pixel = pixel * sides[axis] + along;
  }
  return pixel;
}

// Stage interpolation_weights: returns the factor of that pixel.
template <int kAxes, class Real>
MSDA_HOST_DEVICE inline Real image_weight(const GridTaps<Real> (&taps)[kAxes], const int (&tap)[3]) {
  Real weight = taps[0].weight[tap[0]];
  for (int axis = 1; axis < kAxes; ++axis) weight = weight * taps[axis].weight[tap[axis]];
  return weight;
}

// Returns, for one channel, d interpolated value / d pixel coordinate along `own`. value(tap) is what the taps with
// these numbers along x, y and z read. Sums along `own` come first, which keeps the differences of neighbours exact
// where they can be.
template <int kAxes, int kTaps, class Real, class Value>
MSDA_HOST_DEVICE inline Real slope_along(const GridTaps<Real> (&taps)[kAxes], int own, Value&& value) {
  const int second = own == 0 ? 1 : 0, third = own == 2 ? 1 : 2;
  Real total(0);
  for (int k = 0; k < (kAxes == 3 ? kTaps : 1); ++k) {
    Real plane(0);
    for (int j = 0; j < kTaps; ++j) {
      int tap[3] = {};
      tap[second] = j;
      if (kAxes == 3) tap[third] = k;
      Real line(0);
      for (int i = 0; i < kTaps; ++i) {
        tap[own] = i;
        line = i == 0 ? taps[own].slope[0] * value(tap) : fma(taps[own].slope[i], value(tap), line);
      }
      plane = j == 0 ? taps[second].weight[0] * line : fma(taps[second].weight[j], line, plane);
    }
    total = kAxes == 2 ? plane : k == 0 ? taps[third].weight[0] * plane : fma(taps[third].weight[k], plane, total);
  }
  return total;
}

}  // namespace MSDA_ISA
}  // namespace msda::kernels
