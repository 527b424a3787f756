// Where a coordinate of grid_sample's grid lands along one axis, and which pixels it then reads.
#include <algorithm>
#include <cmath>

#include "analysis/numbers/bounded.h"
#include "analysis/operators/grid_sample/call.h"

namespace msda::analysis {
namespace {

// A coordinate that the padding has reflected and clipped.
struct Padded {
  double coordinate, sign;  // d coordinate / d unpadded: 1, -1, or 0 where clipped
};

Padded reflected(double pixel, double twice_low, double twice_high) {
  if (twice_low == twice_high) return {0, 0};
  const double low = twice_low / 2, span = (twice_high - twice_low) / 2, from_low = pixel - low;
  const double sign = from_low < 0 ? -1 : 1, distance = std::abs(from_low);
  const double flips = std::floor(distance / span), extra = std::fmod(distance, span);
  return std::fmod(flips, 2) == 0 ? Padded{extra + low, sign} : Padded{span - extra + low, -sign};
}

// Clips as PyTorch does, which counts the border itself as outside.
Padded clipped(const Padded& at, double size) {
  if (at.coordinate <= 0) return {0, 0};
  if (at.coordinate >= size - 1) return {size - 1, 0};
  return at;
}

class Padder {
 public:
  Padder(const GridSampleCall& call, int32_t size) : call_(call), size_(size) {}

  Padded reflect(double pixel) const {
    return call_.align_corners ? reflected(pixel, 0, 2 * (size_ - 1)) : reflected(pixel, -1, 2 * size_ - 1);
  }

  // Bicubic interpolation pads each tap, and not the coordinate.
  Padded pad(double pixel) const {
    const bool pads = call_.interpolation != MSDA_BICUBIC && !std::isnan(pixel);
    if (!pads || call_.padding == MSDA_GRID_ZEROS) return {pixel, 1};
    if (std::isinf(pixel) && call_.padding == MSDA_GRID_REFLECTION) return {pixel, 1};
    return clipped(call_.padding == MSDA_GRID_REFLECTION ? reflect(pixel) : Padded{pixel, 1}, size_);
  }

  // Returns the landing of a coordinate that is padded already.
  Landing land(const Padded& at, double error) const {
    Landing landing{};
    const double scale = (call_.align_corners ? size_ - 1 : size_) / 2;
    landing.clipped = at.sign == 0;
    landing.slope = at.sign * scale;
    landing.error = landing.clipped ? 0 : error;
    const bool nearest = call_.interpolation == MSDA_NEAREST;
    const double low = nearest ? std::nearbyint(at.coordinate) : std::floor(at.coordinate);
    landing.fraction = nearest ? 0 : at.coordinate - low;
    if (nearest) landing.slope = 0;
    constexpr double kFar = 5e8;                           // four times it is an int32_t
    const bool in_range = std::abs(at.coordinate) < kFar;  // false for NaN
    landing.skipped = !in_range && call_.interpolation != MSDA_BICUBIC;
    landing.low = landing.skipped || std::isnan(low) ? -2 : static_cast<int32_t>(std::clamp(low, -kFar, kFar));
    const int32_t reach = call_.interpolation == MSDA_BICUBIC ? 2 : nearest ? 0 : 1;
    const int32_t before = call_.interpolation == MSDA_BICUBIC ? 1 : 0;
    const auto size = static_cast<int32_t>(size_);
    const bool outside = landing.low + reach < 0 || landing.low - before >= size;
    // If two landings share a cell, a reflected one has the opposite slope and a clipped one none; in mode nearest only
    // the pixel counts.
    const double sign = nearest ? 1 : at.sign;
    landing.region = landing.skipped || (outside && call_.padding == MSDA_GRID_ZEROS)
                         ? Landing::kOutside
                         : 4 * landing.low + (sign < 0    ? 2
                                              : sign == 0 ? 1
                                                          : 0);
    return landing;
  }

  // Returns whether a coordinate lies so far outside that nothing depends on it, whatever its error.
  bool is_beyond(double pixel, double error) const {
    if (call_.padding == MSDA_GRID_REFLECTION) return false;
    if (call_.padding == MSDA_GRID_ZEROS) return pixel - error > size_ + 2 || pixel + error < -3;
    return call_.interpolation != MSDA_BICUBIC && (pixel - error >= size_ - 1 || pixel + error <= 0);
  }

  // Returns whether bicubic interpolation's taps, which are reflected in the kernel's type, may be rounded to other
  // pixels.
  bool reflects_taps_in(const Precision& precision, double pixel) const {
    return call_.interpolation == MSDA_BICUBIC && call_.padding == MSDA_GRID_REFLECTION &&
           8 * precision.unit * std::abs(pixel) > 1;
  }

  Landing land_exactly(double pixel, double error) const { return land(pad(pixel), error); }

  // Returns the landing if rounding moved the coordinate into an interval of half a pixel's length, in which everything
  // is smooth: [number / 2, (number + 1) / 2).
  Landing land_in(double number, double pixel, double error) const {
    const double middle = (number + 0.5) / 2;
    Padded at = pad(middle);
    Landing landing = land(at, error);
    if (at.sign != 0 && call_.interpolation != MSDA_NEAREST) {
      landing.fraction = at.coordinate + at.sign * (pixel - middle) - landing.low;
    }
    return landing;
  }

 private:
  const GridSampleCall& call_;
  double size_;
};

// Computes the coordinate as PyTorch writes it.
template <class Real>
Real unpadded(bool align_corners, Real at, Real size) {
  const Real one(1), half(0.5);
  return align_corners ? (at + one) * half * (size - one) : ((at + one) * size - one) * half;
}

Bounded rearranged(bool align_corners, const Bounded& at, const Bounded& size) {
  const Bounded one(1), half(0.5);
  if (align_corners) return at * ((size - one) * half) + (size - one) * half;
  return (at * size + (size - one)) * half;
}

}  // namespace

Coordinate GridSampleCall::coordinate(const Axis& axis, const Precision& precision) const {
  const Bounded at(axis.location, precision), size(axis.size);
  const Bounded written = unpadded(align_corners, at, size);
  double error = std::max(written.error(), rearranged(align_corners, at, size).error());
  // Reflecting takes four more roundings.
  if (padding == MSDA_GRID_REFLECTION) error += 4 * precision.unit * (std::abs(written.value()) + axis.size + error);
  return {written.value(), std::isfinite(axis.location) ? error : 0};
}

Landings GridSampleCall::landings(const Axis& axis, const Precision& precision) const {
  const auto [exact, error] = coordinate(axis, precision);
  const Padder padder(*this, axis.size);
  Landings result{padder.land_exactly(exact, error)};
  if (!std::isfinite(exact) || !(error > 0) || padder.is_beyond(exact, error)) return result;
  bool all = !padder.reflects_taps_in(precision, exact);
  const auto add = [&](const Landing& landing) {
    if (std::ranges::find(result, landing) != result.end()) return;
    if (static_cast<int>(result.size()) < kMostLandings) {
      result.push_back(landing);
    } else {
      all = false;
    }
  };
  // Where reflection turns round on a pixel's centre, a coordinate that lands right there counts as clipped.
  if (padding == MSDA_GRID_REFLECTION && align_corners && axis.size > 1) {
    const double span = axis.size - 1.0, turn = std::nearbyint(exact / span) * span;
    if (std::abs(exact - turn) <= error) add(padder.land_exactly(turn, error));
  }
  const double number = std::floor(2 * exact);
  add(padder.land_in(number, exact, error));
  const double wanted = std::ceil(2 * error) + 1, most = std::min<double>(4 * kMostLandings, wanted);
  for (double step = 1; step <= most; ++step) {
    if ((number + step) / 2 <= exact + error) add(padder.land_in(number + step, exact, error));
    if ((number + 1 - step) / 2 >= exact - error) add(padder.land_in(number - step, exact, error));
  }
  if (all && wanted <= most) return result;
  Landing anywhere = result.front();
  anywhere.error = INFINITY;
  return {anywhere};
}

std::vector<Evaluation> GridSampleCall::evaluations(const Axis& axis, msda_dtype type) const {
  std::vector<Evaluation> ways;
  const Padder padder(*this, axis.size);
  with_arithmetic(type, [&]<class Real>(Real) {
    const Real at = static_cast<Real>(axis.location), size = static_cast<Real>(axis.size), one(1), half(0.5);
    const Real written = unpadded(align_corners, at, size);
    ways.push_back({"as written", written, padder.land_exactly(written, 0)});
    const Real contracted = align_corners ? written : std::fma(at + one, size, -one) * half;
    if (contracted != written) ways.push_back({"contracted", contracted, padder.land_exactly(contracted, 0)});
  });
  return ways;
}

Taps GridSampleCall::taps(const Landing& landing, int32_t size) const {
  const int32_t low = landing.low;
  if (landing.skipped) return {};
  const auto inside = [&](int32_t pixel) { return pixel >= 0 && pixel < size ? pixel : -1; };
  const double f = landing.fraction;
  if (interpolation == MSDA_NEAREST) return {Tap{inside(low), 1, 0, 0}};
  if (interpolation == MSDA_BILINEAR) return {Tap{inside(low), 1 - f, -1, 0}, Tap{inside(low + 1), f, 1, 0}};
  const Padder padder(*this, size);
  Taps taps;
  constexpr double kA = -0.75;
  for (int32_t i = -1; i <= 2; ++i) {
    const double x = std::abs(f - i), sign = f < i ? -1 : 1;
    const double weight =
        x <= 1 ? ((kA + 2) * x - (kA + 3)) * x * x + 1 : ((kA * x - 5 * kA) * x + 8 * kA) * x - 4 * kA;
    const double slope = x <= 1 ? (3 * (kA + 2) * x - 2 * (kA + 3)) * x : (3 * kA * x - 10 * kA) * x + 8 * kA;
    const double curve = x <= 1 ? 6 * (kA + 2) * x - 2 * (kA + 3) : 6 * kA * x - 10 * kA;
    int32_t pixel = low + i;
    if (padding == MSDA_GRID_BORDER) pixel = std::clamp(pixel, 0, size - 1);
    if (padding == MSDA_GRID_REFLECTION) pixel = static_cast<int32_t>(clipped(padder.reflect(pixel), size).coordinate);
    taps.push_back({inside(pixel), weight, sign * slope, curve});
  }
  return taps;
}

}  // namespace msda::analysis
