// uninitialized_output: the output buffer did not hold zeros when the kernel started, and the kernel added to what was
// there, or never wrote the element.
#include <fmt/format.h>

#include "analysis/causes/causes.h"

namespace msda::analysis {

std::optional<Diagnosis> test_uninitialized_output(const Suspect& s) {
  if (!s.before || *s.before == 0 || s.of_observed.explained()) return std::nullopt;
  const double before = *s.before;
  Diagnosis diagnosis{Cause::kUninitializedOutput, AtFault::kObserved};
  if (s.tells) diagnosis.evidence["before"] = number(before);
  if (s.observed_value == before) {
    if (!s.tells) return diagnosis;
    diagnosis.evidence["kind"] = "unwritten";
    diagnosis.why = fmt::format(
        "the buffer held {:.9g} before the kernel ran and holds it still: the element was never written", before);
    return diagnosis;
  }
  // One more rounding than the sum alone: that of adding to `before`, in the arithmetic and in the tensor's type.
  const Precision arithmetic = Precision::of(s.observed.arithmetic_of(s.id.gradient));
  const double added = s.observed_value - before;
  const double slack = arithmetic.unit * static_cast<double>(s.of_observed.exact().element.terms + 1) *
                           (std::abs(before) + std::abs(s.observed_value)) +
                       storage_error(s.observed, s.id.gradient, s.observed_value);
  for (const Match& match : s.of_observed.candidates) {
    if (std::abs(added - match.element.value) > match.bound + slack) continue;
    if (!s.tells) return diagnosis;
    diagnosis.evidence["kind"] = "added";
    diagnosis.evidence["added"] = number(added);
    diagnosis.why = fmt::format(
        "the buffer held {:.9g} before the kernel ran, and what the kernel added to it, {:.9g}, is the "
        "gradient: zero the buffer before the launch",
        before, added);
    return diagnosis;
  }
  return std::nullopt;
}

}  // namespace msda::analysis
