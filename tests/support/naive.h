// The operator as the slow, obvious loop over its definition: the truth that tests compare with. Shares no line with
// kernels/.
#pragma once

#include <vector>

#include "tests/support/problem.h"

namespace msda::tests {

// Each element in long double, and the sum of the magnitudes of its terms.
struct Sums {
  std::vector<long double> value, magnitude;
};

struct Naive {
  Sums output;
  Sums gradients[3];  // in the order of analysis::Gradient
};

// `float_coordinates`: pixel coordinates, which decide the cell, as the dialect's formula gives them in float32.
Naive naive(const Problem& problem, bool float_coordinates);

}  // namespace msda::tests
