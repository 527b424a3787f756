// The operator as a slow, direct loop over its definition, with which tests compare. Shares no line with kernels/.
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

// Where a location lands along one axis.
struct NaiveAxis {
  long double weight[2], slope[2];  // of the lower and the upper corner, and its derivative by the location
  int64_t pixel[2];                 // or -1
  bool skipped;
};
NaiveAxis locate(const analysis::Conventions& conventions, double location, int32_t side, bool float_coordinates);

// `float_coordinates`: pixel coordinates, which decide the cell, as the dialect's formula gives them in float32.
Naive naive(const Problem& problem, bool float_coordinates);

}  // namespace msda::tests
