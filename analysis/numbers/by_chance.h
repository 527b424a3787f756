// Whether one addend of a sum can be named as the one that is missing, or there twice.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace msda::analysis {

class SpreadOfAddends {
 public:
  void add(double addend) {
    ++count_;
    low_ = std::min(low_, addend);
    high_ = std::max(high_, addend);
  }

  // Returns whether a value that is wrong for another reason may well be the sum without one of its addends, or with
  // one twice: chance makes that likely if the addends are evenly spread and many, and values are distinguished only if
  // they differ by twice the bound.
  bool leaves_it_to_chance(double bound) const {
    constexpr double kMostByChance = 0.01;
    return 2 * static_cast<double>(count_) * bound > kMostByChance * std::max(high_ - low_, std::abs(high_));
  }

 private:
  int64_t count_ = 0;
  double low_ = INFINITY, high_ = -INFINITY;
};

}  // namespace msda::analysis
