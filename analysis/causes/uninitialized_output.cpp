// uninitialized_output: the output buffer did not hold zeros when the kernel started, and the kernel added to what was
// there, or never wrote the element. What was there may be what an earlier launch left.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "analysis/causes/causes.h"

namespace msda::analysis {
namespace {

std::string leftover_text(const Leftover& leftover) {
  const std::string result =
      leftover.invocation ? fmt::format("what invocation {} left in {}", *leftover.invocation, leftover.tensor)
                          : fmt::format("what {} left ({} this gradient: an autotuner or a loop without a reset)",
                                        leftover.launches == 1
                                            ? "an earlier launch on the same inputs"
                                            : fmt::format("{} earlier launches on the same inputs", leftover.launches),
                                        leftover.launches == 1 ? "just" : fmt::format("{} times", leftover.launches));
  return leftover.recorded ? result : result + " (taken for the buffer's contents, which were not recorded)";
}

Evidence evidence_of(const Leftover& leftover) {
  Evidence evidence = Evidence::object();
  if (leftover.invocation) evidence["invocation"] = *leftover.invocation;
  evidence["tensor"] = leftover.tensor;
  evidence["digest"] = leftover.digest;
  evidence["launches"] = leftover.launches;
  evidence["before_recorded"] = leftover.recorded;
  return evidence;
}

// "the buffer held 0.5 before the kernel ran, what invocation 3 left in grad_value,"
std::string held(const Suspect& s) {
  std::string text = fmt::format("the buffer held {:.9g} before the kernel ran", *s.before);
  return s.leftover != nullptr ? text + ", " + leftover_text(*s.leftover) + "," : text;
}

// Returns the types in which the kernel may have added, since in 16 bits the buffer's contents hide it. The closer type
// comes first: its sums leave less to chance.
std::vector<msda_dtype> arithmetics_of(const Suspect& s) {
  const msda_dtype stored = s.observed.of(s.id.gradient).dtype, found = s.observed.arithmetic_of(s.id.gradient);
  if (!is_16_bits(stored) || s.call.arithmetic() == MSDA_FLOAT64) return {found};
  return {s.call.arithmetic(), stored};
}

// Returns how far the value may be from the buffer's contents and the gradient in the sum of the two; empty if it is
// farther.
std::optional<double> window_of_sum(const Suspect& s) {
  const double before = *s.before, added = s.observed_value - before;
  std::optional<double> window;
  // One more rounding than the sum alone: that of adding to `before`, in the arithmetic and in the tensor's type.
  const auto adds = [&](const Explanation& explanation, msda_dtype arithmetic) {
    const double slack = Precision::of(arithmetic).unit * static_cast<double>(explanation.exact().element.terms + 1) *
                             (std::abs(before) + std::abs(s.observed_value)) +
                         storage_error(s.observed, s.id.gradient, s.observed_value);
    return std::ranges::any_of(explanation.candidates, [&](const Match& match) {
      window = match.bound + slack;
      return std::abs(added - match.element.value) <= *window;
    });
  };
  for (const msda_dtype arithmetic : arithmetics_of(s)) {
    if (arithmetic == s.observed.arithmetic_of(s.id.gradient)) {
      if (adds(s.of_observed, arithmetic)) return window;
      continue;
    }
    const Explanation explanation = explain(s.call, s.observed.in(arithmetic, s.id.gradient), s.id, s.cache);
    if (!explanation.explained() && adds(explanation, arithmetic)) return window;
  }
  return std::nullopt;
}

bool is_unwritten(const Suspect& s) { return s.observed_value == *s.before; }

// Tests whether the value is what the buffer held, or the sum of that and the gradient.
std::optional<Diagnosis> diagnose_buffer(const Suspect& s) {
  const double before = *s.before, added = s.observed_value - before;
  if (!is_unwritten(s) && !window_of_sum(s)) return std::nullopt;
  Diagnosis diagnosis{Cause::kUninitializedOutput, AtFault::kObserved};
  if (!s.wants_reasons) return diagnosis;
  diagnosis.evidence["before"] = number(before);
  if (s.leftover != nullptr) diagnosis.evidence["left_by"] = evidence_of(*s.leftover);
  if (is_unwritten(s)) {
    diagnosis.evidence["kind"] = "unwritten";
    diagnosis.why = fmt::format("{} and holds it still: the element was never written", held(s));
    return diagnosis;
  }
  diagnosis.evidence["kind"] = "added";
  diagnosis.evidence["added"] = number(added);
  diagnosis.why =
      fmt::format("{}{} and what the kernel added to it, {:.9g}, is the gradient: zero the buffer before the launch",
                  held(s), s.leftover != nullptr ? "" : ",", added);
  return diagnosis;
}

}  // namespace

std::optional<Diagnosis> test_uninitialized_output(const Suspect& s) {
  if (!s.before || *s.before == 0 || s.of_observed.explained()) return std::nullopt;
  return diagnose_buffer(s);
}

std::optional<Diagnosis> test_unwritten_beside_rounding(const Suspect& s) {
  if (!s.before || *s.before == 0 || s.observed_value != *s.before) return std::nullopt;
  const auto pair = best_pair(s);
  return pair && !pair->same_landing() ? diagnose_buffer(s) : std::nullopt;
}

double chance_bits_of_buffer(const Suspect& s) {
  const msda_dtype stored = s.observed.of(s.id.gradient).dtype;
  const double window =
      is_unwritten(s) ? Precision::of(stored).unit * std::abs(*s.before) : window_of_sum(s).value_or(INFINITY);
  const double bits = std::log2(std::abs(s.observed_value - s.of_observed.exact().element.value) / window);
  return std::isfinite(bits) ? std::max(0.0, bits) : 0;
}

}  // namespace msda::analysis
