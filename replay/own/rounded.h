// A number whose every operation is rounded to a type: coordinates as kernels compute them.
#pragma once

#include <algorithm>
#include <cmath>

#include "analysis/numbers/tensor.h"

namespace msda::replay {

struct Rounded {
  double value = 0;
  msda_dtype type = MSDA_FLOAT64;

  friend Rounded operator+(const Rounded& a, const Rounded& b) { return a.of(a.value + b.value); }
  friend Rounded operator-(const Rounded& a, const Rounded& b) { return a.of(a.value - b.value); }
  friend Rounded operator*(const Rounded& a, const Rounded& b) { return a.of(a.value * b.value); }
  friend Rounded operator/(const Rounded& a, const Rounded& b) { return a.of(a.value / b.value); }
  friend Rounded exp(const Rounded& a) { return a.of(std::exp(a.value)); }
  friend Rounded sqrt(const Rounded& a) { return a.of(std::sqrt(a.value)); }
  friend Rounded abs(const Rounded& a) { return a.of(std::abs(a.value)); }
  friend Rounded min(const Rounded& a, const Rounded& b) { return a.of(std::min(a.value, b.value)); }
  friend Rounded max(const Rounded& a, const Rounded& b) { return a.of(std::max(a.value, b.value)); }
  Rounded of(double x) const { return {analysis::rounded_to(x, type), type}; }
};

}  // namespace msda::replay
