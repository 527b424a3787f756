#include "analysis/causes/finding.h"

#include <cmath>

namespace msda::analysis {

const char* name_of(Cause cause) {
  constexpr const char* kNames[] = {"non_finite",        "uninitialized_output", "cell_boundary", "border_clamp",
                                    "stopped_sum",       "accumulation_order",   "rounding",      "ill_conditioned",
                                    "reduced_precision", "implementation_error"};
  return kernels::look_up(kNames, cause, "?");
}

const char* name_of(AtFault at_fault) {
  constexpr const char* kNames[] = {"observed", "reference", "convention", "tolerance", "none"};
  return kernels::look_up(kNames, at_fault, "?");
}

std::string thousands(int64_t n) {
  std::string digits = std::to_string(n);
  for (int64_t at = static_cast<int64_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

Evidence number(double x) {
  if (std::isfinite(x)) return x;
  if (std::isnan(x)) return "NaN";
  return x > 0 ? "Infinity" : "-Infinity";
}

}  // namespace msda::analysis
