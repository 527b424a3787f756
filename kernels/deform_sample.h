// The arithmetic of one sample of deform_conv2d: where it lands, and which pixels it reads.
#pragma once

#include "kernels/deform_conv2d.h"
#include "kernels/grid_point.h"

namespace msda::kernels {

// Sizes and conventions of a call whose tensors have been checked against one another; pairs along y, x.
struct DeformSizes {
  int64_t N, C;
  int32_t groups;
  int32_t kernel[2], stride[2], padding[2], dilation[2], sides[2], out[2];
  bool has_mask;

  MSDA_HOST_DEVICE int64_t taps() const { return int64_t{kernel[0]} * kernel[1]; }
  MSDA_HOST_DEVICE int64_t places() const { return int64_t{out[0]} * out[1]; }
  MSDA_HOST_DEVICE int64_t pixels() const { return int64_t{sides[0]} * sides[1]; }
  MSDA_HOST_DEVICE int64_t samples() const { return taps() * places(); }  // of an image and group
  MSDA_HOST_DEVICE int64_t channels() const { return C / groups; }        // of a group
};

inline namespace MSDA_ISA {

template <class Real>
struct DeformSample {
  Real at[2];         // y, x
  Real fraction[2];   // of the cell that it lands in
  int64_t corner[4];  // pixels, in the order of CornerWeights; -1: reads 0
  CornerWeights<Real> weights;

  // Sample number `sample` of its image and group, with its offsets along y and x.
  MSDA_HOST_DEVICE DeformSample(const DeformSizes& s, int64_t sample, Real offset_y, Real offset_x) {
    const auto place = static_cast<int32_t>(sample % s.places()), tap = static_cast<int32_t>(sample / s.places());
    const int32_t of_place[2] = {place / s.out[1], place % s.out[1]},
                  of_tap[2] = {tap / s.kernel[1], tap % s.kernel[1]};
    const Real offset[2] = {offset_y, offset_x};
    GridAxis<Real> axes[2];
    for (int i = 0; i < 2; ++i) {
      const int64_t begin = int64_t{of_place[i]} * s.stride[i] - s.padding[i] + int64_t{of_tap[i]} * s.dilation[i];
      at[i] = static_cast<Real>(begin) + offset[i];
      axes[i] = locate_grid(Conventions{}, at[i], s.sides[i]);
      fraction[i] = axes[i].fraction;
    }
    for (int i = 0; i < 4; ++i) {
      const int32_t y = axes[0].low + i / 2, x = axes[1].low + i % 2;
      const bool is_inside = axes[0].sampled && axes[1].sampled && y >= 0 && y < s.sides[0] && x >= 0 && x < s.sides[1];
      corner[i] = is_inside ? int64_t{y} * s.sides[1] + x : -1;
    }
    if (!axes[0].sampled || !axes[1].sampled) fraction[0] = fraction[1] = Real(0);
    weights = corner_weights(fraction[0], fraction[1]);
  }

 private:
  struct Conventions {
    static constexpr msda_interpolation interpolation = MSDA_BILINEAR;
    static constexpr msda_grid_padding padding = MSDA_GRID_PIXELS;
    static constexpr bool align_corners = false;
  };
};

}  // namespace MSDA_ISA
}  // namespace msda::kernels
