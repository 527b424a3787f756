// Compares two tensors element by element, with a test's tolerance.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/numbers/tensor.h"

namespace msda::analysis {

// Out of tolerance: |observed - expected| > atol + rtol * |expected|, as in torch.testing.assert_close.
struct Tolerance {
  double atol = 0, rtol = 0;

  // Equal values, infinities among them, are within tolerance; NaN never is.
  bool holds(double observed, double expected) const {
    if (observed == expected) return true;
    return std::abs(observed - expected) <= atol + rtol * std::abs(expected) && std::isfinite(expected);
  }
};

// Returns the tolerance that tests of this operator usually have; docs/causes.md gives the sources.
Tolerance customary_tolerance(msda_dtype stored);

struct Comparison {
  int64_t mismatched = 0, total = 0;
  int64_t non_finite = 0;  // mismatches in which a side is NaN or infinite
  // Over the elements in which both sides are finite:
  double max_abs = 0, max_rel = 0;  // max_rel where expected is not zero
  uint64_t max_ulp = 0;             // representable numbers of the observed type between the two
  int64_t worst = -1;               // element of max_abs, or the first non-finite mismatch; -1: no elements
  std::vector<int64_t> mismatches;  // their flat indices, ascending; at most `most_mismatches` of them
};

enum class NonFinite {
  kAsTorch,  // infinities of one sign are equal
  kMismatch  // an infinite or NaN `observed` is a mismatch even if `expected` is the same: for comparing with exact
             // results
};

// Both floating-point and of one shape. `threads` as in msda_options.
Comparison compare(const Tensor& observed, const Tensor& expected, const Tolerance& tolerance, NonFinite non_finite,
                   int64_t most_mismatches, int threads);

// Representable numbers of `dtype` from a to b, both rounded to it first; 0 for equal ones. Both finite.
uint64_t ulp_distance(double a, double b, msda_dtype dtype);

}  // namespace msda::analysis
