// The arithmetic of one sample: where a location lands on one pyramid level, what it reads there, and its gradients.
//
// Every kernel of this project, on the CPU and on the GPU, in any order of accumulation, and every error bound uses
// these functions, so that each operation is written once. `Real` is float, double, or a type of the analysis that
// carries a bound beside the value. Each operation is one rounding: build with floating-point contraction off
// (-ffp-contract=off, nvcc -fmad=false); a fused multiply-add is written where it is meant. docs/determinism.md
// explains.
#pragma once

#include <math.h>

#include <cstdint>

#include "kernels/msda.h"

#if defined(__CUDACC__)
#define MSDA_HOST_DEVICE __host__ __device__
#else
#define MSDA_HOST_DEVICE
#endif

// Code that is compiled once per instruction set lives in an inline namespace of its own. Otherwise the linker would
// keep one copy of each function, and a machine without AVX2 might execute the AVX2 copy.
#if !defined(MSDA_ISA)
#define MSDA_ISA generic
#endif

namespace msda::kernels {
inline namespace MSDA_ISA {

// The C functions, not those of std::, whose inline wrappers would lie outside this namespace. Other types for `Real`
// define their own.
MSDA_HOST_DEVICE inline float fma(float a, float b, float c) { return ::fmaf(a, b, c); }
MSDA_HOST_DEVICE inline double fma(double a, double b, double c) { return ::fma(a, b, c); }
MSDA_HOST_DEVICE inline float floor(float a) { return ::floorf(a); }
MSDA_HOST_DEVICE inline double floor(double a) { return ::floor(a); }

// Sides up to 2^24 are exact in float32; check_call() refuses larger levels.
inline constexpr int64_t kMaxLevelSide = int64_t{1} << 24;

// Stage pixel_coordinates: returns a normalized location in pixels, where pixel i has its centre at i. `size` is the
// level's side.
template <class Real>
MSDA_HOST_DEVICE inline Real pixel_coordinate(msda_dialect dialect, bool align_corners, Real location, Real size) {
  const Real one(1), half(0.5);
  if (dialect == MSDA_DEFORMABLE_DETR) return fma(location, size, -half);
  if (dialect == MSDA_MSDA_TRITON) {
    if (align_corners) return location * (size - one);
    return location * size - half;
  }
  const Real grid =
      (location + location) - one;  // grid_sample's [-1, 1]; here float32 loses the low bits of a location near 0
  if (align_corners) return ((grid + one) * half) * (size - one);
  return ((grid + one) * size - one) * half;
}

// Returns whether corners outside the level read the border. (grid_sample clips the pixel instead: a corner is then
// outside only with weight 0.)
MSDA_HOST_DEVICE constexpr bool corners_clamp(msda_dialect dialect, msda_padding padding) {
  return dialect == MSDA_MSDA_TRITON && padding == MSDA_PADDING_BORDER;
}

// Where a location lands along one axis of one level.
template <class Real>
struct Axis {
  Real pixel;     // stage pixel_coordinates, before any clipping
  Real slope;     // d clipped pixel / d location: the size, or 0 where grid_sample clips
  Real fraction;  // distance from corner `low`, in [0, 1]
  int32_t low;    // stage cell: the corner at or left of (above) the pixel; -2 stands for anything left of -1
  bool sampled;   // false where the dialect skips a sample that lies here
};

// Returns where a pixel coordinate lands.
template <class Real>
MSDA_HOST_DEVICE inline Axis<Real> locate_pixel(msda_dialect dialect, msda_padding padding, bool align_corners, Real at,
                                                int32_t size) {
  const Real last = static_cast<Real>(size - 1), zero(0);
  Axis<Real> axis;
  axis.pixel = at;
  axis.slope = align_corners ? last : static_cast<Real>(size);
  axis.sampled = true;
  Real pixel = axis.pixel;
  if (dialect == MSDA_GRID_SAMPLE) {
    if (padding == MSDA_PADDING_BORDER) {  // PyTorch counts the border itself as outside: its gradient is 0
      if (pixel <= zero) {
        pixel = zero;
        axis.slope = zero;
      } else if (pixel >= last) {
        pixel = last;
        axis.slope = zero;
      }
    }
    axis.sampled = pixel - pixel == zero;  // neither NaN nor infinite
  } else if (dialect == MSDA_DEFORMABLE_DETR) {
    axis.sampled = pixel > Real(-1) && pixel < static_cast<Real>(size);
  }
  const Real low = floor(pixel);
  axis.fraction = pixel - low;
  if (!(low >= Real(-1))) {
    axis.low = -2;  // also for NaN
  } else if (low > last) {
    axis.low = size;
  } else {
    axis.low = static_cast<int32_t>(low);
  }
  if (corners_clamp(dialect, padding)) {
    // Both corners of a cell outside read the border pixel.
    if (axis.low < -1) axis.low = -1;
    if (axis.low > size - 1) axis.low = size - 1;
  }
  return axis;
}

template <class Real>
MSDA_HOST_DEVICE inline Axis<Real> locate(msda_dialect dialect, msda_padding padding, bool align_corners, Real location,
                                          int32_t size) {
  const Real pixel = pixel_coordinate(dialect, align_corners, location, static_cast<Real>(size));
  return locate_pixel(dialect, padding, align_corners, pixel, size);
}

// Returns the coordinate as compilers evaluate it that fuse products and sums: Triton, and nvcc by default. PyTorch's
// clip stands between grid_sample's product and its subtraction; msda_triton's cell is that of the rounded product, but
// its fraction that of the exact one.
template <class Real>
MSDA_HOST_DEVICE inline Real contracted_coordinate(msda_dialect dialect, bool align_corners, Real location, Real size) {
  if (align_corners) return pixel_coordinate(dialect, true, location, size);
  const Real one(1), half(0.5);
  if (dialect != MSDA_GRID_SAMPLE) return fma(location, size, -half);
  const Real grid = (location + location) - one;
  return fma(grid + one, size, -one) * half;
}
MSDA_HOST_DEVICE inline Axis<float> locate_contracted(msda_dialect dialect, msda_padding padding, bool align_corners,
                                                      float location, int32_t size) {
  const float pixel = contracted_coordinate(dialect, align_corners, location, static_cast<float>(size));
  Axis<float> axis = locate_pixel(dialect, padding, align_corners, pixel, size);
  if (align_corners && dialect == MSDA_MSDA_TRITON) {
    axis.fraction = fma(location, static_cast<float>(size - 1), -floor(pixel));
  }
  return axis;
}

// Returns the pixel that corner low (upper = 0) or low + 1 (upper = 1) reads along one axis, or -1 where it reads zero.
MSDA_HOST_DEVICE inline int32_t corner_pixel(msda_dialect dialect, msda_padding padding, int32_t low, int upper,
                                             int32_t size) {
  const int32_t pixel = low + upper;
  if (corners_clamp(dialect, padding)) {
    return pixel < 0 ? 0 : (pixel >= size ? size - 1 : pixel);
  }
  return pixel >= 0 && pixel < size ? pixel : -1;
}

// Where a sample lands on a level. `Conventions`: anything with the dialect, padding and align_corners of a call;
// `Sides`: anything with the height and width of a level.
template <class Real>
struct Spot {
  Axis<Real> x, y;
  bool sampled;
};
template <class Conventions, class Sides, class Real>
MSDA_HOST_DEVICE inline Spot<Real> locate_at(const Conventions& call, const Sides& level, Real x, Real y) {
  Spot<Real> spot;
  spot.x = locate(call.dialect, call.padding, call.align_corners, x, level.width);
  spot.y = locate(call.dialect, call.padding, call.align_corners, y, level.height);
  spot.sampled = spot.x.sampled && spot.y.sampled;
  return spot;
}

// Returns the cell's number in its level, or -1 for a sample that contributes to no pixel of the level.
template <class Real, class Sides>
MSDA_HOST_DEVICE inline int64_t cell_of(const Spot<Real>& spot, const Sides& level) {
  const bool reached = spot.y.low >= -1 && spot.y.low < level.height && spot.x.low >= -1 && spot.x.low < level.width;
  if (!spot.sampled || !reached) return -1;
  return (int64_t{spot.y.low} + 1) * (int64_t{level.width} + 1) + spot.x.low + 1;
}

// Pixel number within the level of each corner of the cell at (low_y, low_x), or -1 where the corner reads zero.
template <class Conventions, class Sides>
MSDA_HOST_DEVICE inline void corner_pixels(const Conventions& call, const Sides& level, int32_t low_y, int32_t low_x,
                                           int64_t (&pixels)[4]) {
  for (int corner = 0; corner < 4; ++corner) {
    const int32_t y = corner_pixel(call.dialect, call.padding, low_y, corner / 2, level.height);
    const int32_t x = corner_pixel(call.dialect, call.padding, low_x, corner % 2, level.width);
    pixels[corner] = y < 0 || x < 0 ? -1 : int64_t{y} * level.width + x;
  }
}

// Stage interpolation_weights, of the corners (y0,x0) (y0,x1) (y1,x0) (y1,x1).
template <class Real>
struct CornerWeights {
  Real w[4];
};

template <class Real>
MSDA_HOST_DEVICE inline CornerWeights<Real> corner_weights(Real fraction_y, Real fraction_x) {
  const Real rest_y = Real(1) - fraction_y, rest_x = Real(1) - fraction_x;
  return {{rest_y * rest_x, rest_y * fraction_x, fraction_y * rest_x, fraction_y * fraction_x}};
}

// Stage sampled_value, for one channel.
template <class Real>
MSDA_HOST_DEVICE inline Real interpolate(const CornerWeights<Real>& weights, Real v00, Real v01, Real v10, Real v11) {
  return fma(weights.w[3], v11, fma(weights.w[2], v10, fma(weights.w[1], v01, weights.w[0] * v00)));
}

// Returns d sampled_value / d pixel along an axis, for one channel: the difference across the axis on the near and on
// the far side of the cell, weighted by the fraction along the other axis. For x: (v00, v01, v10, v11, fraction_y); for
// y the corners (v00, v10, v01, v11) and fraction_x.
template <class Real>
MSDA_HOST_DEVICE inline Real slope_across(Real near_low, Real near_high, Real far_low, Real far_high, Real fraction) {
  return fma(fraction, far_high - far_low, (Real(1) - fraction) * (near_high - near_low));
}

// Stage grad_sampling_locations, for one axis, from the sum over channels of grad_output * slope_across.
template <class Real>
MSDA_HOST_DEVICE inline Real location_gradient(Real sum_over_channels, Real attention, Real slope) {
  return (sum_over_channels * attention) * slope;
}

// Stage value_contributions: one addend of grad_value. `weighted` is grad_output * attention, itself one rounding.
template <class Real>
MSDA_HOST_DEVICE inline Real value_contribution(Real corner_weight, Real weighted) {
  return corner_weight * weighted;
}

// The fixed tree for a sum over channels: 32 lanes, lane j taking channels j, j + 32, ... in order with a fused
// multiply-add from +0, then the lanes pairwise: 0+1, 2+3, ...; then pairs of those; five levels. A warp does it with
// shuffles, or eight threads of four adjacent channels each; a CPU with vectors.
inline constexpr int kLanes = 32;

template <int kCount, class Real>
MSDA_HOST_DEVICE inline Real sum_pairs(const Real* numbers) {
  if constexpr (kCount == 1) {
    return numbers[0];
  } else {
    Real sums[kCount / 2];
    for (int i = 0; i < kCount / 2; ++i) sums[i] = numbers[2 * i] + numbers[2 * i + 1];
    return sum_pairs<kCount / 2>(sums);
  }
}
template <class Real>
MSDA_HOST_DEVICE inline Real sum_lanes(const Real* lanes) {
  return sum_pairs<kLanes>(lanes);
}

// The three sums over channels of one sample, lane by lane, in `kCount` of the lanes.
template <int kCount, class Real>
struct ChannelSums {
  Real attention[kCount], x[kCount], y[kCount];
  MSDA_HOST_DEVICE ChannelSums() {
    for (int j = 0; j < kCount; ++j) attention[j] = x[j] = y[j] = Real(0);
  }
  // Lane j's next channel: its grad_output, and what the four corners read.
  MSDA_HOST_DEVICE void add(int j, Real grad_output, const CornerWeights<Real>& weights, Real fraction_y,
                            Real fraction_x, Real v00, Real v01, Real v10, Real v11) {
    attention[j] = fma(grad_output, interpolate(weights, v00, v01, v10, v11), attention[j]);
    x[j] = fma(grad_output, slope_across(v00, v01, v10, v11, fraction_y), x[j]);
    y[j] = fma(grad_output, slope_across(v00, v10, v01, v11, fraction_x), y[j]);
  }
};

// The fixed tree for the scatter sum: every run of up to 32 consecutive addends is summed from left to right, then
// every run of up to 32 such sums, and so on until one is left. Addends of one pixel come from the (at most 16) cell
// corners that reach it; each corner's addends are summed by this tree in the order of (query, point), and the corners'
// sums are added to +0 in the order of the cells, row by row, and within a cell in the order of CornerWeights.
inline constexpr int kRun = 32;

}  // namespace MSDA_ISA
}  // namespace msda::kernels
