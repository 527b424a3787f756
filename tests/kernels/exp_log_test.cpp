// exp and the logarithm of explicit operations, against those of long double.
#include "kernels/exp_log.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace msda::tests {
namespace {

// Returns the distance in units in the last place of the true number, which is a normal one.
template <class Real>
double units(Real found, long double truth) {
  const int place = std::ilogb(static_cast<Real>(truth)) + 1 - std::numeric_limits<Real>::digits;
  return static_cast<double>(std::fabs(static_cast<long double>(found) - truth) / std::ldexp(1.0L, place));
}

template <class Real>
void compare(Real least, Real most) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<Real> exponent(least, most), near(-1, 0), sum(1, 3);
  double of_exp = 0, of_log = 0;
  for (int i = 0; i < 200'000; ++i) {
    for (const Real x : {exponent(random), near(random)}) {
      of_exp = std::fmax(of_exp, units(kernels::exp_of(x), std::exp(static_cast<long double>(x))));
    }
    const Real x = sum(random);
    if (x > Real(1)) of_log = std::fmax(of_log, units(kernels::log_of(x), std::log(static_cast<long double>(x))));
  }
  EXPECT_LE(of_exp, 1);
  EXPECT_LE(of_log, 3);
  EXPECT_EQ(kernels::exp_of(Real(0)), Real(1));
  EXPECT_EQ(kernels::log_of(Real(1)), Real(0));
  EXPECT_EQ(kernels::exp_of(Real(-INFINITY)), Real(0));
  EXPECT_EQ(kernels::exp_of(Real(INFINITY)), Real(INFINITY));
  EXPECT_TRUE(std::isnan(kernels::exp_of(Real(NAN))));
  EXPECT_EQ(kernels::log_sum_exp(Real(-INFINITY), Real(-INFINITY), Real(-INFINITY)), Real(-INFINITY));
  EXPECT_TRUE(std::isnan(kernels::log_sum_exp(Real(0), Real(NAN), Real(1))));
}

TEST(ExpLog, IsWithinAFewUnitsOfTheTrueNumber) {
  compare<float>(-87, 88);
  compare<double>(-708, 709);
}

TEST(ExpLog, ExponentialsBelowTheNormalNumbersAreRoundedOnceMore) {
  EXPECT_EQ(kernels::exp_of(-103.5f), 0x1p-149f);
  EXPECT_EQ(kernels::exp_of(-110.0f), 0.0f);
  EXPECT_NEAR(kernels::exp_of(-90.0f), std::exp(-90.0), 0x1p-149);
}

}  // namespace
}  // namespace msda::tests
