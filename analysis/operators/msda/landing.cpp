#include "analysis/operators/msda/landing.h"

#include <algorithm>
#include <cmath>

#include "analysis/numbers/bounded.h"
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

Coordinate pixel_coordinate(const Conventions& conventions, double location, int32_t size, const Precision& precision) {
  const Bounded at(location, precision), side(size);
  const Bounded pixel = kernels::pixel_coordinate(conventions.dialect, conventions.align_corners, at, side);
  const double error = std::max(pixel.error(), rearranged_coordinate(conventions, at, side).error());
  return {pixel.value(), std::isfinite(location) ? error : 0};
}

Landings landings(const Conventions& conventions, double location, int32_t size, const Precision& precision) {
  const auto [exact, error] = pixel_coordinate(conventions, location, size, precision);
  Landings result{land(conventions, exact, error, size)};
  if (!std::isfinite(exact) || !(error > 0)) return result;
  const auto add = [&](const Landing& landing) {
    if (std::ranges::find(result, landing) == result.end()) result.push_back(landing);
  };
  const double floor = std::floor(exact);
  add(land_in_cell(conventions, exact, error, size,
                   floor));  // a coordinate on a border may be clipped or skipped, or not
  for (int step = 1; step <= kMostLandings; ++step) {
    // Boundaries are integers: the one above `exact` is floor + 1, the one below (or at) it is floor.
    const double above = floor + step, below = floor + 1 - step;
    if (above <= exact + error) add(land_in_cell(conventions, exact, error, size, above));
    if (below >= exact - error) add(land_in_cell(conventions, exact, error, size, below - 1));
    if (static_cast<int>(result.size()) >= kMostLandings) break;
  }
  return result;
}

std::vector<Evaluation> evaluations(const Conventions& conventions, double location, int32_t size,
                                    msda_dtype arithmetic) {
  std::vector<Evaluation> result;
  const auto evaluate = [&]<class Real>(Real) {
    const Real at = static_cast<Real>(location), side = static_cast<Real>(size);
    const Real written = kernels::pixel_coordinate(conventions.dialect, conventions.align_corners, at, side);
    result.push_back({"as written", written, land(conventions, written, 0, size)});
    const Real contracted = kernels::contracted_coordinate(conventions.dialect, conventions.align_corners, at, side);
    if (contracted != written) result.push_back({"contracted", contracted, land(conventions, contracted, 0, size)});
  };
  if (arithmetic == MSDA_FLOAT64) {
    evaluate(double{});
  } else {
    evaluate(float{});
  }
  return result;
}

}  // namespace msda::analysis
