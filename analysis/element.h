// One element of a gradient: its value in exact arithmetic, and a bound on its rounding error.
//
// Both are sums of terms, each a product of inputs and of weights that depend on coordinates. The bound holds for
// samples that landed in given cells, in a given precision. It is the sum of the effect of the coordinates' errors and
// of the rounding of the terms and their sum (rounding.h).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace msda::analysis {

// How far the terms of one sign alone may lead a sum, in whatever order: beyond the largest number of a type it
// overflows to the infinity of that sign, and where both do, to NaN as well.
struct Partials {
  double highest = 0, lowest = 0;  // of the terms above 0; below 0, as a magnitude

  // A term of this sign, or of either (0), whose factors and products stay within `reach`.
  void add(double sign, double reach) {
    if (!(sign < 0)) highest += reach;
    if (!(sign > 0)) lowest += reach;
  }
  double largest() const { return std::max(highest, lowest); }
  // Whether a type whose largest number this is may make `value` of it, which is not finite.
  bool may_overflow_to(double value, double largest_of_type) const {
    const bool up = highest > largest_of_type, down = lowest > largest_of_type;
    return std::isnan(value) ? up && down : value > 0 ? up : down;
  }
};

struct Element {
  double value = 0;  // exact: float64 arithmetic on the captured bits
  int64_t terms = 0;
  double cancelled = 0;         // sum over channels (of a sum over samples: samples) of |its part|: beside |value|
  double from_coordinates = 0;  // bound on the effect of the coordinates' errors
  double from_rounding = 0;     // bound on the rounding of the terms and the sum
  double certain = 0;           // the rounding error in the worst order
  bool may_be_nan = false;      // of an infinity times a weight of 0, or times two of either sign, or of a NaN nearby
  Partials partials;            // what is computed on the way, in any order; 0: not known

  double bound() const { return from_coordinates + from_rounding; }
  double condition() const { return value != 0 ? cancelled / std::abs(value) : INFINITY; }
};

}  // namespace msda::analysis
