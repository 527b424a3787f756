// Where output pixels of interpolate land along one axis of the image, and what they read there.
#include <algorithm>
#include <cmath>

#include "analysis/operators/interpolate/call.h"

namespace msda::analysis {
namespace {

constexpr double kA = -0.75;  // PyTorch's coefficient

// Keys' polynomial at a distance.
double cubic_weight(double distance) {
  const double x = std::abs(distance);
  if (x >= 2) return 0;
  return x <= 1 ? ((kA + 2) * x - (kA + 3)) * x * x + 1 : ((kA * x - 5 * kA) * x + 8 * kA) * x - 4 * kA;
}

// The shift of pixel centres that a mode takes into account.
bool is_centred(ResizeMode mode, bool align_corners) { return mode != ResizeMode::kNearest && !align_corners; }

}  // namespace

Coordinate InterpolateCall::coordinate_of(const Resized& side, int64_t output, const Precision& precision) const {
  const bool aligned = conventions.align_corners && !is_nearest(), centred = is_centred(mode, aligned);
  const long double at = static_cast<long double>(output) + (centred ? 0.5L : 0);
  long double scaled = 0;
  if (aligned) {
    scaled = side.out > 1 ? at * static_cast<long double>(side.in - 1) / static_cast<long double>(side.out - 1) : 0;
  } else if (side.scale > 0) {
    scaled = at / static_cast<long double>(side.scale);
  } else {
    scaled = at * static_cast<long double>(side.in) / static_cast<long double>(side.out);
  }
  // Nearest pixels are those whose cells begin at whole numbers, whether centred or not.
  const long double exact = centred && !is_nearest() ? scaled - 0.5L : scaled;
  // The ratio is rounded, the product and the difference.
  const double error =
      precision.unit * (3 * std::abs(static_cast<double>(scaled)) + std::abs(static_cast<double>(exact)));
  return {static_cast<double>(exact), error + precision.tiny};
}

double InterpolateCall::computed_coordinate(const Resized& side, int64_t output, const FactorArithmetic& by) const {
  const auto rounded = [&](double x) { return rounded_to(x, is_nearest() ? MSDA_FLOAT32 : by.type); };
  const bool aligned = conventions.align_corners && !is_nearest(), centred = is_centred(mode, aligned);
  double ratio = 0;
  if (aligned) {
    ratio = side.out > 1 ? rounded(static_cast<double>(side.in - 1) / static_cast<double>(side.out - 1)) : 0;
  } else {
    ratio = rounded(side.scale > 0 ? 1 / side.scale : static_cast<double>(side.in) / static_cast<double>(side.out));
  }
  const double at = static_cast<double>(output) + (centred ? 0.5 : 0);
  if (!centred || is_nearest()) return rounded(ratio * at);
  return by.variant == kContracted ? rounded(std::fma(ratio, at, -0.5)) : rounded(rounded(ratio * at) - 0.5);
}

int64_t InterpolateCall::end_by_inverse(const Resized& side, int64_t boundary) const {
  if (boundary >= side.in) return side.out;
  const float inverse =
      static_cast<float>(side.scale > 0 ? side.scale : static_cast<double>(side.out) / static_cast<double>(side.in));
  const auto at = static_cast<float>(boundary);
  const float end = mode == ResizeMode::kNearestExact ? std::fma(at, inverse, -0.5f) : at * inverse;
  return std::clamp<int64_t>(static_cast<int64_t>(std::ceil(end)), 0, side.out);
}

int64_t InterpolateCall::nearest_pixel(const Resized& side, int64_t output, const FactorArithmetic& by) const {
  const double at = by.variant == kWritten ? computed_coordinate(side, output, by)
                                           : coordinate_of(side, output, Precision::of(MSDA_FLOAT64)).exact;
  int64_t pixel = std::clamp<int64_t>(static_cast<int64_t>(std::floor(at)), 0, side.in - 1);
  if (by.variant != kInverse) return pixel;
  while (pixel > 0 && end_by_inverse(side, pixel) > output) --pixel;
  while (end_by_inverse(side, pixel + 1) <= output) ++pixel;
  return pixel;
}

ResizeTaps InterpolateCall::taps(const Resized& side, double coordinate, double error, double unit) const {
  const int64_t last = side.in - 1;
  ResizeTaps taps;
  const auto add = [&](int64_t pixel, double weight, double off) {
    pixel = std::clamp<int64_t>(pixel, 0, last);
    for (ResizeTap& tap : taps) {
      if (error <= 0 || tap.pixel != pixel) continue;  // what kernels add apart is one in exact arithmetic
      tap.weight += weight;
      tap.error += off;
      return;
    }
    taps.push_back({pixel, weight, off});
  };
  if (is_nearest()) {
    // Element by element nearest.cpp says what an output pixel on a boundary does.
    const double low = std::floor(coordinate), nearest = std::nearbyint(coordinate);
    if (error > 0 && std::abs(coordinate - nearest) <= error)
      add(static_cast<int64_t>(nearest == low ? low - 1 : low + 1), 0, 1);
    add(static_cast<int64_t>(low), 1, 0);
    return taps;
  }
  if (mode == ResizeMode::kCubic) {
    const double low = std::min(std::floor(coordinate), static_cast<double>(last));
    const double fraction = std::clamp(coordinate - low, 0.0, 1.0);
    // Slopes are at most 1.4, and polynomials have intermediate results up to 9.
    const double off = error > 0 ? 1.5 * error + 40 * unit : 0;
    if (error > 0 && fraction <= error) add(static_cast<int64_t>(low) - 2, 0, off);
    for (int i = -1; i <= 2; ++i) add(static_cast<int64_t>(low) + i, cubic_weight(fraction - i), off);
    if (error > 0 && fraction >= 1 - error) add(static_cast<int64_t>(low) + 3, 0, off);
    return taps;
  }
  const double at = conventions.align_corners ? coordinate : std::max(coordinate, 0.0);
  const double low = std::min(std::floor(at), static_cast<double>(last)), fraction = std::clamp(at - low, 0.0, 1.0);
  if (error > 0 && fraction <= error) add(static_cast<int64_t>(low) - 1, 0, error);
  add(static_cast<int64_t>(low), 1 - fraction, error);
  add(static_cast<int64_t>(low) + 1, fraction, error);
  if (error > 0 && fraction >= 1 - error) add(static_cast<int64_t>(low) + 2, 0, error);
  return taps;
}

Readers InterpolateCall::readers(const Resized& side, int64_t pixel) const {
  const Precision precision = Precision::of(MSDA_FLOAT64);
  const auto first_from = [&](int64_t boundary) {
    if (boundary <= 0) return int64_t{0};
    if (boundary >= side.in) return side.out;
    int64_t low = 0, high = side.out;  // the coordinate rises with the output pixel
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (coordinate_of(side, middle, precision).exact >= static_cast<double>(boundary)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  };
  return {first_from(pixel), first_from(pixel + 1)};
}

}  // namespace msda::analysis
