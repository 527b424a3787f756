#include "analysis/causes/crossing.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "analysis/model/dialects.h"

namespace msda::analysis {
namespace {

std::string hex_of(double x, msda_dtype type) {
  if (type == MSDA_FLOAT64) return fmt::format("0x{:016x}", std::bit_cast<uint64_t>(x));
  return fmt::format("0x{:08x}", std::bit_cast<uint32_t>(static_cast<float>(x)));
}

// Returns whether rounding of the coordinate in the side's own arithmetic brings the location as it was recorded to
// where the match has it. A narrowing may bring it farther.
bool is_within_reach(const Suspect& s, const Side& side, const Match& match) {
  if (side.narrowing_of(s.id.gradient) == nullptr) return true;
  const auto precision = Precision::of(side.arithmetic_of(s.id.gradient));
  const Axes axes = s.call.axes(s.id);
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    const auto all = side.version_of(s.call).landings(axes[axis], precision);
    if (std::ranges::find(all, match.place[axis]) == all.end()) return false;
  }
  return true;
}

// Returns the gradient at the match's landing in exact arithmetic, without the narrowing that the match may have.
double gradient_there(const Suspect& s, const Side& side, const Explanation& of_side, const Match& match) {
  if (!of_side.reduced) return match.element.value;
  const Explanation plain = explain(s.call, side, s.id, of_side.value, s.cache);
  const auto same_place = [&](const Match& candidate) { return std::ranges::equal(candidate.place, match.place); };
  const auto found = std::ranges::find_if(plain.candidates, same_place);
  return found != plain.candidates.end() ? found->element.value : match.element.value;
}

}  // namespace

std::optional<Crossing> find_crossing(const Suspect& s) {
  const auto pair = best_pair(s);
  if (!pair || pair->same_landing()) return std::nullopt;
  if (!is_within_reach(s, s.observed, *pair->observed) || !is_within_reach(s, s.expected, *pair->expected)) {
    return std::nullopt;
  }
  // The jump must be what separates the two values, not something beside it, such as fewer bits.
  const double jump = std::abs(gradient_there(s, s.observed, s.of_observed, *pair->observed) -
                               gradient_there(s, s.expected, s.of_expected, *pair->expected));
  const double difference = std::abs(s.observed_value - s.expected_value);
  if (std::isfinite(difference) && jump < difference / 2) return std::nullopt;
  Crossing crossing{};
  crossing.pair = *pair;
  // If several axes differ, prefers one in which the cells differ.
  const Place &observed = pair->observed->place, &expected = pair->expected->place;
  const Axes axes = s.call.axes(s.id);
  if (std::ranges::any_of(axes, [](const Axis& axis) { return axis.size == 0; })) return std::nullopt;  // no cells
  std::optional<size_t> differs;
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    if (observed[axis] == expected[axis]) continue;
    const bool other_cell = observed[axis].low != expected[axis].low;
    if (!differs || (other_cell && !crossing.other_cell)) differs = axis;
    crossing.other_cell = crossing.other_cell || other_cell;
  }
  crossing.axis = *differs;
  crossing.at = axes[*differs];
  const auto precision = Precision::of(s.observed.arithmetic_of(s.id.gradient));
  crossing.exact = s.observed.version_of(s.call).coordinate(crossing.at, precision).exact;
  crossing.boundary = nearest_boundary(crossing.exact);
  crossing.distance = crossing.exact - crossing.boundary;
  const double magnitude = std::max(std::abs(crossing.boundary), std::abs(crossing.exact));
  const bool has_unit = magnitude > 0 && std::isfinite(magnitude);
  crossing.ulps =
      std::abs(crossing.distance) / std::ldexp(1.0, std::ilogb(has_unit ? magnitude : 0x1p-126) + 1 - precision.bits);
  return crossing;
}

bool is_counted_as_beyond(const Suspect& s, const Crossing& crossing) {
  if (crossing.distance != 0) return false;
  const auto counts = [&](const Side& side, const Match& match) {
    if (match.element.value != 0 || match.bound != 0) return false;
    const auto ways = side.version_of(s.call).evaluations(crossing.at, side.arithmetic_of(s.id.gradient));
    return !ways.empty() && std::ranges::all_of(ways, [&](const Evaluation& way) {
      return way.coordinate == crossing.boundary && way.landing != match.place[crossing.axis];
    });
  };
  return counts(s.observed, *crossing.pair.observed) || counts(s.expected, *crossing.pair.expected);
}

SideCoordinate side_coordinate(const Suspect& s, const Crossing& crossing, const Side& side, const Match& match) {
  const msda_dtype type = side.arithmetic_of(s.id.gradient) == MSDA_FLOAT64 ? MSDA_FLOAT64 : MSDA_FLOAT32;
  const auto ways = side.version_of(s.call).evaluations(crossing.at, type);
  const Landing& landing = match.place[crossing.axis];
  for (const Evaluation& way : ways) {
    if (way.landing != landing) continue;
    if (!way.description.empty()) return {std::nullopt, "", way.name, landing.low, way.description};
    return {way.coordinate, hex_of(way.coordinate, type), way.name, landing.low, ""};
  }
  return {std::nullopt, "", "unknown", landing.low, ""};
}

std::string SideCoordinate::text() const {
  if (!description.empty()) return description;
  return coordinate ? fmt::format("{:.9g} ({})", *coordinate, hex) : "an unknown coordinate";
}

Evidence crossing_evidence(const Suspect& s, const Crossing& crossing) {
  Evidence evidence = Evidence::object();
  evidence["axis"] = std::string(1, axis_name(crossing.axis));
  Evidence sizes = Evidence::array();
  for (const Axis& axis : s.call.axes(s.id)) sizes.insert(sizes.begin(), axis.size);
  evidence["level_size"] = sizes;
  evidence["location"] = number(crossing.at.location);
  evidence["location_hex"] =
      hex_of(crossing.at.location, crossing.at.stored == MSDA_FLOAT64 ? MSDA_FLOAT64 : MSDA_FLOAT32);
  evidence["exact_coordinate"] = number(crossing.exact);
  evidence["boundary"] = crossing.boundary;
  evidence["distance_to_boundary"] = number(crossing.distance);
  evidence["distance_in_ulp"] = number(crossing.ulps);
  const auto describe = [&](const Side& side, const Match& match) {
    const auto at = side_coordinate(s, crossing, side, match);
    const auto precision = Precision::of(side.arithmetic_of(s.id.gradient));
    Evidence side_evidence = Evidence::object();
    side_evidence["side"] = side.name;
    if (const Dialects* dialects = side.version_of(s.call).dialects()) side_evidence["dialect"] = dialects->dialect();
    if (at.coordinate) {
      side_evidence["coordinate"] = number(*at.coordinate);
      side_evidence["coordinate_hex"] = at.hex;
    }
    side_evidence["evaluation"] = at.evaluation;
    side_evidence["cell"] = at.cell;
    side_evidence["clipped"] = match.place[crossing.axis].clipped;
    side_evidence["coordinate_error_bound"] = number(side.version_of(s.call).coordinate(crossing.at, precision).error);
    side_evidence["gradient_there"] = number(match.element.value);
    side_evidence["rounding_bound"] = number(match.bound);
    return side_evidence;
  };
  evidence["sides"] = {describe(s.observed, *crossing.pair.observed), describe(s.expected, *crossing.pair.expected)};
  return evidence;
}

}  // namespace msda::analysis
