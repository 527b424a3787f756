// One element of a gradient: its value in exact arithmetic, and a bound on its rounding error.
//
// Both are sums of terms, each a product of inputs and of weights that depend on coordinates. The bound holds for
// samples that landed in given cells, in a given precision. It is the sum of the effect of the coordinates' errors and
// of the rounding of the terms and their sum (rounding.h).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "analysis/numbers/rounding.h"

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
  // Returns whether a type whose largest number this is may make `value` of it, which is not finite.
  bool may_overflow_to(double value, double largest_of_type) const {
    const bool up = highest > largest_of_type, down = lowest > largest_of_type;
    return std::isnan(value) ? up && down : value > 0 ? up : down;
  }
};

// A sum for which rounding of coordinates decides whether some samples belong: each is added whole, or not at all.
struct TiedSum {
  static constexpr size_t kMost = 12;   // of them 4,096 sums are tried
  std::vector<double> tied, certain;    // addends: of these samples, and of the others
  double from_rounding = 0, worst = 0;  // as Element's from_rounding and certain, whichever samples are added

  bool any() const { return !tied.empty(); }
  // Calls visit(sum, chosen) for every choice of the tied samples, of which bit i of `chosen` says whether i is added,
  // until it returns true. Returns what visit() returned last.
  template <class Visit>
  bool visit_sums(Visit&& visit) const {
    std::vector<double> sums{std::accumulate(certain.begin(), certain.end(), 0.0)};
    for (const double addend : tied) {
      const size_t before = sums.size();
      for (size_t i = 0; i < before; ++i) sums.push_back(sums[i] + addend);
    }
    for (size_t chosen = 0; chosen < sums.size(); ++chosen) {
      if (visit(sums[chosen], chosen)) return true;
    }
    return false;
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
  TiedSum ties;                 // if few samples are tied; from_coordinates has them all, and parts of them

  // Takes the value, and the bounds on its rounding, from the sum of the terms.
  void take_sum(const SumBound& sum, const Precision& precision) {
    value = sum.sum();
    terms = sum.terms();
    from_rounding = sum.bound(precision);
    certain = sum.certain(precision);
  }
  double bound() const { return from_coordinates + from_rounding; }
  double condition() const { return value != 0 ? cancelled / std::abs(value) : INFINITY; }
};

}  // namespace msda::analysis
