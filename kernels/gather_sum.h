// The weighted sum over what reaches a pixel along one axis: interpolate's output pixels, roi_align's bins.
#pragma once

#include "kernels/tree_sum.h"

namespace msda::kernels {
inline namespace MSDA_ISA {

// Sums by the tree of runs: a run begins with a product, and its other terms are fused onto it. No terms give +0.
template <class Real>
class GatherSum {
 public:
  MSDA_HOST_DEVICE void add(Real weight, Real x) {
    if (count_ % kRun == 0) {
      if (count_ > 0) runs_.add(run_);
      run_ = weight * x;
    } else {
      run_ = fma(weight, x, run_);
    }
    ++count_;
  }
  MSDA_HOST_DEVICE Real sum() const {
    if (count_ <= kRun) return run_;
    TreeSum<Real> runs = runs_;
    runs.add(run_);
    return runs.sum();
  }

 private:
  Real run_ = 0;
  int64_t count_ = 0;
  TreeSum<Real> runs_;  // of the runs before this one
};

// Returns the same for at most one run, of one number or several; `weight` and `value` take the term's number. At least
// one term.
template <class Weight, class Value>
MSDA_HOST_DEVICE inline auto gather_run(int32_t count, Weight&& weight, Value&& value) {
  auto run = weight(0) * value(0);
  for (int32_t i = 1; i < count; ++i) run = fma(weight(i), value(i), run);
  return run;
}

// Returns the same for any number of terms.
template <class Real, class Weight, class Value>
MSDA_HOST_DEVICE inline Real gather_runs(int32_t count, Weight&& weight, Value&& value) {
  GatherSum<Real> sum;
  for (int32_t i = 0; i < count; ++i) sum.add(weight(i), value(i));
  return sum.sum();
}
template <class Real, class Weight, class Value>
MSDA_HOST_DEVICE inline Real gather_sum(int32_t count, Weight&& weight, Value&& value) {
  if (count <= 0) return Real(0);
  if (count <= kRun) return gather_run(count, weight, value);
  return gather_runs<Real>(count, weight, value);
}

// Returns the first number in [0, count] from which on `is` holds; beyond it `is` must keep holding.
template <class Is>
MSDA_HOST_DEVICE inline int32_t first_where(int32_t count, Is&& is) {
  int32_t low = 0, high = count;
  while (low < high) {
    const int32_t middle = low + (high - low) / 2;
    if (is(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

}  // namespace MSDA_ISA
}  // namespace msda::kernels
