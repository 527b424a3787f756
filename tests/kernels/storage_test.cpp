// float16 and bfloat16 conversions, over every value there is.
#include "kernels/storage.h"

#include <gtest/gtest.h>

#include <cmath>

namespace msda::tests {
namespace {

using kernels::BFloat16;
using kernels::Float16;
using kernels::narrow;
using kernels::widen;

// The value of a 16-bit pattern by the definition of the format.
double defined_value(uint16_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return mantissa != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
}

template <class Stored>
void check_all(int exponent_bits, int mantissa_bits) {
  for (uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    const Stored x{static_cast<uint16_t>(pattern)};
    const double defined = defined_value(x.bits, exponent_bits, mantissa_bits);
    if (std::isnan(defined)) {
      EXPECT_TRUE(std::isnan(widen(x)));
      EXPECT_TRUE(std::isnan(widen(narrow<Stored>(widen(x)))));
      continue;
    }
    ASSERT_EQ(widen(x), defined) << pattern;
    ASSERT_EQ(std::signbit(widen(x)), std::signbit(defined)) << pattern;
    ASSERT_EQ(narrow<Stored>(widen(x)).bits, x.bits) << pattern;
  }
}

TEST(Storage, EveryFloat16) { check_all<Float16>(5, 10); }
TEST(Storage, EveryBFloat16) { check_all<BFloat16>(8, 7); }

// Between neighbours a <= b: the nearer one, at the middle the even one, in a single rounding, also from float64.
template <class Stored>
void check_rounding(uint16_t last_finite) {
  for (uint16_t pattern = 0; pattern < last_finite; ++pattern) {
    const Stored a{pattern}, b{static_cast<uint16_t>(pattern + 1)};
    const double middle = (double{widen(a)} + double{widen(b)}) / 2, gap = double{widen(b)} - double{widen(a)};
    const uint16_t even = pattern % 2 == 0 ? a.bits : b.bits;
    ASSERT_EQ(narrow<Stored>(middle).bits, even) << pattern;
    ASSERT_EQ(narrow<Stored>(static_cast<float>(middle)).bits, even) << pattern;
    // So close to the middle that float32 cannot represent it: two roundings would give the middle.
    ASSERT_EQ(narrow<Stored>(middle + gap * 0x1p-30).bits, b.bits) << pattern;
    ASSERT_EQ(narrow<Stored>(middle - gap * 0x1p-30).bits, a.bits) << pattern;
    ASSERT_EQ(narrow<Stored>(-middle).bits, even | 0x8000) << pattern;
  }
}

TEST(Storage, RoundsFloat16ToNearestEven) {
  check_rounding<Float16>(0x7bff);
  EXPECT_EQ(narrow<Float16>(65519.996f).bits, 0x7bff);
  EXPECT_EQ(narrow<Float16>(65520.0f).bits, 0x7c00);
  EXPECT_EQ(narrow<Float16>(-1e30).bits, 0xfc00);
  EXPECT_EQ(narrow<Float16>(1e300).bits, 0x7c00);
}

TEST(Storage, RoundsBFloat16ToNearestEven) {
  check_rounding<BFloat16>(0x7f7f);
  EXPECT_EQ(narrow<BFloat16>(3.4e38f).bits, 0x7f80);
  EXPECT_EQ(narrow<BFloat16>(-INFINITY).bits, 0xff80);
}

}  // namespace
}  // namespace msda::tests
