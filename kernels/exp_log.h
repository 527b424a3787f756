// exp and the logarithm of a sum of exponentials, of explicit operations: libraries' functions differ in their last
// bits.
#pragma once

#include "kernels/sample.h"

namespace msda::kernels {
inline namespace MSDA_ISA {

template <class Real>
struct ExpLogConstants;
template <>
struct ExpLogConstants<float> {
  static constexpr float least = -104, most = 89;
  static constexpr float high = 0x1.62e4p-1f, low = 0x1.7f7d1cp-20f;  // of log(2); times whole numbers, `high` is exact
  static constexpr int exp_terms = 7, log_terms = 6;
};
template <>
struct ExpLogConstants<double> {
  static constexpr double least = -746, most = 710;
  static constexpr double high = 0x1.62e42fee00000p-1, low = 0x1.a39ef35793c76p-33;
  static constexpr int exp_terms = 13, log_terms = 13;
};

// x times a power of two, rounded once, if at all.
MSDA_HOST_DEVICE inline float times_power_of_two(float x, int exponent) { return ::ldexpf(x, exponent); }
MSDA_HOST_DEVICE inline double times_power_of_two(double x, int exponent) { return ::ldexp(x, exponent); }

// By Taylor's polynomial around the nearest multiple of log(2); within two units in the last place.
template <class Real>
MSDA_HOST_DEVICE inline Real exp_of(Real x) {
  using Constants = ExpLogConstants<Real>;
  if (x != x) return x;
  if (x < Constants::least) return Real(0);
  if (x > Constants::most) return Real(INFINITY);
  const Real multiple = floor(fma(x, Real(0x1.71547652b82fep+0), Real(0.5)));
  const Real rest = fma(multiple, -Constants::low, fma(multiple, -Constants::high, x));
  Real sum(1);
  for (int i = Constants::exp_terms; i > 0; --i) sum = fma(sum, rest * (Real(1) / static_cast<Real>(i)), Real(1));
  return times_power_of_two(sum, static_cast<int>(multiple));
}

// Returns the logarithm of a number from 1 to 3: 2 * artanh((x - 1) / (x + 1)), by its series.
template <class Real>
MSDA_HOST_DEVICE inline Real log_of(Real x) {
  using Constants = ExpLogConstants<Real>;
  const bool is_large = x > Real(1.5);
  const Real part = is_large ? x * Real(0.5) : x, ratio = (part - Real(1)) / (part + Real(1)), square = ratio * ratio;
  Real sum = Real(1) / static_cast<Real>(2 * Constants::log_terms + 1);
  for (int i = Constants::log_terms - 1; i >= 0; --i) sum = fma(sum, square, Real(1) / static_cast<Real>(2 * i + 1));
  const Real twice = ratio + ratio;
  return is_large ? fma(twice, sum, Constants::low) + Constants::high : twice * sum;
}

// Returns log(exp(a) + exp(b) + exp(c)).
template <class Real>
MSDA_HOST_DEVICE inline Real log_sum_exp(Real a, Real b, Real c) {
  Real most = a;
  if (b > most) most = b;
  if (c > most) most = c;
  if (most == -Real(INFINITY)) return most;
  return log_of(exp_of(a - most) + exp_of(b - most) + exp_of(c - most)) + most;
}

}  // namespace MSDA_ISA
}  // namespace msda::kernels
