// The bounds on rounding: no float32 arithmetic exceeds them, and they are tight enough to reveal a mistake.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "analysis/model/explain.h"
#include "analysis/numbers/rounding.h"
#include "analysis/operators/msda/call.h"
#include "tests/support/problem.h"
#include "tests/support/unfused.h"

namespace msda::tests {
namespace {

using analysis::Conventions;
using analysis::Gradient;
using analysis::Precision;

// A call without tensors, for what depends on the conventions alone.
analysis::MsdaCall with(const Conventions& conventions) {
  analysis::MsdaCall call;
  call.conventions = conventions;
  return call;
}

const Precision kFloat = Precision::of(MSDA_FLOAT32);

// The coordinate as kernels and libraries evaluate it: fused or not, or rearranged as in PyTorch's CPU path or cuDNN.
std::vector<float> float_coordinates(const Conventions& c, float location, int32_t side) {
  const auto size = static_cast<float>(side);
  if (c.dialect != MSDA_GRID_SAMPLE) {
    if (c.align_corners) return {multiply(location, size - 1)};
    return {std::fma(location, size, -0.5f), add(multiply(location, size), -0.5f)};
  }
  const float grid = add(multiply(2, location), -1);
  if (c.align_corners) {
    return {multiply(multiply(add(grid, 1), 0.5f), size - 1), multiply(add(grid, 1), (size - 1) / 2),
            std::fma(grid, (size - 1) / 2, (size - 1) / 2)};
  }
  return {multiply(add(multiply(add(grid, 1), size), -1), 0.5f), multiply(std::fma(add(grid, 1), size, -1.0f), 0.5f),
          add(multiply(add(grid, 1), size / 2), -0.5f), multiply(std::fma(grid, size, size - 1), 0.5f)};
}

TEST(Bounds, HoldForEveryWayToComputeACoordinate) {
  std::mt19937_64 random(1);
  for (const Conventions& c : all_conventions()) {
    double closest = 0;
    for (int i = 0; i < 20000; ++i) {
      const auto side = static_cast<int32_t>(1 + random() % 2000);
      const float location = std::ldexp(static_cast<float>(random() >> 40), -24 - static_cast<int>(random() % 8)) *
                             (random() % 10 == 0 ? -3.0f : 1.0f);
      const auto [exact, error] = with(c).coordinate({location, side, MSDA_FLOAT32}, kFloat);
      const long double truth =
          static_cast<long double>(location) * (c.align_corners ? side - 1 : side) - (c.align_corners ? 0 : 0.5L);
      ASSERT_NEAR(exact, static_cast<double>(truth), 1e-15 * side * std::max(1.0f, std::abs(location)));
      for (const float computed : float_coordinates(c, location, side)) {
        const double off = std::abs(static_cast<double>(computed - truth));
        ASSERT_LE(off, error) << msda_dialect_name(c.dialect) << " " << location << " " << side;
        if (error > 0) closest = std::max(closest, off / error);
      }
    }
    EXPECT_GT(closest, 0.4) << "a bound that nothing comes near decides nothing";
  }
}

TEST(Bounds, LandingsHoldTheCellOfEveryEvaluation) {
  std::mt19937_64 random(2);
  for (const Conventions& c : all_conventions()) {
    int at_boundaries = 0;
    for (int i = 0; i < 20000; ++i) {
      const auto side = static_cast<int32_t>(2 + random() % 300);
      // At a pixel centre, a few float32 numbers off.
      const int32_t span = c.align_corners ? side - 1 : side;
      const auto pixel = static_cast<double>(static_cast<int64_t>(random() % static_cast<uint64_t>(side + 2)) - 1);
      auto location = static_cast<float>((pixel + (c.align_corners ? 0 : 0.5)) / span);
      for (uint64_t steps = random() % 5; steps > 0; --steps) location = std::nextafter(location, 10.0f);
      const auto landings = with(c).landings({location, side, MSDA_FLOAT32}, kFloat);
      at_boundaries += landings.size() > 1;
      for (const float computed : float_coordinates(c, location, side)) {
        if (c.dialect == MSDA_DEFORMABLE_DETR && !(computed > -1 && computed < static_cast<float>(side))) continue;
        const bool clipped = c.dialect == MSDA_GRID_SAMPLE && c.padding == MSDA_PADDING_BORDER &&
                             (computed <= 0 || computed >= static_cast<float>(side - 1));
        const bool found = std::ranges::any_of(landings, [&](const analysis::Landing& landing) {
          if (clipped || landing.clipped) return clipped && landing.clipped;
          const bool clamped = c.dialect == MSDA_MSDA_TRITON && c.padding == MSDA_PADDING_BORDER;
          const double lowest = clamped ? -1 : -2, highest = clamped ? side - 1 : side;
          return landing.low == std::clamp<double>(std::floor(computed), lowest, highest) ||
                 (landing.region == analysis::Landing::kOutside &&
                  (computed < -1 || computed >= static_cast<float>(side)));
        });
        ASSERT_TRUE(found) << msda_dialect_name(c.dialect) << " " << c.padding << c.align_corners << " location "
                           << location << " side " << side << " computed " << computed;
      }
    }
    EXPECT_GT(at_boundaries, 1000);
  }
}

// Every replay of ours is explained; no value that is off by more than twice the bound is.
TEST(Bounds, ExplainEveryReplayAndNoMistake) {
  for (const msda_dtype dtype : {MSDA_FLOAT32, MSDA_FLOAT16, MSDA_FLOAT64}) {
    for (uint64_t seed = 0; seed < 45; ++seed) {
      const Problem problem = random_problem(seed, dtype);
      const analysis::MsdaCall call = problem.call();
      for (const msda_mode mode : {MSDA_MODE_DETERMINISTIC, MSDA_MODE_ATOMIC}) {
        const Gradients gradients = run_backward(problem, {mode, 0, seed, 0});
        const analysis::Side side = gradients.side("recorded");
        const auto cache = call.new_cache();
        for (const Gradient gradient : analysis::MsdaGradient::kAll) {
          const int64_t total = side.of(gradient).elements();
          for (int64_t flat = 0; flat < total; flat += 1 + total / 100) {
            const auto id = call.element_id(gradient, flat);
            const auto explanation = explain(call, side, id, *cache);
            const auto& exact = explanation.exact();
            if (std::isnan(exact.element.value) || std::isnan(explanation.value)) continue;
            ASSERT_TRUE(explanation.explained())
                << problem.text() << " " << name_of(gradient) << " " << flat << ": " << explanation.value << " is not "
                << exact.element.value << " within " << exact.bound;
            if (explanation.candidates.size() > 1 || !std::isfinite(exact.bound)) continue;
            // Beyond the bound, and beyond what orders of the addends reach.
            const double mistake = exact.element.value + 4 * exact.bound + 1e-6 * exact.element.cancelled + 1e-300;
            ASSERT_FALSE(explain(call, side, id, mistake, *cache).explained())
                << problem.text() << " " << name_of(gradient) << " " << flat << ": " << mistake << " passes for "
                << exact.element.value;
          }
        }
      }
    }
  }
}

// Sums of random terms, added in float32 in random orders, never exceed the bound, and come near it.
TEST(Bounds, OfSumsHoldAndAreClose) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  for (const int count : {2, 5, 40, 300, 5000}) {
    for (const double mean : {0.0, 0.2, 3.0}) {
      double closest = 0;
      for (int i = 0; i < 400; ++i) {
        analysis::SumBound bound;
        float sum = 0;
        long double exact = 0;
        for (int k = 0; k < count; ++k) {
          const auto term = static_cast<float>(normal(random) + mean);
          bound.add(term, k % 4, 1);
          sum = add(sum, term);
          exact += term;
        }
        const double error = static_cast<double>(std::abs(sum - exact));
        ASSERT_LE(error, bound.bound(kFloat)) << count << " terms of mean " << mean;
        closest = std::max(closest, error / bound.bound(kFloat));
      }
      EXPECT_GT(closest, 0.02) << count << " terms of mean " << mean;
    }
  }
}

// Terms that come together, as those of another sum, count as if each had come alone.
TEST(Bounds, OfTwoSumsTogetherAreThoseOfAllTheirTerms) {
  analysis::SumBound all, some, others;
  for (int i = 0; i < 40; ++i) {
    const double term = (i % 3 == 0 ? -1 : 1) * std::ldexp(1.0, i % 7);  // sums of these are exact in any order
    all.add(term, i % 4, i);
    (i % 5 < 2 ? some : others).add(term, i % 4, i);
  }
  some.add(others);
  EXPECT_EQ(some.terms(), 40);
  EXPECT_EQ(some.sum(), all.sum());
  EXPECT_EQ(some.magnitude(), all.magnitude());
  EXPECT_EQ(some.certain(kFloat), all.certain(kFloat));
  EXPECT_EQ(some.bound(kFloat), all.bound(kFloat));
}

// Ten thousand equal addends: their roundings are all biased one way, more than independent roundings.
TEST(Bounds, OfEqualAddendsAreFoundByTryingOrders) {
  Problem problem =
      make_problem({1, 1, 1, 10000, 1, {{1, 1}}}, {MSDA_MSDA_TRITON, MSDA_PADDING_BORDER, false}, MSDA_FLOAT32, 1);
  for (int64_t i = 0; i < 10000; ++i) {
    problem.grad_output.set(i, 1);
    problem.attention_weights.set(i, 0.1f);
    problem.sampling_locations.set(2 * i, 0.5);
    problem.sampling_locations.set(2 * i + 1, 0.5);
  }
  const analysis::MsdaCall call = problem.call();
  const auto cache = call.new_cache();
  const Gradients gradients = run_backward(problem, {MSDA_MODE_ATOMIC, 0, 0, 0});
  const auto explanation =
      explain(call, gradients.side("recorded"), call.element_id(analysis::MsdaGradient::kValue, 0), *cache);
  EXPECT_GT(explanation.exact().residual, 0.01);
  EXPECT_TRUE(explanation.explained());
}

// A location that float32 rounds into the next cell. Other orders of that cell's addends explain that cell's gradient,
// not whatever lies between the two.
TEST(Bounds, OrdersOfAnotherCellsAddendsExplainNothing) {
  Problem problem =
      make_problem({1, 1, 32, 20, 2, {{64, 64}}}, {MSDA_GRID_SAMPLE, MSDA_PADDING_ZEROS, false}, MSDA_FLOAT32, 5);
  problem.sampling_locations.set(0, 0x1.bffffep-5);  // 2.9999998 pixels, 3 in float32
  for (int64_t i = 0; i < problem.value.view.elements(); ++i) problem.value.set(i, 10000 + problem.value.view.at(i));
  const analysis::MsdaCall call = problem.call();
  const auto cache = call.new_cache();
  const Gradients gradients = run_backward(problem);
  const analysis::Side side = gradients.side("recorded");
  const auto id = call.element_id(analysis::MsdaGradient::kSamplingLocations, 0);
  const auto recorded = explain(call, side, id, *cache);
  ASSERT_EQ(recorded.matches, std::vector<size_t>{1});
  const auto &below = recorded.candidates[0], &there = recorded.candidates[1];
  const double jump = there.element.value - below.element.value;
  ASSERT_GT(std::abs(jump), 10 * there.bound);
  for (const double share : {0.3, 0.4, 0.5, 0.6, 0.7}) {
    EXPECT_FALSE(explain(call, side, id, below.element.value + share * jump, *cache).explained()) << share;
  }
}

}  // namespace
}  // namespace msda::tests
