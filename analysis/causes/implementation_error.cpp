// implementation_error: no cell within the coordinate's error, with all that rounding allows, gives the value that a
// side returned. Known mistakes are then tried on the element, to say which of them would give that value.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "analysis/causes/causes.h"
#include "analysis/model/hypotheses.h"

namespace msda::analysis {
namespace {

// Returns whether 0 may be what underflow leaves of so small a value, also where subnormals are flushed, or what is
// left of sums in the tensors' own type.
bool may_round_to_0(const Suspect& s, const Side& side, double exact) {
  const msda_dtype stored = side.of(s.id.gradient).dtype;
  if (std::abs(exact) < 2 * Precision::of(stored).smallest_normal()) return true;
  return is_16_bits(stored) && explain(s.call, side.in(stored, s.id.gradient), s.id, 0, s.cache).explained();
}

std::vector<std::string> matching_mistakes(const Suspect& s, const Side& side, const Explanation& explanation) {
  const Match& exact = explanation.exact();
  const Hypotheses* hypotheses = side.version_of(s.call).hypotheses();
  auto mistakes = hypotheses == nullptr
                      ? std::vector<Mistake>{}
                      : hypotheses->mistakes(s.id, exact.place, exact.element,
                                             Precision::of(side.arithmetic_of(s.id.gradient)), s.cache);
  if (!may_round_to_0(s, side, exact.element.value)) {
    mistakes.insert(mistakes.begin(), {"it had never been computed", 0});
  }
  mistakes.insert(mistakes.begin(), {"its sign were flipped", -exact.element.value});
  constexpr size_t kMost = 4;
  std::vector<std::string> texts;
  for (const Mistake& mistake : mistakes) {
    if (texts.size() == kMost) break;
    const double bound = exact.bound + Precision::of(side.of(s.id.gradient).dtype).unit * std::abs(mistake.value);
    const bool gives_it = std::abs(explanation.value - mistake.value) <= bound;
    const bool is_other = std::abs(mistake.value - exact.element.value) > 2 * bound;
    if (gives_it && is_other && std::ranges::find(texts, mistake.text) == texts.end()) texts.push_back(mistake.text);
  }
  return texts;
}

Evidence describe(const Explanation& explanation, const Side& side) {
  const Match& exact = explanation.exact();
  Evidence evidence = Evidence::object();
  evidence["side"] = side.name;
  evidence["explained"] = explanation.explained();
  evidence["error"] = number(explanation.value - exact.element.value);
  evidence["rounding_bound"] = number(exact.of_choice);
  if (exact.element.ties.any()) evidence["samples_on_ties"] = exact.element.ties.tied.size();
  return evidence;
}

}  // namespace

Diagnosis implementation_error(const Suspect& s) {
  // If rounding explains each side, but one only with a narrowing and in other cells, that side is wrong.
  const auto is_exact = [](const Explanation& explanation) {
    return std::ranges::find(explanation.matches, 0u) != explanation.matches.end();
  };
  const bool observed_wrong = !s.of_observed.explained() ||
                              (s.of_expected.explained() && !(is_exact(s.of_observed) && !is_exact(s.of_expected)));
  const Side& side = observed_wrong ? s.observed : s.expected;
  const Explanation& explanation = observed_wrong ? s.of_observed : s.of_expected;
  Diagnosis diagnosis{Cause::kImplementationError, observed_wrong ? AtFault::kObserved : AtFault::kReference};
  if (!s.wants_reasons) return diagnosis;
  const Match& exact = explanation.exact();
  diagnosis.evidence["sides"] = {describe(s.of_observed, s.observed), describe(s.of_expected, s.expected)};
  const auto mistakes = matching_mistakes(s, side, explanation);
  diagnosis.evidence["as_if"] = mistakes;
  diagnosis.why = fmt::format(
      "{} returned {:.9g}, exact arithmetic gives {:.9g}; that is {:.3g} off, where rounding of any kind explains "
      "{:.3g} at most",
      side.name, explanation.value, exact.element.value, std::abs(explanation.value - exact.element.value),
      exact.of_choice);
  if (const size_t tied = exact.element.ties.tied.size(); tied > 0) {
    diagnosis.why += fmt::format(", whichever samples on ties are added ({} here)", tied);
  }
  if (!mistakes.empty()) diagnosis.why += fmt::format("; it is as if {}", fmt::join(mistakes, ", or "));
  return diagnosis;
}

}  // namespace msda::analysis
