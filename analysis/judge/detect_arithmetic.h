// The type that a side computes a gradient in, read from its values.
#pragma once

#include <vector>

#include "analysis/model/side.h"

namespace msda::analysis {

// A kernel on 16-bit tensors computes in float32, or adds in the 16-bit type itself; results in float64 of float32
// inputs may have been computed in either. Falls back to the call's own arithmetic.
msda_dtype detect_arithmetic(const Call& call, Side side, Gradient gradient, Cache& cache);

// Returns the element as a sum in the type gives it, of float32 products, in the order of the addends.
double sum_in(const Call& call, const Side& side, const ElementId& id, msda_dtype type, Cache& cache);

// Returns whether the elements' values lie to one side of what sums in the type give. Rounding has no favourite side:
// of n elements, as many lie above as below, but for a few times sqrt(n).
bool lie_to_one_side(const Call& call, const Side& side, const std::vector<ElementId>& elements, msda_dtype type,
                     Cache& cache);

}  // namespace msda::analysis
