// The search for an order of additions, against trying all orders.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "analysis/numbers/tensor.h"
#include "analysis/order/products.h"
#include "analysis/order/search.h"
#include "analysis/order/sum_types.h"

namespace msda::analysis {
namespace {

OrderProblem random_problem(std::mt19937& random, SumType type, size_t addends, size_t channels, bool starts_at_zero) {
  std::normal_distribution<double> normal;
  OrderProblem problem;
  problem.type = type;
  problem.channels = channels;
  for (size_t i = 0; i < addends * channels; ++i) problem.addends.push_back(rounded_to(normal(random), type.sum));
  for (size_t c = 0; c < channels; ++c) {
    problem.start.push_back(starts_at_zero ? 0 : rounded_to(normal(random), type.stored));
  }
  problem.recorded = problem.start;
  return problem;
}

Order random_order(std::mt19937& random, size_t count) {
  Order order(count);
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::shuffle(order, random);
  return order;
}

// For a sum that begins at zero, two orders that begin with the same two addends count as one.
int fitting_orders(const OrderProblem& problem) {
  const bool commutes = std::ranges::all_of(problem.start, [](double start) { return start == 0; });
  Order order(problem.size());
  std::iota(order.begin(), order.end(), 0u);
  int fitting = 0;
  do {
    if (commutes && order.size() > 1 && order[0] > order[1]) continue;
    fitting += channels_that_fit(problem, order) == problem.channels;
  } while (std::ranges::next_permutation(order).found);
  return fitting;
}

constexpr SumType kTypes[] = {{MSDA_FLOAT32, MSDA_FLOAT32}, {MSDA_FLOAT64, MSDA_FLOAT64},
                              {MSDA_FLOAT16, MSDA_FLOAT16}, {MSDA_BFLOAT16, MSDA_BFLOAT16},
                              {MSDA_FLOAT32, MSDA_FLOAT16}, {MSDA_FLOAT32, MSDA_BFLOAT16}};

TEST(OrderSearch, SaysWhatTryingAllOrdersSays) {
  std::mt19937 random(7);
  int impossible = 0, unique = 0, several = 0;
  for (int trial = 0; trial < 600; ++trial) {
    const SumType type = kTypes[trial % 6];
    const size_t addends = 1 + random() % 6;
    OrderProblem problem = random_problem(random, type, addends, 1 + random() % 9, trial % 3 != 0);
    problem.recorded = fold(problem, random_order(random, addends));
    if (trial % 2 == 0) {  // a word that may not be a sum in any order
      double& word = problem.recorded[random() % problem.channels];
      word = rounded_to(word * (1 + 1.01 * Precision::of(type.stored).unit), type.stored);
    }
    const int fitting = fitting_orders(problem);
    const OrderResult result = search_order(problem, {});
    ASSERT_EQ(result.fit, fitting > 0 ? OrderFit::kFound : OrderFit::kImpossible) << "trial " << trial;
    if (fitting > 0) {
      ASSERT_EQ(channels_that_fit(problem, result.order), problem.channels);
      ASSERT_EQ(result.unique, std::optional(fitting == 1)) << "trial " << trial;
    }
    ++(fitting == 0 ? impossible : fitting == 1 ? unique : several);
  }
  EXPECT_GT(impossible, 50);
  EXPECT_GT(unique, 100);
  EXPECT_GT(several, 50);
}

TEST(OrderSearch, FindsAnOrderOfManyAddends) {
  std::mt19937 random(8);
  for (const size_t addends : {10u, 12u, 14u}) {
    OrderProblem problem = random_problem(random, kTypes[0], addends, 32, true);
    problem.recorded = fold(problem, random_order(random, addends));
    const OrderResult result = search_order(problem, {});
    ASSERT_EQ(result.fit, OrderFit::kFound);
    EXPECT_EQ(channels_that_fit(problem, result.order), 32u);
    // Without one of them there is none.
    EXPECT_EQ(search_order(problem.without(3), {}).fit, OrderFit::kImpossible);
    EXPECT_EQ(search_order(problem.twice(3), {}).fit, OrderFit::kImpossible);
  }
}

TEST(OrderSearch, ConsidersEveryOfManyChannels) {
  std::mt19937 random(12);
  OrderProblem problem = random_problem(random, kTypes[0], 6, 200, true);
  problem.recorded = fold(problem, random_order(random, 6));
  EXPECT_EQ(search_order(problem, {}).fit, OrderFit::kFound);
  problem.recorded[199] = std::nextafter(static_cast<float>(problem.recorded[199]), 1e9f);
  EXPECT_EQ(search_order(problem, {}).fit, fitting_orders(problem) > 0 ? OrderFit::kFound : OrderFit::kImpossible);
  EXPECT_EQ(fitting_orders(problem), 0);
}

TEST(OrderSearch, AnnealsFromTheOrderOfTheSamples) {
  std::mt19937 random(9);
  OrderProblem problem = random_problem(random, kTypes[0], 24, 32, true);
  for (double& addend : problem.addends) addend = std::abs(addend);
  Order order(24);
  std::iota(order.begin(), order.end(), 0u);
  for (const size_t i : {3u, 11u, 20u}) std::swap(order[i], order[i + 1]);
  problem.recorded = fold(problem, order);
  SearchLimits limits;
  limits.moves = 400'000;
  const OrderResult result = search_order(problem, limits);
  ASSERT_EQ(result.fit, OrderFit::kFound);
  EXPECT_EQ(channels_that_fit(problem, result.order), 32u);
  EXPECT_EQ(result.unique, std::nullopt);
}

TEST(OrderSearch, AddendsOfZeroAndEqualOnesMakeNoOtherOrder) {
  OrderProblem problem;
  problem.channels = 2;
  problem.start = {0, 0};
  problem.addends = {1e8f, 3, 0, 0, 1, 1, 1, 1, -1e8f, 5};
  problem.recorded = fold(problem, {0, 1, 4, 2, 3});
  const OrderResult result = search_order(problem, {});
  ASSERT_EQ(result.fit, OrderFit::kFound);
  EXPECT_EQ(result.unique, std::optional(true));
  EXPECT_EQ(result.order, (Order{0, 4, 2, 3, 1}));
}

TEST(OrderSearch, KnowsTheSignOfZeroAndRefusesInfinity) {
  OrderProblem problem;
  problem.channels = 1;
  problem.start = {0};
  problem.addends = {1, -1};
  problem.recorded = {0.0};
  EXPECT_EQ(search_order(problem, {}).fit, OrderFit::kFound);
  problem.recorded = {-0.0};
  EXPECT_EQ(search_order(problem, {}).fit, OrderFit::kImpossible);
  problem.recorded = {INFINITY};
  EXPECT_EQ(search_order(problem, {}).fit, OrderFit::kNotFound);
}

// An H200's RED.ADD.F32.FTZ gives 0 for 1.4e-43 + 2.8e-43. What may be flushed is no proof.
TEST(OrderSearch, ProvesNothingOfFlushedSubnormals) {
  const std::pair<double, OrderFit> scales[] = {
      {1.0, OrderFit::kImpossible}, {0x1p-140, OrderFit::kFound}, {0x1p-120, OrderFit::kNotFound}};
  for (const auto& [scale, fit] : scales) {
    OrderProblem problem;
    problem.channels = 1;
    problem.addends = {scale, 2 * scale, 4 * scale};
    problem.start = {0};
    problem.recorded = {0};
    EXPECT_EQ(search_order(problem, {}).fit, fit) << scale;
    problem.recorded = {7 * scale};
    EXPECT_EQ(search_order(problem, {}).fit, OrderFit::kFound);
    problem.type = {MSDA_FLOAT64, MSDA_FLOAT64};
    problem.recorded = {0};
    EXPECT_EQ(search_order(problem, {}).fit, OrderFit::kImpossible) << scale;
  }
}

TEST(OrderSearch, FindsOrdersOfSumsThatFlushSubnormals) {
  std::mt19937 random(12);
  const auto kept = [](float x) { return std::abs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; };
  int flushing = 0;
  for (int trial = 0; trial < 200; ++trial) {
    OrderProblem problem = random_problem(random, kTypes[0], 3 + random() % 7, 6, trial % 2 != 0);
    for (double& addend : problem.addends) addend = rounded_to(addend * 0x1p-125, MSDA_FLOAT32);
    for (double& start : problem.start) start = rounded_to(start * 0x1p-125, MSDA_FLOAT32);
    const Order order = random_order(random, problem.size());
    for (size_t c = 0; c < problem.channels; ++c) {
      auto sum = static_cast<float>(problem.start[c]);
      for (const uint32_t i : order) sum = kept(kept(sum) + kept(static_cast<float>(problem.addend(i)[c])));
      problem.recorded[c] = sum;
    }
    const OrderResult found = search_order(problem, {});
    ASSERT_EQ(found.fit, OrderFit::kFound) << trial;
    EXPECT_FALSE(found.unique.has_value());
    problem.type.flushes = found.flushes;
    EXPECT_EQ(fold(problem, found.order), problem.recorded);
    flushing += found.flushes;
  }
  EXPECT_GT(flushing, 150);
}

TEST(OrderSearch, GivesUpWithoutAClaim) {
  std::mt19937 random(10);
  OrderProblem problem = random_problem(random, kTypes[0], 12, 4, true);
  problem.recorded = fold(problem, random_order(random, 12));
  SearchLimits limits;
  limits.steps = 3;
  limits.moves = 0;
  EXPECT_EQ(search_order(problem, limits).fit, OrderFit::kNotFound);
}

template <class Type>
class SumTypes : public testing::Test {};
using AllSumTypes = testing::Types<Float16Sum, BFloat16Sum, Float32Sum, FlushingFloat32Sum, Float64Sum>;
TYPED_TEST_SUITE(SumTypes, AllSumTypes);

TYPED_TEST(SumTypes, TheRangeBeforeAnAdditionIsExact) {
  using Real = typename TypeParam::Real;
  std::mt19937_64 random(11);
  // Among the smallest normal numbers, where sums may be flushed.
  const double shift = std::is_same_v<TypeParam, FlushingFloat32Sum> ? -120 : 0;
  std::uniform_real_distribution<double> exponent(shift - 9, shift + 9), sign(-1, 1);
  for (int i = 0; i < 200'000; ++i) {
    const auto any = [&] { return TypeParam::round(std::copysign(std::exp2(exponent(random)), sign(random))); };
    const Real addend = any();
    const Real bound = i % 2 == 0 ? any() : TypeParam::add(addend, any());
    const Real lowest = lowest_before<TypeParam>(bound, addend), highest = highest_before<TypeParam>(bound, addend);
    ASSERT_GE(TypeParam::add(lowest, addend), bound);
    ASSERT_LT(TypeParam::add(TypeParam::below(lowest), addend), bound);
    ASSERT_LE(TypeParam::add(highest, addend), bound);
    ASSERT_GT(TypeParam::add(TypeParam::above(highest), addend), bound);
  }
}

TEST(Products, AreAllThereAre) {
  const std::vector<Product> products = all_products({"g", "a", "y", "x"}, {"((g*a)*y)*x", "(g*a)*(y*x)"});
  EXPECT_EQ(products.size(), 15u);
  EXPECT_EQ(products[0].name, "((g*a)*y)*x");
  EXPECT_EQ(products[1].name, "(g*a)*(y*x)");
  const float g = 1.1f, a = 0.7f, y = 0.3f, x = 0.9f;
  const double others[] = {a, y, x};
  const auto product = [&](const char* name) {
    const auto found = std::ranges::find(products, name, &Product::name);
    double value[] = {g};
    multiply(*found, MSDA_FLOAT32, value, others);
    return static_cast<float>(value[0]);
  };
  EXPECT_EQ(product("((g*a)*y)*x"), ((g * a) * y) * x);
  EXPECT_EQ(product("(g*a)*(y*x)"), (g * a) * (y * x));
  EXPECT_EQ(product("(g*(a*x))*y"), (g * (a * x)) * y);
  EXPECT_EQ(product("g*((a*y)*x)"), g * ((a * y) * x));
  EXPECT_EQ(all_products({"g"}, {}).front().name, "g");
}

}  // namespace
}  // namespace msda::analysis
