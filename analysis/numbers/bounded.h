// A number in float64 with a bound on the error of the same operations in a narrower type: running error analysis
// (Higham, Accuracy and Stability of Numerical Algorithms, section 3.3). As `Real` in kernels/sample.h it derives a
// bound from the very code that the kernels run.
#pragma once

#include <algorithm>
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

  // The result of operations before, with the error that it has.
  Bounded(double value, double error, const Precision& precision)
      : value_(value), error_(error), precision_(&precision) {}

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

  // Functions of CUDA's mathematical library, with the errors that it documents, in units of the last place (a unit is
  // at most two roundings): sqrt 1; exp 2 + 1.173 |x|, that of __expf, to which -use_fast_math turns expf.
  friend Bounded exp(const Bounded& a) {
    const double value = std::exp(a.value_), farthest = std::exp(a.value_ + a.error_);
    return a.computed(value, std::isfinite(farthest) ? farthest - value : INFINITY,
                      2 * (2 + 1.173 * (std::abs(a.value_) + a.error_)));
  }
  friend Bounded sqrt(const Bounded& a) {
    const double value = std::sqrt(a.value_), nearest = std::sqrt(a.value_ - a.error_);  // NaN: it may be below 0
    return a.computed(value, std::isnan(nearest) ? INFINITY : value - nearest, 2);
  }
  friend Bounded abs(const Bounded& a) { return a.exactly(std::abs(a.value_), a.error_); }
  friend Bounded min(const Bounded& a, const Bounded& b) { return -max(-a, -b); }
  friend Bounded max(const Bounded& a, const Bounded& b) {
    Bounded result = a.exactly(std::max(a.value_, b.value_), std::max(a.error_, b.error_));
    if (result.precision_ == nullptr) result.precision_ = b.precision_;
    // NaN is none of two numbers for fmaxf(), and is kept as what is not known.
    if (std::isnan(a.value_) || std::isnan(b.value_)) result.value_ = NAN;
    return result;
  }

 private:
  // Returns what a function's implementation may give, whose error is `roundings` of the result.
  Bounded computed(double value, double error, double roundings) const {
    Bounded result = exactly(value, error);
    if (precision_ != nullptr) {
      result.error_ += roundings * precision_->unit * (std::abs(value) + error) + precision_->smallest_normal();
    }
    return result;
  }
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
