// reduced_precision: a side rounded operands, products, sums or results to a type of fewer bits than the tensors have.
// find_narrowing.h decides that for the whole gradient; here an element's value must fit it, and does not fit
// the arithmetic of the tensors' type, or much worse.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "analysis/causes/causes.h"

namespace msda::analysis {
namespace {

// Without repetition, in order.
std::vector<std::string> types_of(const std::vector<Narrow>& narrowings) {
  std::vector<std::string> types;
  for (const Narrow narrow : narrowings) {
    if (std::ranges::find(types, type_name(narrow)) == types.end()) types.emplace_back(type_name(narrow));
  }
  return types;
}

std::string type_text(const std::string& type) { return type == "tf32" ? "TF32" : type; }

std::string type_text(const std::vector<std::string>& types) {
  std::vector<std::string> texts;
  for (const std::string& type : types) texts.push_back(type_text(type));
  const std::string text = fmt::format("{}", fmt::join(texts, " or "));
  return types.size() == 1 ? text : text + " (none of these numbers distinguishes them)";
}

// Returns the rounding of all narrowings that fit alike; they may differ in how they round numbers that lie halfway.
const char* rounding_of(const FoundNarrowing& narrowing) {
  const auto same = [&](Narrow narrow) {
    return rounding_name(narrow) == std::string(rounding_name(narrowing.narrow));
  };
  return std::ranges::all_of(narrowing.alike, same) ? rounding_name(narrowing.narrow) : "to nearest";
}

std::vector<std::string> names_of(const Call& call, Steps steps) {
  std::vector<std::string> names;
  for (const Step step : kSteps) {
    if ((steps & step) != 0) names.emplace_back(call.name_of(step));
  }
  return names;
}

// "with grad_output and value rounded to TF32"
std::string words_of(const Call& call, const FoundNarrowing& narrowing) {
  const auto types = type_text(types_of(narrowing.alike));
  return fmt::format("with {} {} {}", fmt::join(names_of(call, narrowing.steps), " and "),
                     rounding_name(narrowing.narrow) == std::string("truncated") ? "truncated to" : "rounded to",
                     types);
}

const Match& closest(const Explanation& explanation) { return explanation.candidates[explanation.matches.front()]; }

// Explains the value in the arithmetic of the tensors' type.
Explanation plainly(const Suspect& s, const Side& side, double value) {
  return explain(s.call, side, s.id, value, s.cache);
}

void describe_narrowing(const Suspect& s, const Side& side, const Explanation& reduced, Diagnosis& diagnosis) {
  const FoundNarrowing& narrowing = *side.narrowing_of(s.id.gradient);
  const Match &fit = closest(reduced), plain = plainly(s, side, reduced.value).exact();
  const char* own = msda_dtype_name(side.arithmetic_of(s.id.gradient));
  Evidence& e = diagnosis.evidence;
  e["side"] = side.name;
  e["type"] = type_name(narrowing.narrow);
  e["types"] = types_of(narrowing.alike);
  e["rounding"] = rounding_of(narrowing);
  e["rounded"] = names_of(s.call, narrowing.steps);
  e["reduced_value"] = number(fit.element.value);
  e["reduced_error"] = number(reduced.value - fit.element.value);
  e["reduced_bound"] = number(fit.bound);
  e["error"] = number(reduced.value - plain.element.value);
  e["rounding_bound"] = number(plain.bound);
  e["elements_tried"] = narrowing.tried;
  e["elements_fitting"] = narrowing.fitting;
  e["chance_bits"] = std::floor(narrowing.chance_bits);
  const char* alone = plain.residual <= plain.bound ? ", so that this element alone would not show it" : "";
  diagnosis.why = fmt::format(
      "{} returned {:.9g}: {} that is {:.9g}, {:.3g} off where {:.3g} is allowed; in {} it is {:.9g}, {:.3g} off where "
      "rounding explains {:.3g} at most{}. {} of {} elements tried that {} does not explain fit this",
      side.name, reduced.value, words_of(s.call, narrowing), fit.element.value, fit.residual, fit.bound, own,
      plain.element.value, plain.residual, plain.bound, alone, narrowing.fitting, narrowing.tried, own);
}

}  // namespace

std::optional<Diagnosis> test_reduced_precision(const Suspect& s) {
  if (!s.reduced() || !s.of_observed.explained() || !s.of_expected.explained()) return std::nullopt;
  // If both sides reduce, blames the one that misses float64.
  const bool expected_alone =
      !s.of_observed.reduced || (s.of_expected.reduced && s.observed_holds && !s.expected_holds);
  Diagnosis diagnosis{Cause::kReducedPrecision, expected_alone ? AtFault::kReference : AtFault::kObserved};
  if (!s.wants_reasons) return diagnosis;
  if (expected_alone) {
    describe_narrowing(s, s.expected, s.of_expected, diagnosis);
  } else {
    describe_narrowing(s, s.observed, s.of_observed, diagnosis);
  }
  return diagnosis;
}

}  // namespace msda::analysis
