// Where a location of deformable attention lands along one axis of a level, by dialect, and what it then reads.
#include <algorithm>
#include <cmath>

#include "analysis/numbers/bounded.h"
#include "analysis/numbers/rounded_real.h"
#include "analysis/operators/msda/call.h"
#include "kernels/sample.h"

namespace msda::analysis {
namespace {

// Returns the landing of a coordinate as if it were exact.
Landing land(const Conventions& conventions, double pixel, double error, int32_t size) {
  const double last = size - 1;
  Landing landing{};
  landing.slope = conventions.align_corners ? last : size;
  landing.error = error;
  if (conventions.dialect == MSDA_GRID_SAMPLE && conventions.padding == MSDA_PADDING_BORDER &&
      (pixel <= 0 || pixel >= last)) {
    const double border = pixel <= 0 ? 0 : last;
    landing.error =
        std::abs(pixel - border) < 1 ? error : 0;  // a coordinate that is clipped from farther away is exact
    pixel = border;
    landing.clipped = true;
    landing.slope = 0;
  }
  if (conventions.dialect == MSDA_DEFORMABLE_DETR) landing.skipped = !(pixel > -1 && pixel < size);
  if (conventions.dialect == MSDA_GRID_SAMPLE) landing.skipped = !std::isfinite(pixel);
  const double low = std::floor(pixel);
  landing.fraction = pixel - low;
  landing.low = landing.skipped || !(low >= -1) ? -2 : low > last ? size : static_cast<int32_t>(low);
  if (kernels::corners_clamp(conventions.dialect, conventions.padding)) {
    landing.low = std::clamp(landing.low, -1, size - 1);
  }
  if (conventions.padding == MSDA_PADDING_BORDER) {
    landing.region = size == 1 ? 0 : landing.clipped && landing.low == 0 ? -1 : landing.low;
  } else {
    landing.region = landing.low < -1 || landing.low >= size ? Landing::kOutside : landing.low;
  }
  return landing;
}

// Returns the landing of the same coordinate if rounding moved it into the cell at `low`.
Landing land_in_cell(const Conventions& conventions, double pixel, double error, int32_t size, double low) {
  // Lands the middle of the cell, which is unambiguous, then corrects the fraction.
  Landing landing = land(conventions, low + 0.5, error, size);
  if (!landing.clipped) landing.fraction = pixel - low;
  return landing;
}

// Other ways in which builds and libraries evaluate the same formula; the bound must cover all of them.
Bounded rearranged_coordinate(const Conventions& conventions, const Bounded& location, const Bounded& size) {
  const Bounded one(1), half(0.5);
  if (conventions.dialect != MSDA_GRID_SAMPLE) {
    return conventions.align_corners ? location * (size - one) : location * size - half;  // no contraction
  }
  const Bounded grid = (location + location) - one, span = conventions.align_corners ? size - one : size;
  return (grid * span + (size - one)) * half;
}

}  // namespace

Coordinate MsdaCall::coordinate(const Axis& axis, const Precision& precision) const {
  const Bounded at(axis.location, precision), side(axis.size);
  const Bounded pixel = kernels::pixel_coordinate(conventions.dialect, conventions.align_corners, at, side);
  const double error = std::max(pixel.error(), rearranged_coordinate(conventions, at, side).error());
  return {pixel.value(), std::isfinite(axis.location) ? error : 0};
}

Landings MsdaCall::landings(const Axis& axis, const Precision& precision) const {
  const auto [exact, error] = coordinate(axis, precision);
  Landings result{land(conventions, exact, error, axis.size)};
  if (!std::isfinite(exact) || !(error > 0)) return result;
  const auto add_cell = [&](double low) {
    const Landing landing = land_in_cell(conventions, exact, error, axis.size, low);
    if (std::ranges::find(result, landing) == result.end()) result.push_back(landing);
  };
  const double floor = std::floor(exact);
  add_cell(floor);  // a coordinate on a border may be clipped or skipped, or not
  for (int step = 1; step <= kMostLandings; ++step) {
    // Boundaries are integers: the one above `exact` is floor + 1, the one below (or at) it is floor.
    const double above = floor + step, below = floor + 1 - step;
    const bool reaches_above = above <= exact + error, reaches_below = below >= exact - error;
    if (reaches_above) add_cell(above);
    if (reaches_below) add_cell(below - 1);
    if ((!reaches_above && !reaches_below) || static_cast<int>(result.size()) >= kMostLandings) break;
  }
  return result;
}

std::vector<Evaluation> MsdaCall::evaluations(const Axis& axis, msda_dtype type) const {
  std::vector<Evaluation> result;
  with_arithmetic(type, [&]<class Real>(Real) {
    const Real at = static_cast<Real>(axis.location), side = static_cast<Real>(axis.size);
    const Real written = kernels::pixel_coordinate(conventions.dialect, conventions.align_corners, at, side);
    result.push_back({"as written", written, land(conventions, written, 0, axis.size)});
    const Real contracted = kernels::contracted_coordinate(conventions.dialect, conventions.align_corners, at, side);
    if (contracted != written) {
      result.push_back({"contracted", contracted, land(conventions, contracted, 0, axis.size)});
    }
  });
  return result;
}

Taps MsdaCall::taps(const Landing& landing, int32_t size) const {
  if (landing.skipped) return {};
  const auto pixel = [&](int upper) {
    return kernels::corner_pixel(conventions.dialect, conventions.padding, landing.low, upper, size);
  };
  return {Tap{pixel(0), 1 - landing.fraction, -1}, Tap{pixel(1), landing.fraction, 1}};
}

Taps MsdaCall::computed_taps(const Axis& axis, msda_dtype type, int variant) const {
  const auto& [dialect, padding, aligned] = conventions;
  Taps taps;
  with_real(type, [&]<class Real>(Real) {
    const Real location = static_cast<Real>(axis.location), size = static_cast<Real>(axis.size), one(1);
    Real pixel;
    if (variant == kContracted || variant == kFusedDifference) {
      pixel = kernels::contracted_coordinate(dialect, aligned, location, size);
    } else if (variant == kWritten && dialect == MSDA_DEFORMABLE_DETR) {
      // Its formula is fused by definition; a compiler that does not contract rounds the product.
      pixel = location * size - Real(0.5);
    } else {
      pixel = kernels::pixel_coordinate(dialect, aligned, location, size);
    }
    const auto at = kernels::locate_pixel(dialect, padding, aligned, pixel, axis.size);
    if (!at.sampled) return;
    const Real fraction = variant == kFusedDifference ? fma(location, size - one, -floor(pixel)) : at.fraction;
    const auto lower = kernels::corner_pixel(dialect, padding, at.low, 0, axis.size);
    const auto upper = kernels::corner_pixel(dialect, padding, at.low, 1, axis.size);
    taps = {Tap{lower, double(one - fraction)}, Tap{upper, double(fraction)}};
  });
  return taps;
}

}  // namespace msda::analysis
