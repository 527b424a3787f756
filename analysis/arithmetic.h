// The type that a side computes a gradient in, read from its values.
#pragma once

#include "analysis/side.h"

namespace msda::analysis {

// A kernel on 16-bit tensors computes in float32, or adds in the 16-bit type itself; results in float64 of float32
// inputs may have been computed in either. Falls back to the call's own arithmetic.
msda_dtype detect_arithmetic(const Call& call, Side side, Gradient gradient, ContributionCache& cache);

}  // namespace msda::analysis
