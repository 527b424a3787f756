#include "analysis/numbers/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/problem.h"

namespace msda::tests {
namespace {

using analysis::Comparison;
using analysis::NonFinite;
using analysis::Tolerance;

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

Comparison compare(const std::vector<double>& observed, const std::vector<double>& expected, Tolerance tolerance,
                   NonFinite policy = NonFinite::kAsTorch, msda_dtype dtype = MSDA_FLOAT32) {
  const auto size = static_cast<int64_t>(observed.size());
  const OwnedTensor o(observed, dtype, {size}), e(expected, dtype, {size});
  return analysis::compare(o.view, e.view, tolerance, policy, 100, 2);
}

// torch.testing.assert_close(actual=observed, expected=expected, rtol=0.01, atol=0.001), element by element, gives
// these.
TEST(Compare, AgreesWithTorch) {
  const auto c = compare({1.011, 1.0109, -1, 0, 0.0011, kNan, kInf, -kInf, kInf, kNan, 0, kInf},
                         {1.0, 1.0, 1, 0, 0.0001, kNan, kInf, kInf, 1, 1, -0.0, kNan}, {1e-3, 1e-2});
  // 1.011 in float32 is 1.0110000371932983, just beyond 1 + 0.001 + 0.01.
  EXPECT_EQ(c.mismatches, (std::vector<int64_t>{0, 2, 5, 7, 8, 9, 11}));
  EXPECT_EQ(c.mismatched, 7);
  EXPECT_EQ(c.total, 12);
  EXPECT_EQ(c.non_finite, 5);
  EXPECT_EQ(c.worst, 5);  // the first that is not finite
}

TEST(Compare, AgainstTheTruthNoInfinityPasses) {
  EXPECT_EQ(compare({kInf, 1}, {kInf, 1}, {1, 1}, NonFinite::kMismatch).mismatched, 1);
  EXPECT_EQ(compare({kInf, 1}, {kInf, 1}, {1, 1}, NonFinite::kAsTorch).mismatched, 0);
}

TEST(Compare, ToleranceIsOfTheExpectedSide) {
  EXPECT_EQ(compare({110}, {100}, {0, 0.1}).mismatched, 0);
  EXPECT_EQ(compare({100}, {110}, {0, 0.0905}).mismatched, 1);
  EXPECT_EQ(compare({100}, {110}, {0, 0.091}).mismatched, 0);
  EXPECT_EQ(compare({1}, {1}, {0, 0}).mismatched, 0);
}

TEST(Compare, Extremes) {
  const auto c = compare({1, 2, 4.5, 0}, {1, 2.5, 4, 0}, {0, 0});
  EXPECT_EQ(c.max_abs, 0.5);
  EXPECT_DOUBLE_EQ(c.max_rel, 0.2);
  EXPECT_EQ(c.worst, 1);
  EXPECT_EQ(compare({}, {}, {0, 0}).worst, -1);
}

TEST(Compare, CountsUlps) {
  const float one_up = std::nextafter(1.0f, 2.0f);
  EXPECT_EQ(compare({one_up}, {1}, {1, 1}).max_ulp, 1u);
  EXPECT_EQ(analysis::ulp_distance(0.0, -0.0, MSDA_FLOAT32), 0u);
  EXPECT_EQ(analysis::ulp_distance(std::numeric_limits<float>::denorm_min(), -std::numeric_limits<float>::denorm_min(),
                                   MSDA_FLOAT32),
            2u);
  EXPECT_EQ(analysis::ulp_distance(1, 2, MSDA_FLOAT16), 1024u);
  EXPECT_EQ(analysis::ulp_distance(1, 2, MSDA_BFLOAT16), 128u);
  EXPECT_EQ(analysis::ulp_distance(1, 2, MSDA_FLOAT64), uint64_t{1} << 52);
  EXPECT_EQ(analysis::ulp_distance(-1, 1, MSDA_FLOAT64), uint64_t{2} * 0x3ff0000000000000);
}

TEST(Compare, LargeTensorsInPartsGiveTheSame) {
  const int64_t size = 300000;
  std::vector<double> observed(size), expected(size);
  std::vector<int64_t> wrong;
  for (int64_t i = 0; i < size; ++i) {
    observed[static_cast<size_t>(i)] = expected[static_cast<size_t>(i)] = static_cast<double>(i % 977);
    if (i % 4999 == 7) {
      observed[static_cast<size_t>(i)] += 1 + static_cast<double>(i) * 1e-6;
      wrong.push_back(i);
    }
  }
  const OwnedTensor o(observed, MSDA_FLOAT64, {size}), e(expected, MSDA_FLOAT32, {size});
  for (const int threads : {1, 2, 7}) {
    const auto c = analysis::compare(o.view, e.view, {0.5, 0}, NonFinite::kAsTorch, 1000, threads);
    EXPECT_EQ(c.mismatches, wrong);
    EXPECT_EQ(c.worst, wrong.back());
    const auto few = analysis::compare(o.view, e.view, {0.5, 0}, NonFinite::kAsTorch, 3, threads);
    EXPECT_EQ(few.mismatches, std::vector<int64_t>(wrong.begin(), wrong.begin() + 3));
    EXPECT_EQ(few.mismatched, static_cast<int64_t>(wrong.size()));
  }
}

}  // namespace
}  // namespace msda::tests
