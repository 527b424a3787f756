// A number in float64 with a bound on the error of the same operations in a narrower type: running error analysis
// (Higham, Accuracy and Stability of Numerical Algorithms, section 3.3). As `Real` in kernels/sample.h it derives a
// bound from the very code that the kernels run.
#pragma once

#include <cmath>

#include "analysis/numbers/tensor.h"

namespace msda::analysis {

class Bounded {
 public:
  Bounded() = default;
  // Constants of the formulas: exact in every type.
  explicit Bounded(double exact) : value_(exact) {}
  // An exact input, and the type to which operations on it round.
  Bounded(double exact, const Precision& precision) : value_(exact), precision_(&precision) {}

  double value() const { return value_; }
  double error() const { return error_; }

  friend Bounded operator+(const Bounded& a, const Bounded& b) {
    // Doubling is exact.
    if (&a == &b) return a.exactly(a.value_ + b.value_, a.error_ + b.error_);
    return round(a, b, a.value_ + b.value_, a.error_ + b.error_);
  }
  friend Bounded operator-(const Bounded& a, const Bounded& b) {
    return round(a, b, a.value_ - b.value_, a.error_ + b.error_);
  }
  friend Bounded operator*(const Bounded& a, const Bounded& b) {
    const double error = std::abs(a.value_) * b.error_ + std::abs(b.value_) * a.error_ + a.error_ * b.error_;
    if (b.value_ == 0.5 && b.error_ == 0) return a.exactly(a.value_ * 0.5, error);
    return round(a, b, a.value_ * b.value_, error);
  }
  friend Bounded operator/(const Bounded& a, const Bounded& b) {
    // Nothing is known of a quotient whose divisor may be 0.
    const double least = std::abs(b.value_) - b.error_;
    const double error = least > 0 ? (a.error_ + std::abs(a.value_ / b.value_) * b.error_) / least : INFINITY;
    return round(a, b, a.value_ / b.value_, error);
  }
  friend Bounded operator-(const Bounded& a) { return a.exactly(-a.value_, a.error_); }
  friend Bounded fma(const Bounded& a, const Bounded& b, const Bounded& c) {
    const double error = std::abs(a.value_) * b.error_ + std::abs(b.value_) * a.error_ + a.error_ * b.error_ + c.error_;
    Bounded result = round(a, b, std::fma(a.value_, b.value_, c.value_), error);
    if (result.precision_ == nullptr) result = round(result, c, result.value_, error);
    return result;
  }

 private:
  Bounded exactly(double value, double error) const {
    Bounded result = *this;
    result.value_ = value;
    result.error_ = error;
    return result;
  }
  static Bounded round(const Bounded& a, const Bounded& b, double value, double error) {
    Bounded result(value);
    result.precision_ = a.precision_ != nullptr ? a.precision_ : b.precision_;
    result.error_ = error;
    if (result.precision_ != nullptr) {
      // The error so far may have increased the magnitude of the rounded number.
      result.error_ += result.precision_->unit * (std::abs(value) + error) + result.precision_->tiny;
    }
    return result;
  }

  double value_ = 0, error_ = 0;
  const Precision* precision_ = nullptr;
};

}  // namespace msda::analysis
