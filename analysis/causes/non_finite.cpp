// non_finite: an input that the element depends on, a stage on the way to it, or the result itself is NaN or infinite.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "analysis/causes/crossing.h"

namespace msda::analysis {
namespace {

struct FirstNonFinite {
  std::string where;  // "inputs/value", "stages/sampled_value", "outputs/grad_value"
  Index index;        // of the input's element; empty for a stage
  double value = 0;
  bool is_input = false;
  bool is_stage = false;
};

// Looks for inputs that are not finite among those that the element depends on: those of the cell in which its sample
// lies, and for a side that is not finite those of all cells in which rounding may land it. For a sum over samples it
// takes those of both sides, which may skip different samples of weight 0.
std::optional<FirstNonFinite> check_inputs(const Suspect& s) {
  std::optional<FirstNonFinite> first;
  const auto check = [&](const Side& side, const Match& match) {
    const auto precision = Precision::of(side.arithmetic_of(s.id.gradient));
    return side.version_of(s.call).visit_inputs(
        s.id, match.place, precision, s.cache, [&](const char* name, const Tensor& tensor, int64_t flat) {
          const double value = tensor.at(flat);
          if (std::isfinite(value)) return false;
          first = {fmt::format("inputs/{}", name), tensor.index_of(flat), value, true};
          return true;
        });
  };
  if (check(s.observed, s.of_observed.exact())) return first;
  for (const auto& [side, explanation] :
       {std::pair(&s.observed, &s.of_observed), std::pair(&s.expected, &s.of_expected)}) {
    if (!s.id.gradient.scattered() && std::isfinite(explanation->value)) continue;
    for (const Match& match : explanation->candidates) {
      if (check(*side, match)) return first;
    }
  }
  return std::nullopt;
}

// Stages in the recorded precision.
std::optional<FirstNonFinite> check_stages(const Suspect& s) {
  std::optional<FirstNonFinite> first;
  const auto precision = Precision::of(s.observed.arithmetic_of(s.id.gradient));
  s.observed.version_of(s.call).visit_stages(
      s.id, precision, s.cache, [&](const char* stage, const std::vector<double>& numbers) {
        const auto found = std::ranges::find_if(numbers, [](double x) { return !std::isfinite(x); });
        if (found == numbers.end()) return false;
        first = {fmt::format("stages/{}", stage), {}, *found, false, true};
        return true;
      });
  return first;
}

// Returns whether a side's value that is not finite is what its type makes of the gradient, or of one that rounding
// leads to.
bool overflows(const Suspect& s, const Side& side, const Explanation& explanation) {
  return explanation.explained() || (!std::isfinite(explanation.value) &&
                                     explanation.value == rounded_to(s.float64, side.of(s.id.gradient).dtype));
}

// Returns whether a side hides that exact arithmetic is not finite: by a number, or by an infinity of the other sign.
// NaN is no fault where weights are multiplied: 0 * infinity is NaN for a kernel that does so for a weight of zero, and
// nothing for one that skips it or that rounding lands in the neighbouring cell.
bool hides(const Suspect& s, const Explanation& explanation) {
  if (explanation.explained()) return false;
  if (std::isnan(explanation.value)) return !std::isnan(s.float64) && s.call.axes(s.id).empty();
  return std::isfinite(explanation.value) || explanation.value == -s.float64;
}

AtFault fault_of(const Suspect& s, const FirstNonFinite& first) {
  const bool observed = !std::isfinite(s.observed_value);
  const bool truth = !std::isfinite(s.float64);
  if (first.is_input || truth) {
    if (truth && hides(s, s.of_observed)) return AtFault::kObserved;
    if (truth && hides(s, s.of_expected)) return AtFault::kReference;
    return AtFault::kNone;
  }
  if (!observed) {
    if (!overflows(s, s.expected, s.of_expected)) return AtFault::kReference;
    return s.of_observed.explained() ? AtFault::kTolerance : AtFault::kObserved;
  }
  if (overflows(s, s.observed, s.of_observed)) return AtFault::kTolerance;
  // In stages of the recorded precision any kernel may overflow; what it makes up of finite stages is its own mistake.
  return first.is_stage && !s.any_holds ? AtFault::kTolerance : AtFault::kObserved;
}

}  // namespace

std::optional<Diagnosis> test_non_finite(const Suspect& s) {
  // An input that is not finite, and that neither side nor exact arithmetic reads, excuses nobody: the dialects skip a
  // sample whose location is NaN.
  if (std::isfinite(s.observed_value) && std::isfinite(s.expected_value) && std::isfinite(s.float64)) {
    return std::nullopt;
  }
  const Tensor& stored = s.observed.of(s.id.gradient);
  std::optional<FirstNonFinite> first = check_inputs(s);
  if (!first && find_crossing(s)) return std::nullopt;  // the gradient of the neighbouring cell does not fit the type
  if (!first && s.before && !std::isfinite(*s.before)) {
    first = FirstNonFinite{fmt::format("outputs_before/{}", name_of(s.id.gradient)), s.id.index, *s.before, false};
  }
  if (!first) first = check_stages(s);
  bool overflow = false;
  if (!first && !std::isfinite(rounded_to(s.float64, stored.dtype)) && std::isfinite(s.float64)) {
    overflow = true;
    first = FirstNonFinite{fmt::format("outputs/{}", name_of(s.id.gradient)), s.id.index,
                           rounded_to(s.float64, stored.dtype), false};
  }
  if (!first) {
    const bool observed = !std::isfinite(s.observed_value);
    first = FirstNonFinite{
        fmt::format("{}/{}", observed ? "outputs" : "results/" + s.expected.name, name_of(s.id.gradient)), s.id.index,
        observed ? s.observed_value : s.expected_value, false};
  }
  Diagnosis diagnosis{Cause::kNonFinite, fault_of(s, *first)};
  if (!s.wants_reasons) return diagnosis;
  diagnosis.evidence["first"] = first->where;
  if (!first->index.empty()) diagnosis.evidence["first_index"] = first->index;
  diagnosis.evidence["first_value"] = number(first->value);
  diagnosis.evidence["largest_of_type"] = Precision::of(stored.dtype).largest;
  const std::string at = first->index.empty() ? "" : fmt::format("[{}]", fmt::join(first->index, ","));
  const bool observed_is_finite = std::isfinite(s.observed_value);
  const Explanation& explanation = observed_is_finite ? s.of_expected : s.of_observed;
  if (explanation.explained()) {
    const Match& match = explanation.candidates[explanation.matches.front()];
    diagnosis.evidence["gradient"] = number(match.element.value);
    diagnosis.evidence["rounding_bound"] = number(match.bound);
    if (const double most = match.element.partials.largest(); most > 0)
      diagnosis.evidence["largest_partial"] = number(most);
  }
  if (overflow) {
    diagnosis.why = fmt::format(
        "{:.9g} does not fit into {}, whose largest number is {:g}: scale the loss, or keep this gradient "
        "in a wider type",
        s.float64, msda_dtype_name(stored.dtype), Precision::of(stored.dtype).largest);
  } else if (explanation.explained() && !first->is_input) {
    const Match& match = explanation.candidates[explanation.matches.front()];
    const double largest = Precision::of(stored.dtype).largest;
    const bool within = std::abs(match.element.value) + match.bound < largest;
    diagnosis.why =
        within ? fmt::format(
                     "{:.9g} is left of terms whose partial sums may reach {:.3g}, beyond {:g}, the "
                     "largest number of {}",
                     match.element.value, match.element.partials.largest(), largest, msda_dtype_name(stored.dtype))
               : fmt::format("{:.9g} may grow by {:.3g} through rounding, beyond {:g}, the largest number of {}",
                             match.element.value, match.bound, largest, msda_dtype_name(stored.dtype));
  } else {
    diagnosis.why =
        fmt::format("the first number on the way here that is not finite is {}{} = {}", first->where, at, first->value);
    if (first->where.starts_with("outputs/")) {
      diagnosis.why += ": the inputs, the stages and float64 are finite, the kernel produced it";
    }
  }
  return diagnosis;
}

}  // namespace msda::analysis
