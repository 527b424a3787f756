#include "analysis/numbers/rounding.h"

#include <algorithm>
#include <cmath>

namespace msda::analysis {

void SumBound::add(const SumBound& others) {
  sum_ += others.sum_;
  magnitude_ += others.magnitude_;
  squares_ += others.squares_;
  for (size_t i = 0; i < groups_.size(); ++i) groups_[i] += others.groups_[i];
  growths_ += others.growths_;
  terms_ += others.terms_;
}

double SumBound::certain(const Precision& precision) const {
  if (terms_ == 0) return 0;
  const auto n = static_cast<double>(terms_);
  const double growth = (kTermRoundings + n - 1) * precision.unit;
  return (growth < 1 ? growth * magnitude_ / (1 - growth) : INFINITY) + underflow(precision);
}

double SumBound::bound(const Precision& precision) const {
  if (terms_ == 0) return 0;
  const auto n = static_cast<double>(terms_);
  double shared = 0;
  for (const double group : groups_) shared += std::abs(group);
  const double spread = std::max(0.0, squares_ - sum_ * sum_ / n);
  const double probable = precision.unit * (kSharedRoundings * shared + kSigmas * std::sqrt(kTermRoundings * squares_) +
                                            kSigmas * std::sqrt(n * sum_ * sum_ / 9 + n * spread / 18));
  return std::min(certain(precision), probable + underflow(precision));
}

}  // namespace msda::analysis
