#include "analysis/causes/crossing.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

namespace msda::analysis {
namespace {

const Landing& landing_of(const Match& match, int axis) { return axis == 0 ? match.x : match.y; }

std::string hex_of(double x, msda_dtype type) {
  if (type == MSDA_FLOAT64) return fmt::format("0x{:016x}", std::bit_cast<uint64_t>(x));
  return fmt::format("0x{:08x}", std::bit_cast<uint32_t>(static_cast<float>(x)));
}

}  // namespace

std::optional<Crossing> find_crossing(const Suspect& s) {
  if (s.id.is_pixel()) return std::nullopt;
  const auto pair = best_pair(s);
  if (!pair || pair->same_landing()) return std::nullopt;
  // The jump must be what separates the two values, not something beside it.
  const double jump = std::abs(pair->observed->element.value - pair->expected->element.value);
  if (jump < std::abs(s.observed_value - s.expected_value) / 2) return std::nullopt;
  Crossing crossing{};
  crossing.pair = *pair;
  // Where both axes differ, the one in which the cells do tells more.
  const bool x_differs = !(pair->observed->x == pair->expected->x);
  const bool x_other_cell = x_differs && pair->observed->x.low != pair->expected->x.low;
  const bool y_other_cell = !(pair->observed->y == pair->expected->y) && pair->observed->y.low != pair->expected->y.low;
  crossing.axis = x_other_cell || (x_differs && !y_other_cell) ? 0 : 1;
  crossing.other_cell = x_other_cell || y_other_cell;
  const LevelSize& level = s.call.levels[static_cast<size_t>(s.id.sample.l)];
  crossing.location = s.id.sample.location(s.call, crossing.axis);
  const auto precision = Precision::of(s.observed.arithmetic_of(s.id.gradient));
  crossing.exact =
      pixel_coordinate(s.observed.conventions, crossing.location, side_of(level, crossing.axis), precision).exact;
  crossing.boundary = nearest_boundary(crossing.exact);
  crossing.distance = crossing.exact - crossing.boundary;
  const double magnitude = std::max(std::abs(crossing.boundary), std::abs(crossing.exact));
  crossing.ulps = std::abs(crossing.distance) /
                  std::ldexp(1.0, std::ilogb(magnitude > 0 ? magnitude : 0x1p-126) + 1 - precision.bits);
  return crossing;
}

SideCoordinate side_coordinate(const Suspect& s, const Crossing& crossing, const Side& side, const Match& match) {
  const msda_dtype type = side.arithmetic_of(s.id.gradient) == MSDA_FLOAT64 ? MSDA_FLOAT64 : MSDA_FLOAT32;
  const LevelSize& level = s.call.levels[static_cast<size_t>(s.id.sample.l)];
  const auto ways = evaluations(side.conventions, crossing.location, side_of(level, crossing.axis), type);
  const Landing& landing = landing_of(match, crossing.axis);
  for (const Evaluation& way : ways) {
    if (way.landing == landing) return {way.coordinate, hex_of(way.coordinate, type), way.name, landing.low};
  }
  return {std::nullopt, "", "unknown", landing.low};
}

std::string SideCoordinate::text() const {
  return coordinate ? fmt::format("{:.9g} ({})", *coordinate, hex) : "a coordinate";
}

Evidence crossing_evidence(const Suspect& s, const Crossing& crossing) {
  const LevelSize& level = s.call.levels[static_cast<size_t>(s.id.sample.l)];
  const msda_dtype stored = s.call.sampling_locations.dtype;
  Evidence evidence = Evidence::object();
  evidence["axis"] = crossing.axis == 0 ? "x" : "y";
  evidence["level_size"] = {level.height, level.width};
  evidence["location"] = number(crossing.location);
  evidence["location_hex"] = hex_of(crossing.location, stored == MSDA_FLOAT64 ? MSDA_FLOAT64 : MSDA_FLOAT32);
  evidence["exact_coordinate"] = number(crossing.exact);
  evidence["boundary"] = crossing.boundary;
  evidence["distance_to_boundary"] = number(crossing.distance);
  evidence["distance_in_ulp"] = number(crossing.ulps);
  const auto describe = [&](const Side& side, const Match& match) {
    const auto at = side_coordinate(s, crossing, side, match);
    const auto precision = Precision::of(side.arithmetic_of(s.id.gradient));
    Evidence told = Evidence::object();
    told["side"] = side.name;
    told["dialect"] = msda_dialect_name(side.conventions.dialect);
    if (at.coordinate) {
      told["coordinate"] = number(*at.coordinate);
      told["coordinate_hex"] = at.hex;
    }
    told["evaluation"] = at.evaluation;
    told["cell"] = at.cell;
    told["clipped"] = landing_of(match, crossing.axis).clipped;
    told["coordinate_error_bound"] =
        number(pixel_coordinate(side.conventions, crossing.location, side_of(level, crossing.axis), precision).error);
    told["gradient_there"] = number(match.element.value);
    told["rounding_bound"] = number(match.bound);
    return told;
  };
  evidence["sides"] = {describe(s.observed, *crossing.pair.observed), describe(s.expected, *crossing.pair.expected)};
  return evidence;
}

}  // namespace msda::analysis
