#include "analysis/causes/finding.h"

#include <cmath>

namespace msda::analysis {

const char* name_of(Cause cause) {
  switch (cause) {
    case Cause::kNonFinite:
      return "non_finite";
    case Cause::kUninitializedOutput:
      return "uninitialized_output";
    case Cause::kCellBoundary:
      return "cell_boundary";
    case Cause::kBorderClamp:
      return "border_clamp";
    case Cause::kStoppedSum:
      return "stopped_sum";
    case Cause::kAccumulationOrder:
      return "accumulation_order";
    case Cause::kRounding:
      return "rounding";
    case Cause::kIllConditioned:
      return "ill_conditioned";
    case Cause::kReducedPrecision:
      return "reduced_precision";
    case Cause::kImplementationError:
      return "implementation_error";
  }
  return "?";
}

const char* name_of(AtFault at_fault) {
  switch (at_fault) {
    case AtFault::kObserved:
      return "observed";
    case AtFault::kReference:
      return "reference";
    case AtFault::kConvention:
      return "convention";
    case AtFault::kTolerance:
      return "tolerance";
    case AtFault::kNone:
      return "none";
  }
  return "?";
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
