// The probability that at least one of several tests fails, against tests whose probabilities are known.
#include "analysis/stress/suite.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

namespace msda::tests {
namespace {

namespace stress = analysis::stress;
using stress::TestRuns;

TEST(Suite, CountsTheRunsInWhichAnyTestFails) {
  // With 10, 8 and 9 runs, the suite has 8. The first and the third test fail together in run 3; runs 8 and 9 do not
  // count.
  const std::vector<TestRuns> tests = {{10, {1, 3, 8, 9}}, {8, {}}, {9, {3, 7, 8}}};
  const auto known = stress::any_fails(tests, 0.95), expected = stress::proportion(3, 8, 0.95);
  EXPECT_EQ(known.hits, 3);
  EXPECT_EQ(known.runs, 8);
  EXPECT_EQ(known.low, expected.low);
  EXPECT_EQ(known.high, expected.high);
}

TEST(Suite, OfOneTestIsThatTest) {
  const std::vector<TestRuns> tests = {{40, {0, 12, 39}}};
  const auto known = stress::any_fails(tests, 0.9), expected = stress::proportion(3, 40, 0.9);
  EXPECT_EQ(known.estimate, expected.estimate);
  EXPECT_EQ(known.low, expected.low);
  EXPECT_EQ(known.high, expected.high);
}

TEST(Suite, OfNoTestsKnowsNothing) {
  const auto known = stress::any_fails({}, 0.95);
  EXPECT_EQ(known.runs, 0);
  EXPECT_EQ(known.low, 0);
  EXPECT_EQ(known.high, 1);
}

// Runs a test as stress() does, until its own interval is narrow: how many there are depends on how many fail.
TestRuns run_until_narrow(double probability, double width, std::mt19937_64& random) {
  constexpr int64_t kBatch = 64;
  std::bernoulli_distribution fails(probability);
  TestRuns test;
  for (;;) {
    for (int64_t end = test.runs + kBatch; test.runs < end; ++test.runs) {
      if (fails(random)) test.failing.push_back(test.runs);
    }
    const auto known = stress::proportion(static_cast<int64_t>(test.failing.size()), test.runs, 0.95);
    if (known.high - known.low <= width) return test;
  }
}

// Independent tests fail with the probability 1 - (1 - p)(1 - q)...
TEST(Suite, CoversTheProbabilityOfIndependentTestsAsOftenAsItSays) {
  constexpr int kSuites = 2000;
  std::mt19937_64 random(18);
  const std::vector<std::vector<double>> suites = {
      {0.02, 0.05, 0.1}, {0.08, 0.08}, {0.3, 0.001, 0}, std::vector<double>(40, 0.002), {0.5, 0.6}};
  for (const auto& probabilities : suites) {
    double all_pass = 1, sum = 0;
    for (const double p : probabilities) all_pass *= 1 - p;
    int covered = 0;
    for (int i = 0; i < kSuites; ++i) {
      std::vector<TestRuns> tests;
      for (const double p : probabilities) tests.push_back(run_until_narrow(p, 0.08, random));
      const auto known = stress::any_fails(tests, 0.95);
      covered += known.low <= 1 - all_pass && 1 - all_pass <= known.high;
      sum += known.estimate;
    }
    const double error = std::sqrt(0.95 * 0.05 / kSuites);
    EXPECT_GE(covered, (0.95 - 2 * error) * kSuites) << probabilities.size() << " tests, " << 1 - all_pass;
    // Where few runs fail a test stops sooner, which takes a little from the mean.
    EXPECT_NEAR(sum / kSuites, 1 - all_pass, 0.01) << probabilities.size() << " tests";
  }
}

}  // namespace
}  // namespace msda::tests
