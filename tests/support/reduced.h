// The operator in plain float32 (or float64) arithmetic, with some steps rounded to fewer bits: what a kernel on tensor
// cores, under autocast or in 16-bit types gives. Shares no line with analysis/.
#pragma once

#include <set>
#include <string>

#include "tests/support/problem.h"

namespace msda::tests {

// Each by operations on the bits of a float32.
float tf32_even(float x);
float tf32_away(float x);
float tf32_truncated(float x);
float bfloat16(float x);
float bfloat16_truncated(float x);
float float16(float x);
float float32(float x);

// The steps by the names that the evidence has for them: "grad_output", "sampled_value", "addends", "sums", ...
using StepNames = std::set<std::string>;

// Under other conventions than the problem's, if wanted. Results in the problem's type.
Gradients reduced(const Problem& problem, const analysis::Conventions& conventions, float (*round)(float),
                  const StepNames& steps);

}  // namespace msda::tests
