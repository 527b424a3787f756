// One axis of an image that interpolate resized: which output pixels read a pixel of the image, and with which weight.
// After PyTorch's aten/src/ATen/native/UpSample.h, each operation one rounding.
#pragma once

#include "kernels/gather_sum.h"
#include "kernels/grid_point.h"
#include "kernels/interpolate.h"

namespace msda::kernels {

// What the CPU's and the GPU's kernels know of an axis.
struct ResizeAxis {
  msda_resize mode;
  bool align_corners;
  int32_t in, out;
  double scale;  // that was given, or 0
};

inline namespace MSDA_ISA {

template <class Real>
struct Resize : ResizeAxis {
  Real ratio;  // pixels of the image to a pixel of the output

  Resize() = default;
  MSDA_HOST_DEVICE explicit Resize(const ResizeAxis& axis) : ResizeAxis(axis) {
    if (aligned()) {
      ratio = out > 1 ? static_cast<Real>(in - 1) / static_cast<Real>(out - 1) : Real(0);
    } else {
      ratio = scale > 0 ? static_cast<Real>(1 / scale) : static_cast<Real>(in) / static_cast<Real>(out);
    }
  }

  // Returns where an output pixel lies in the image. It does not fall as the output pixel rises.
  MSDA_HOST_DEVICE Real coordinate(int32_t output) const {
    const Real at = static_cast<Real>(output), half(0.5);
    if (mode == MSDA_RESIZE_NEAREST || aligned()) return ratio * at;
    if (mode == MSDA_RESIZE_NEAREST_EXACT) return ratio * (at + half);
    const Real centred = ratio * (at + half) - half;
    return mode == MSDA_RESIZE_LINEAR && centred < Real(0) ? Real(0) : centred;
  }

  // The pixels that an output pixel reads: the taps from `first` on, each within the image.
  struct Taps {
    int32_t first, count;
    Real fraction;
  };
  MSDA_HOST_DEVICE Taps taps(int32_t output) const {
    const Real at = coordinate(output), last = static_cast<Real>(in - 1), low = floor(at);
    const auto pixel = static_cast<int32_t>(low < Real(-2) ? Real(-2) : low > last ? last : low);
    Real fraction = at - static_cast<Real>(pixel);
    fraction = fraction < Real(0) ? Real(0) : fraction > Real(1) ? Real(1) : fraction;
    if (mode == MSDA_RESIZE_LINEAR) return {pixel, 2, fraction};
    if (mode == MSDA_RESIZE_CUBIC) return {pixel - 1, 4, fraction};
    return {pixel, 1, fraction};
  }
  MSDA_HOST_DEVICE int32_t inside(int32_t pixel) const { return pixel < 0 ? 0 : pixel >= in ? in - 1 : pixel; }
  MSDA_HOST_DEVICE Real tap_weight(const Taps& taps, int i) const {
    const Real one(1), f = taps.fraction;
    if (mode == MSDA_RESIZE_LINEAR) return i == 0 ? one - f : f;
    if (mode != MSDA_RESIZE_CUBIC) return one;
    if (i == 0) return cubic_weight(f + one, false);
    if (i == 1) return cubic_weight(f, true);
    return i == 2 ? cubic_weight(one - f, true) : cubic_weight((one - f) + one, false);
  }

  // The output pixels that read a pixel: those from `first` to before `end`.
  struct Readers {
    int32_t first, end;
  };
  MSDA_HOST_DEVICE Readers readers(int32_t pixel) const {
    return {first_where(out,
                        [&](int32_t output) {
                          const Taps read = taps(output);
                          return inside(read.first + read.count - 1) >= pixel;
                        }),
            first_where(out, [&](int32_t output) { return inside(taps(output).first) > pixel; })};
  }
  // Returns the weight: the sum of the weights of its taps at the pixel, of which there are several at the border.
  MSDA_HOST_DEVICE Real weight(int32_t output, int32_t pixel) const {
    const Taps read = taps(output);
    Real sum(0);
    for (int i = 0; i < read.count; ++i) {
      if (inside(read.first + i) == pixel) sum = sum + tap_weight(read, i);
    }
    return sum;
  }

 private:
  MSDA_HOST_DEVICE bool aligned() const { return align_corners && mode >= MSDA_RESIZE_LINEAR; }
};

}  // namespace MSDA_ISA
}  // namespace msda::kernels
