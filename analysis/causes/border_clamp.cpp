// border_clamp: the coordinate lies on the clamp border within its rounding error, and the two dialects choose
// different subgradients there: one counts the border as inside, with the slope of the first cell, the other as
// outside, with 0.
#include <fmt/format.h>

#include "analysis/causes/crossing.h"

namespace msda::analysis {

std::optional<Diagnosis> test_border_clamp(const Suspect& s) {
  const auto crossing = find_crossing(s);
  if (!crossing) return std::nullopt;
  Diagnosis diagnosis{Cause::kBorderClamp, AtFault::kConvention};
  if (!s.wants_reasons) return diagnosis;
  diagnosis.evidence = crossing_evidence(s, *crossing);
  const auto observed = side_coordinate(s, *crossing, s.observed, *crossing->pair.observed);
  const auto expected = side_coordinate(s, *crossing, s.expected, *crossing->pair.expected);
  const auto names = arithmetic_names(s);
  diagnosis.why = fmt::format(
      "{} = {} in {} arithmetic, {} in {}, exact {:.17g}: on the clamp border {:g}, where {} takes "
      "the "
      "subgradient {:.9g} and {} takes {:.9g}; both are defensible",
      axis_name(crossing->axis), observed.text(), names.observed, expected.text(), names.expected, crossing->exact,
      crossing->boundary, names.observed, crossing->pair.observed->element.value, names.expected,
      crossing->pair.expected->element.value);
  return diagnosis;
}

}  // namespace msda::analysis
