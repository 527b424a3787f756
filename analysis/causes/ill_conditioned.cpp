// rounding: both sides landed in the same cell and evaluated the same formula, and their difference is within what
// rounding makes of it. ill_conditioned: the same, where little is left of large terms, or the coordinate's error
// grows: the condition number says how many times.
#include <fmt/format.h>

#include <cmath>

#include "analysis/causes/causes.h"

namespace msda::analysis {

namespace {

// Returns how two sides evaluate what has no cells, if they differ.
std::string text_of_ways(const Suspect& s, const MatchPair& pair) {
  if (pair.same_landing()) return "";
  const auto observed = way_of(s, s.observed, *pair.observed), expected = way_of(s, s.expected, *pair.expected);
  if (!observed || !expected) return "";
  const auto described = [](const Evaluation& way) {
    return way.description.empty() ? "the sum is " + way.name : way.description;
  };
  return fmt::format("{}: {}; {}: {}. Besides, ", s.observed.name, described(*observed), s.expected.name,
                     described(*expected));
}

}  // namespace

std::optional<Diagnosis> test_ill_conditioned(const Suspect& s) {
  if (s.reduced()) return std::nullopt;
  const auto pair = best_pair(s);
  if (!pair) return std::nullopt;
  // A jump to the neighbouring cell that is not what separates the two adds to what rounding does.
  const double jump = std::abs(pair->observed->element.value - pair->expected->element.value);
  const double bound = pair->observed->bound + pair->expected->bound + (pair->same_landing() ? 0 : jump);
  const double difference = std::abs(s.observed_value - s.expected_value);
  const Element& element = pair->observed->element;
  const Element& worse = pair->expected->element.bound() > element.bound() ? pair->expected->element : element;
  constexpr double kWell = 2;  // conditioned: up to here no more than a bit is lost
  const bool ill = element.condition() > kWell || worse.from_coordinates > worse.from_rounding || !pair->same_landing();
  Diagnosis diagnosis{ill ? Cause::kIllConditioned : Cause::kRounding, rounding_fault(s)};
  if (!s.wants_reasons) return diagnosis;
  const double allowed = s.tolerance.atol + s.tolerance.rtol * std::abs(s.expected_value);
  Evidence& e = diagnosis.evidence;
  e["condition_number"] = number(element.condition());
  e["sum_of_magnitudes"] = number(element.cancelled);
  e["difference"] = number(difference);
  e["tolerance"] = number(allowed);
  e["rounding_bound"] = number(bound);
  e["from_coordinates"] = number(worse.from_coordinates);
  e["from_rounding"] = number(worse.from_rounding);
  e["observed_error"] = number(s.observed_value - s.float64);
  e["expected_error"] = number(s.expected_value - s.float64);
  if (!s.id.gradient.scattered()) {
    Evidence coordinates = Evidence::array();
    for (const Side* side : {&s.observed, &s.expected}) {
      const msda_dtype type = side->arithmetic_of(s.id.gradient) == MSDA_FLOAT64 ? MSDA_FLOAT64 : MSDA_FLOAT32;
      Evidence evidence = Evidence::object();
      evidence["side"] = side->name;
      const Axes axes = s.call.axes(s.id);
      for (size_t axis = 0; axis < axes.size(); ++axis) {
        const auto ways = side->version_of(s.call).evaluations(axes[axis], type);
        evidence[std::string(1, axis_name(axis))] = number(ways[0].coordinate);
      }
      coordinates.push_back(evidence);
    }
    e["coordinates"] = coordinates;
  }
  const char* parts = s.id.gradient.scattered() ? "contributions" : "channels";
  const auto sum = fmt::format("{} of total magnitude {:.6g}", parts, element.cancelled);
  const bool cancels = element.condition() > kWell;
  diagnosis.why = fmt::format(
      "{}{:.6g} is {} (condition number {:.3g}): rounding may move it by {:.3g}{}, the tolerance allows {:.3g}, the "
      "difference is {:.3g}",
      text_of_ways(s, *pair), s.float64,
      cancels ? "what is left of " + sum : "a sum of " + sum + ", of which little cancels", element.condition(), bound,
      ill ? fmt::format(" ({:.3g} of that through the coordinates)", worse.from_coordinates) : "", allowed, difference);
  return diagnosis;
}

}  // namespace msda::analysis
