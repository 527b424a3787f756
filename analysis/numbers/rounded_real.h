// A number of 16 bits for the templates of kernels/, each of whose operations is rounded to its type, as kernels do
// that compute in c10::Half or c10::BFloat16.
#pragma once

#include <cmath>

#include "kernels/msda.h"
#include "kernels/storage.h"

namespace msda::analysis {

template <class Stored>
class RoundedReal {
 public:
  RoundedReal() = default;
  explicit RoundedReal(double x) : value_(kernels::widen(kernels::narrow<Stored>(x))) {}
  explicit operator double() const { return value_; }
  explicit operator int32_t() const { return static_cast<int32_t>(value_); }

  friend RoundedReal operator+(RoundedReal a, RoundedReal b) { return of(a.value_ + b.value_); }
  friend RoundedReal operator-(RoundedReal a, RoundedReal b) { return of(a.value_ - b.value_); }
  friend RoundedReal operator*(RoundedReal a, RoundedReal b) { return of(a.value_ * b.value_); }
  friend RoundedReal operator/(RoundedReal a, RoundedReal b) { return of(a.value_ / b.value_); }
  RoundedReal operator-() const { return of(-value_); }
  friend bool operator==(RoundedReal a, RoundedReal b) { return a.value_ == b.value_; }
  friend auto operator<=>(RoundedReal a, RoundedReal b) { return a.value_ <=> b.value_; }

  friend RoundedReal fma(RoundedReal a, RoundedReal b, RoundedReal c) {
    return RoundedReal(static_cast<double>(a.value_) * b.value_ + c.value_);  // exact before it is rounded
  }
  friend RoundedReal floor(RoundedReal a) { return of(std::floor(a.value_)); }
  friend RoundedReal fmod(RoundedReal a, RoundedReal b) { return of(std::fmod(a.value_, b.value_)); }
  friend RoundedReal nearest(RoundedReal a) { return of(std::nearbyint(a.value_)); }
  friend RoundedReal magnitude(RoundedReal a) { return of(std::abs(a.value_)); }

 private:
  static RoundedReal of(float x) {
    RoundedReal rounded;
    rounded.value_ = kernels::widen(kernels::narrow<Stored>(x));
    return rounded;
  }
  float value_ = 0;
};

// Runs run(Real{}) in a floating-point type.
template <class Run>
void with_real(msda_dtype type, Run&& run) {
  switch (type) {
    case MSDA_FLOAT16:
      return run(RoundedReal<kernels::Float16>());
    case MSDA_BFLOAT16:
      return run(RoundedReal<kernels::BFloat16>());
    case MSDA_FLOAT64:
      return run(double{});
    default:
      return run(float{});
  }
}

}  // namespace msda::analysis
