// cell_boundary: the two sides land in different cells, and the coordinate lies within its rounding error of the
// boundary. The gradient with respect to the location jumps there, so one of them has the neighbouring cell's gradient.
//
// The landing is read off the values: a side landed in the cell whose gradient, within rounding, it returned. The
// evidence also shows what the dialect's arithmetic gives in float32.
#include <fmt/format.h>

#include <cmath>
#include <tuple>

#include "analysis/causes/crossing.h"

namespace msda::analysis {
namespace {

// Returns the same where what is rounded is no coordinate, such as a length that makes a number of points.
std::optional<Diagnosis> jump_without_cells(const Suspect& s) {
  const auto pair = best_pair(s);
  if (!pair || pair->same_landing()) return std::nullopt;
  const auto observed = way_of(s, s.observed, *pair->observed), expected = way_of(s, s.expected, *pair->expected);
  if (!observed || !expected || observed->stops || expected->stops) return std::nullopt;
  const double from = pair->observed->element.value, to = pair->expected->element.value;
  if (std::abs(from - to) < std::abs(s.observed_value - s.expected_value) / 2) return std::nullopt;
  Diagnosis diagnosis{Cause::kCellBoundary, rounding_fault(s)};
  if (!s.wants_reasons) return diagnosis;
  Evidence sides = Evidence::array();
  for (const auto& [side, way, match] :
       {std::tuple(&s.observed, &*observed, pair->observed), std::tuple(&s.expected, &*expected, pair->expected)}) {
    sides.push_back({{"side", side->name},
                     {"evaluation", way->name},
                     {"description", way->description},
                     {"gradient_there", number(match->element.value)},
                     {"rounding_bound", number(match->bound)}});
  }
  diagnosis.evidence["sides"] = sides;
  const auto names = arithmetic_names(s);
  diagnosis.why = fmt::format("{} in {} arithmetic ({}); {} in {} ({}): the gradient jumps from {:.9g} to {:.9g}",
                              observed->description, names.observed, observed->name, expected->description,
                              names.expected, expected->name, from, to);
  return diagnosis;
}

}  // namespace

std::optional<Diagnosis> test_cell_boundary(const Suspect& s) {
  if (auto jump = jump_without_cells(s)) return jump;
  const auto crossing = find_crossing(s);
  // Between sides of one dialect a clip that only one of them reached is rounding too, not a choice of subgradient.
  const auto same_dialect = [&] {
    return s.observed.version_of(s.call).arithmetic_name() == s.expected.version_of(s.call).arithmetic_name();
  };
  if (!crossing || (!crossing->other_cell && !same_dialect())) return std::nullopt;
  if (is_counted_as_beyond(s, *crossing)) return std::nullopt;
  Diagnosis diagnosis{Cause::kCellBoundary, rounding_fault(s)};
  if (!s.wants_reasons) return diagnosis;
  diagnosis.evidence = crossing_evidence(s, *crossing);
  const auto observed = side_coordinate(s, *crossing, s.observed, *crossing->pair.observed);
  const auto expected = side_coordinate(s, *crossing, s.expected, *crossing->pair.expected);
  const auto cell = [&](const SideCoordinate& at, const Match& match) {
    if (match.place[crossing->axis].skipped) return std::string("outside, skipped");
    return fmt::format("cell {}", at.cell);
  };
  const auto names = arithmetic_names(s);
  diagnosis.why = fmt::format(
      "{} = {} in {} arithmetic, {}; {} in {}, {}; exact {:.17g}, {:.3g} ULP from the boundary {:g}, "
      "where the gradient jumps from {:.9g} to {:.9g}",
      axis_name(crossing->axis), observed.text(), names.observed, cell(observed, *crossing->pair.observed),
      expected.text(), names.expected, cell(expected, *crossing->pair.expected), crossing->exact, crossing->ulps,
      crossing->boundary, crossing->pair.observed->element.value, crossing->pair.expected->element.value);
  return diagnosis;
}

}  // namespace msda::analysis
