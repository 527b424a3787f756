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

// Returns whether a mode takes the shift of pixel centres into account.
bool is_centred(ResizeMode mode, bool align_corners) { return mode != ResizeMode::kNearest && !align_corners; }

// Returns a number of pixels, of which a scale factor may make any number: 0 for NaN, as GPUs convert it.
int64_t within(double x, int64_t most) {
  return std::isnan(x) ? 0 : static_cast<int64_t>(std::clamp(x, 0.0, static_cast<double>(most)));
}

// Returns the pixel at or before a coordinate; cubic interpolation begins one before the image.
double cell_of(double coordinate, int64_t last) {
  return std::isnan(coordinate) ? 0 : std::clamp(std::floor(coordinate), -1.0, static_cast<double>(last));
}
double fraction_in(double coordinate, double cell) {
  return std::isnan(coordinate) ? 0 : std::clamp(coordinate - cell, 0.0, 1.0);
}

// Returns the first of 0 <= i < count that a condition holds of, which holds of all that follow; count if it holds of
// none.
template <class Holds>
int64_t first_of(int64_t count, const Holds& holds) {
  int64_t low = 0, high = count;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (holds(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

}  // namespace

Coordinate InterpolateCall::coordinate_of(const Resized& side, int64_t output, const Precision& precision) const {
  const bool aligned = align_corners && !is_nearest(), centred = is_centred(mode, aligned);
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
  const bool aligned = align_corners && !is_nearest(), centred = is_centred(mode, aligned);
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

double InterpolateCall::forward_coordinate(const Resized& side, int64_t output, Variant by) const {
  return by == kWritten ? computed_coordinate(side, output, {"", MSDA_FLOAT32, kWritten})
                        : coordinate_of(side, output, Precision::of(MSDA_FLOAT32)).exact;
}

float InterpolateCall::begin_by_inverse(const Resized& side, int64_t boundary) const {
  const auto inverse =
      static_cast<float>(side.scale > 0 ? side.scale : static_cast<double>(side.out) / static_cast<double>(side.in));
  const auto at = static_cast<float>(boundary);
  return mode == ResizeMode::kNearestExact ? std::fma(at, inverse, -0.5f) : at * inverse;
}

int64_t InterpolateCall::end_by_inverse(const Resized& side, int64_t boundary) const {
  return within(std::ceil(begin_by_inverse(side, boundary)), side.out);
}

int64_t InterpolateCall::last_end(const Resized& side) const {
  if (!is_for_gpu || side.scale <= 0) return side.out;
  const double shift = mode == ResizeMode::kNearestExact ? 0.5 : 0;
  const long double end = static_cast<long double>(side.in) * static_cast<long double>(side.scale);
  return within(std::ceil(static_cast<double>(end) - shift), side.out);
}

int64_t InterpolateCall::end_of(const Resized& side, int64_t boundary, Variant by) const {
  if (by == kInverse) return end_by_inverse(side, boundary);
  if (boundary <= 0) return 0;
  const int64_t last = by == kUnrounded ? last_end(side) : side.out;
  if (boundary >= side.in) return last;        // indices are clipped there
  return first_of(last, [&](int64_t output) {  // the coordinate rises with the output pixel
    return forward_coordinate(side, output, by) >= static_cast<double>(boundary);
  });
}

std::optional<int64_t> InterpolateCall::nearest_pixel(const Resized& side, int64_t output, Variant by) const {
  if (output >= end_of(side, side.in, by)) return std::nullopt;
  if (by != kInverse) return within(std::floor(forward_coordinate(side, output, by)), side.in - 1);
  return first_of(side.in, [&](int64_t pixel) { return end_by_inverse(side, pixel + 1) > output; });
}

ResizeTaps InterpolateCall::nearest_taps(const Resized& side, int64_t output) const {
  ResizeTaps taps;
  for (const Variant by : kNearestVariants) {
    const auto pixel = nearest_pixel(side, output, by);
    if (!pixel || std::ranges::find(taps, *pixel, &ResizeTap::pixel) != taps.end()) continue;
    // Element by element nearest.cpp says which of them an output pixel is added to.
    taps.push_back({*pixel, by == kUnrounded ? 1.0 : 0.0, by == kUnrounded ? 0.0 : 1.0});
  }
  return taps;
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
  if (mode == ResizeMode::kCubic) {
    const double low = cell_of(coordinate, last), fraction = fraction_in(coordinate, low);
    // Slopes are at most 1.4, and polynomials have intermediate results up to 9.
    const double off = error > 0 ? 1.5 * error + 40 * unit : 0;
    if (error > 0 && fraction <= error) add(static_cast<int64_t>(low) - 2, 0, off);
    for (int i = -1; i <= 2; ++i) add(static_cast<int64_t>(low) + i, cubic_weight(fraction - i), off);
    if (error > 0 && fraction >= 1 - error) add(static_cast<int64_t>(low) + 3, 0, off);
    return taps;
  }
  const double at = align_corners ? coordinate : std::max(coordinate, 0.0);
  const double low = cell_of(at, last), fraction = fraction_in(at, low);
  if (error > 0 && fraction <= error) add(static_cast<int64_t>(low) - 1, 0, error);
  add(static_cast<int64_t>(low), 1 - fraction, error);
  add(static_cast<int64_t>(low) + 1, fraction, error);
  if (error > 0 && fraction >= 1 - error) add(static_cast<int64_t>(low) + 2, 0, error);
  return taps;
}

Readers InterpolateCall::readers(const Resized& side, int64_t pixel, Variant by) const {
  return {end_of(side, pixel, by), end_of(side, pixel + 1, by)};
}

}  // namespace msda::analysis
