// Why an element is out of tolerance, and who has to change something.
#pragma once

namespace msda::analysis {

// In the order in which they are tested; the first that holds is the cause (docs/causes.md).
enum class Cause {
  kNonFinite,
  kUninitializedOutput,
  kCellBoundary,
  kBorderClamp,
  kStoppedSum,
  kAccumulationOrder,
  kRounding,
  kIllConditioned,
  kReducedPrecision,
  kImplementationError
};
const char* name_of(Cause cause);
// Returns whether rounding alone explains both sides' values, with both landed in the same cell.
inline bool is_rounding(Cause cause) {
  return cause == Cause::kAccumulationOrder || cause == Cause::kRounding || cause == Cause::kIllConditioned;
}

// Who has to change something, the gravest first.
enum class AtFault { kObserved, kReference, kConvention, kTolerance, kNone };
const char* name_of(AtFault at_fault);

}  // namespace msda::analysis
