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

// Mistakes that a kernel can have.
enum class Fault {
  kNone,
  kCornersSwapped,  // reads, and writes to, (y0,x1) where (y1,x0) is meant, and the other way round
  kLevelOffset,     // takes every level but the first for one pixel earlier
  kNoAttention,     // forgets the attention weight
  kNoWeights,       // forgets the interpolation weights
  kAddendLost,      // leaves one corner of one sample out of grad_value
  kAddendTwice      // adds it twice
};

// `float_coordinates`: pixel coordinates, which decide the cell, as the dialect's formula gives them in float32.
Naive naive(const Problem& problem, bool float_coordinates, Fault fault = Fault::kNone);

}  // namespace msda::tests
