// The fixed tree of the scatter sum (sample.h, kRun), fed one addend at a time: a base-kRun counter whose digits are
// the sums of the incomplete runs.
#pragma once

#include <cstdint>

#include "kernels/sample.h"

namespace msda::kernels {
inline namespace MSDA_ISA {

// For at least one addend and fewer than 2^50.
template <class Real>
class TreeSum {
 public:
  MSDA_HOST_DEVICE void add(Real x) {
    run_ = count_ % kRun == 0 ? x : run_ + x;
    if (++count_ % kRun == 0) raise(run_);
  }
  MSDA_HOST_DEVICE Real sum() const {
    Real total = run_;
    bool any = count_ % kRun != 0;
    int i = 0;
    for (uint64_t n = count_ / kRun; n > 0; n /= kRun, ++i) {
      if (n % kRun == 0) continue;
      total = any ? digits_[i] + total : digits_[i];
      any = true;
    }
    return total;
  }

 private:
  // The sum of a run is the next addend of the run above.
  MSDA_HOST_DEVICE void raise(Real x) {
    int i = 0;
    for (uint64_t n = count_ / kRun;; n /= kRun, ++i) {
      digits_[i] = (n - 1) % kRun == 0 ? x : digits_[i] + x;
      if (n % kRun != 0) return;
      x = digits_[i];
    }
  }
  static constexpr int kDigits = 9;
  Real run_ = 0;
  Real digits_[kDigits] = {};
  uint64_t count_ = 0;
};

}  // namespace MSDA_ISA
}  // namespace msda::kernels
