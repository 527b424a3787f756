// One element of a gradient: its value in exact arithmetic, and a bound on its rounding error.
//
// Both are sums of terms, each a product of inputs and of weights that depend on coordinates. The bound holds for
// samples that landed in given cells, in a given precision. It is the sum of the effect of the coordinates' errors and
// of the rounding of the terms and their sum (rounding.h).
#pragma once

#include <cmath>
#include <cstdint>

namespace msda::analysis {

struct Element {
  double value = 0;  // exact: float64 arithmetic on the captured bits
  int64_t terms = 0;
  double cancelled = 0;         // sum over channels (of a sum over samples: samples) of |its part|: beside |value|
  double from_coordinates = 0;  // bound on the effect of the coordinates' errors
  double from_rounding = 0;     // bound on the rounding of the terms and the sum
  double certain = 0;           // the rounding error in the worst order
  double largest_partial = 0;   // bound on the magnitude of what is computed on the way, in any order; 0: not known

  double bound() const { return from_coordinates + from_rounding; }
  double condition() const { return value != 0 ? cancelled / std::abs(value) : INFINITY; }
};

}  // namespace msda::analysis
