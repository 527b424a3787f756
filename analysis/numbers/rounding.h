// A bound on the rounding error of a sum of products, tight enough to distinguish a mistake from rounding.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "analysis/numbers/tensor.h"

namespace msda::analysis {

// Returns what a factor may multiply the error of a product that underflows by.
inline double at_least_1(double factor) { return std::max(1.0, std::abs(factor)); }

// Collects the terms of a sum and bounds the error of evaluating it, in any order and with the factors of each term in
// any arrangement. The smaller of two bounds, in units of u, the precision's relative rounding error; T is the sum and
// V = sum t^2 - T^2 / n:
//
//   certain: (kTermRoundings + n - 1) * sum |t|  (Higham, Accuracy and Stability, section 4.2)
//   probable, the sum of
//     kSharedRoundings * sum over groups |sum t|: roundings that all terms of a group share, as of its weight
//     kSigmas * sqrt(kTermRoundings) * sqrt(sum t^2): roundings of each term's own
//     kSigmas * sqrt(n T^2 / 9 + n V / 18): roundings of the partial sums
//
// The probable one assumes that roundings are independent and evenly distributed (variance u^2 / 3 of the relative
// error), and that the order of the terms is random; then a partial sum of k terms has the mean square (k/n)^2 T^2 +
// (k/n)(1 - k/n) V. It fails with a probability of about 1e-15 (kSigmas). It does not cover sums with biased roundings,
// such as those of many equal addends: reordered_sums.h tries these.
class SumBound {
 public:
  static constexpr double kTermRoundings = 10, kSharedRoundings = 6, kSigmas = 8;
  static constexpr double kTermProducts = 4;  // products in a term that may underflow

  // `group`: one of 16 sets of terms that share a factor. `growth`: if a product of some factors underflows, the
  // other factors multiply its error by at most this; at least 1.
  void add(double term, int group, double growth) {
    sum_ += term;
    magnitude_ += std::abs(term);
    squares_ += term * term;
    groups_[static_cast<size_t>(group)] += term;
    growths_ += growth;
    ++terms_;
  }
  // The terms of another sum.
  void add(const SumBound& others);

  double sum() const { return sum_; }
  double magnitude() const { return magnitude_; }
  int64_t terms() const { return terms_; }
  double certain(const Precision& precision) const;
  double bound(const Precision& precision) const;  // the smaller one

 private:
  double underflow(const Precision& precision) const { return kTermProducts * growths_ * precision.tiny; }

  double sum_ = 0, magnitude_ = 0, squares_ = 0, growths_ = 0;
  std::array<double, 16> groups_{};
  int64_t terms_ = 0;
};

}  // namespace msda::analysis
