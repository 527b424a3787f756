// Simulated runs: generators against the distributions that they are named after, intervals against published numbers,
// and the screen against comparing every element.
#include "analysis/stress/stress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include "analysis/operators/grid_sample/call.h"
#include "analysis/operators/msda/loops.h"
#include "analysis/stress/advise.h"
#include "analysis/stress/loops.h"
#include "tests/support/problem.h"

namespace msda::tests {
namespace {

namespace stress = analysis::stress;
using analysis::Arithmetic;
using analysis::MsdaGradient;
using stress::Generator;

#if defined(__x86_64__)
// A build that forgot one copy would give the same bits, at half the speed.
TEST(Loops, AreThoseOfTheProcessor) {
  if (std::getenv("MSDA_CPU_ISA") != nullptr) GTEST_SKIP() << "MSDA_CPU_ISA is set";
  const bool wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  EXPECT_STREQ(stress::loops().isa, wide ? "x86_64_v3" : "baseline");
}
#endif

TEST(Proportion, HasTheIntervalsOfClopperAndPearson) {
  // Published tables: 0 and 5 of 10.
  const auto none = stress::proportion(0, 10, 0.95), half = stress::proportion(5, 10, 0.95);
  EXPECT_EQ(none.low, 0);
  EXPECT_NEAR(none.high, 0.3084971, 1e-6);
  EXPECT_NEAR(half.low, 0.1870860, 1e-6);
  EXPECT_NEAR(half.high, 0.8129140, 1e-6);
  const auto all = stress::proportion(10, 10, 0.95);
  EXPECT_NEAR(all.low, 1 - 0.3084971, 1e-6);
  EXPECT_EQ(all.high, 1);
  const auto nothing = stress::proportion(0, 0, 0.95);
  EXPECT_EQ(nothing.low, 0);
  EXPECT_EQ(nothing.high, 1);
}

TEST(Proportion, CoversEveryProbabilityAsOftenAsItSays) {
  // The exact probability that the interval of 40 trials holds p, summed over all outcomes.
  constexpr int kTrials = 40;
  for (const double p : {0.01, 0.084, 0.3, 0.5, 0.97}) {
    double covered = 0, mass = std::pow(1 - p, kTrials);
    for (int hits = 0; hits <= kTrials; ++hits) {
      const auto interval = stress::proportion(hits, kTrials, 0.95);
      if (interval.low <= p && p <= interval.high) covered += mass;
      mass *= p / (1 - p) * (kTrials - hits) / (hits + 1);
    }
    EXPECT_GE(covered, 0.95) << p;
  }
}

// What `slices` of tests need: by the inverse of the survival function of a generalized Pareto distribution.
double quantile(double shape, double share_above) {
  return shape > 0 ? (std::pow(share_above, -shape) - 1) / shape : -std::log(share_above);
}

TEST(Advise, TakesNoTailToBeShorterThanItIs) {
  constexpr int64_t kSlices = 8'000;
  constexpr double kShare = 1e-6, kLeast = 1;
  constexpr int kRepeats = 200;
  for (const double shape : {0.0, 0.1, 0.2}) {
    std::mt19937_64 random(7);
    std::uniform_real_distribution<double> uniform(1e-12, 1);
    int too_short = 0, too_long = 0;
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      std::vector<double> needed;
      for (int64_t slice = 0; slice < kSlices; ++slice) {
        const double needs = quantile(shape, uniform(random));
        if (needs > kLeast) needed.push_back(needs);
      }
      const double reported = stress::tolerance_of_all_but(kShare, needed, kSlices, kLeast),
                   truth = quantile(shape, kShare);
      too_short += 1.25 * reported < truth;  // advise adds a quarter
      too_long += reported > 8 * truth;
    }
    EXPECT_LE(too_short, kRepeats / 20) << shape;
    EXPECT_LE(too_long, kRepeats / 20) << shape;
  }
}

TEST(Advise, TellsTolerancesOfFewAndOfNoSlices) {
  EXPECT_EQ(stress::tolerance_of_all_but(1e-6, {}, 1000, 0.5), 0.5);
  EXPECT_EQ(stress::tolerance_of_all_but(1e-6, {}, 0, 0.5), 0.5);
  EXPECT_EQ(stress::tolerance_of_all_but(0.1, {3, 1, 2}, 100, 0.5), 3);  // what was seen, never less
  const double of_one = stress::tolerance_of_all_but(1e-6, {0.75}, 1000, 0.5);
  EXPECT_TRUE(std::isfinite(of_one));
  EXPECT_GT(of_one, 0.75);
  const double of_equals = stress::tolerance_of_all_but(1e-6, std::vector<double>(100, 0.75), 1000, 0.5);
  EXPECT_TRUE(std::isfinite(of_equals));
  EXPECT_GE(of_equals, 0.75);
  EXPECT_EQ(stress::tolerance_of_all_but(1e-6, {INFINITY, 1}, 1000, 0.5), INFINITY);
}

std::vector<float> drawn(const Generator& generator, int64_t count, uint64_t seed = 1) {
  std::vector<float> numbers(static_cast<size_t>(count));
  std::vector<uint32_t> bits;
  stress::draw(generator, seed, count, numbers.data(), bits);
  return numbers;
}

// curand_uniform and PyTorch's treatment of its bounds, in float64: the nearest float32 of x * 2^-32, then of that plus
// 2^-33; 1 becomes 0.
float uniform_of(uint32_t x) {
  const auto rounded = static_cast<float>(static_cast<double>(x));
  const auto result = static_cast<float>(static_cast<double>(rounded) * 0x1p-32 + 0x1p-33);
  return result == 1 ? 0 : result;
}

TEST(Generator, MakesUniformNumbersAsTheCudaGeneratorDoes) {
  const auto& loops = stress::loops();
  std::vector<uint32_t> bits{0,          1,          2,          255,        256,        0x00ffffff,
                             0x01000001, 0x7fffffff, 0x80000000, 0xffffff7f, 0xffffff80, 0xffffffff};
  for (uint32_t i = 0; i < 1000; ++i) bits.push_back(i * 2654435761u);
  std::vector<float> numbers(bits.size());
  loops.uniform_32(bits.data(), numbers.data(), static_cast<int64_t>(bits.size()));
  for (size_t i = 0; i < bits.size(); ++i) EXPECT_EQ(numbers[i], uniform_of(bits[i])) << bits[i];
  EXPECT_EQ(uniform_of(0xffffff80), 0);  // 128 of 2^32 give 1, which becomes 0
  EXPECT_EQ(uniform_of(0xffffff7f), 1 - 0x1p-24f);
  loops.uniform_24(bits.data(), numbers.data(), static_cast<int64_t>(bits.size()));
  for (size_t i = 0; i < bits.size(); ++i) EXPECT_EQ(numbers[i], static_cast<double>(bits[i] >> 8) * 0x1p-24);
}

TEST(Generator, DrawsTheDistributionThatItNames) {
  constexpr int64_t kCount = 200'001;
  struct Case {
    const char* text;
    double mean, deviation, fourth;  // the standardized fourth moment
  };
  for (const Case& c : {Case{"uniform(0,1)", 0.5, std::sqrt(1 / 12.0), 1.8},
                        Case{"uniform24(-1,3)", 1, 4 / std::sqrt(12.0), 1.8}, Case{"normal(2,0.5)", 2, 0.5, 3}}) {
    const auto numbers = drawn(stress::parse_generator(c.text, {}), kCount);
    double mean = 0, square = 0, fourth = 0;
    for (const float x : numbers) mean += x;
    mean /= static_cast<double>(kCount);
    for (const float x : numbers) {
      const double z = (x - mean) * (x - mean);
      square += z;
      fourth += z * z;
    }
    const double variance = square / static_cast<double>(kCount);
    EXPECT_NEAR(mean, c.mean, 5 * c.deviation / std::sqrt(kCount)) << c.text;
    EXPECT_NEAR(std::sqrt(variance), c.deviation, 0.01 * c.deviation) << c.text;
    EXPECT_NEAR(fourth / static_cast<double>(kCount) / variance / variance, c.fourth, 0.06) << c.text;
    // Tails: Kolmogorov's distance.
    if (c.fourth != 3) continue;
    auto sorted = numbers;
    std::ranges::sort(sorted);
    double farthest = 0;
    for (size_t i = 0; i < sorted.size(); ++i) {
      const double expected = 0.5 * std::erfc(-(sorted[i] - c.mean) / c.deviation / std::sqrt(2.0));
      farthest = std::max(farthest, std::abs(expected - (static_cast<double>(i) + 0.5) / static_cast<double>(kCount)));
    }
    EXPECT_LT(farthest, 1.9 / std::sqrt(kCount));
  }
  const auto weights = drawn(stress::parse_generator("softmax(1,3)", {nullptr, MSDA_FLOAT32, {3}}), 30'000);
  double logarithms = 0;
  for (size_t i = 0; i < weights.size(); i += 3) {
    EXPECT_NEAR(weights[i] + weights[i + 1] + weights[i + 2], 1, 4e-7);
    logarithms += std::pow(std::log(weights[i] / weights[i + 1]), 2);
  }
  EXPECT_NEAR(logarithms / 10'000, 2, 0.15);  // the difference of two normal numbers
}

TEST(Generator, IsRecognizedInWhatItDrew) {
  for (const char* text : {"uniform(0,1)", "uniform24(0,1)", "uniform(-1,1)", "normal(0,1)", "softmax(1,6)"}) {
    const analysis::Tensor shape{nullptr, MSDA_FLOAT32, {100, 6}};
    const auto numbers = drawn(stress::parse_generator(text, shape), 24'000);
    const analysis::Tensor tensor{numbers.data(), MSDA_FLOAT32, {4000, 6}};
    EXPECT_EQ(stress::fit_generator(tensor, {3, 6}).text(), text);
  }
  // Neither of these: the recorded numbers themselves.
  auto numbers = drawn(stress::parse_generator("normal(0,1)", {}), 24'000);
  for (float& x : numbers) x = x * x * x;
  EXPECT_EQ(stress::fit_generator({numbers.data(), MSDA_FLOAT32, {24'000}}, {}).kind, Generator::Kind::kResample);
}

TEST(Generator, RefusesWhatItDoesNotKnow) {
  for (const char* text : {"", "gamma(1,2)", "uniform(1,0)", "uniform(0,1", "normal(0,-1)", "normal(0)", "normal(a,b)",
                           "softmax(1,0)", "softmax(1,7)", "uniform(0,1,2)", "normal(nan,1)", "uniform()"}) {
    EXPECT_THROW(stress::parse_generator(text, {nullptr, MSDA_FLOAT32, {100}}), std::invalid_argument) << text;
  }
}

// A plan for problems of these sizes.
stress::Plan plan_of(const analysis::Call& call, const Arithmetic& expected, const analysis::Tolerance& tolerance,
                     const std::vector<std::string>& generators) {
  stress::Plan plan;
  plan.slices = call.slices({});
  const auto inputs = call.inputs();
  for (size_t i = 0; i < inputs.size(); ++i)
    plan.inputs.push_back(stress::parse_generator(generators[i], inputs[i].tensor));
  plan.observed = {"observed", MSDA_MODE_ATOMIC, expected.contracted};
  plan.expected = expected;
  plan.criterion.tolerance = tolerance;
  plan.seed = 3;
  return plan;
}

using Place = std::tuple<int64_t, int64_t, size_t, int64_t, double, double>;
std::set<Place> misses_of(const stress::Plan& plan, int runs, double& needed_atol) {
  std::set<Place> places;
  stress::Simulator simulator(plan);
  for (int run = 0; run < runs; ++run) {
    const stress::Run result = simulator.run(run);
    EXPECT_EQ(result.fails, result.missed > 0);
    EXPECT_EQ(result.missed, static_cast<int64_t>(result.misses.size()));
    needed_atol = std::max(needed_atol, result.needed_atol);
    for (const auto& miss : result.misses) {
      places.insert({run, miss.slice, miss.gradient.place(), miss.flat, miss.observed, miss.expected});
    }
  }
  return places;
}

// The screen leaves out no element that is out of tolerance: the same runs with every element compared.
TEST(Screen, FindsWhatComparingEveryElementFinds) {
  Sizes sizes;
  sizes.B = 2;
  sizes.M = 2;
  sizes.D = 9;
  sizes.Q = 150;
  sizes.P = 3;
  sizes.levels = {{200, 300}, {9, 7}, {1, 5}};  // a large side: rounding moves a coordinate far
  std::map<std::string, size_t> found;
  for (const auto& conventions : all_conventions()) {
    const Problem problem = make_problem(sizes, conventions, MSDA_FLOAT32, 1);
    const auto call = problem.call();
    for (const Arithmetic& expected : call.arithmetics()) {
      for (const auto& tolerance : {analysis::Tolerance{1e-4, 1e-3}, {1e-3, 1e-2}, {0, 1e-2}}) {
        for (const char* locations : {"uniform(0,1)", "uniform(-0.05,0.02)", "normal(0.5,0.4)"}) {
          stress::Plan plan = plan_of(
              call, expected, tolerance,
              {"normal(0,1)", locations, "softmax(1,3)", tolerance.atol == 1e-4 ? "normal(0,1)" : "uniform(0,1)"});
          double needed = 0, needed_of_all = 0;
          const auto screened = misses_of(plan, 1, needed);
          plan.every_element = true;
          EXPECT_EQ(screened, misses_of(plan, 1, needed_of_all))
              << problem.text() << " against " << expected.name << ", " << locations;
          EXPECT_EQ(needed, needed_of_all);
          found[expected.name] += screened.size();
        }
      }
    }
  }
  for (const char* name : {"grid_sample", "float64"}) EXPECT_GT(found[name], 50u) << name;
}

// A location just left of a boundary below 1/4, where grid_sample's 2*location - 1 rounds onto it; one away from all;
// and 0.
TEST(Screen, TellsCausesApart) {
  Sizes sizes;
  sizes.levels = {{64, 64}};
  sizes.Q = 1;
  sizes.P = 1;
  const analysis::Conventions conventions{MSDA_MSDA_TRITON, MSDA_PADDING_BORDER, false};
  Problem problem = make_problem(sizes, conventions, MSDA_FLOAT32, 1);
  const float boundary = 3.5f / 64, before = std::nextafter(boundary, 0.0f);
  problem.sampling_locations.set(0, before);
  problem.sampling_locations.set(1, 0.4);
  const auto call = problem.call();
  const Arithmetic observed{"msda_triton", MSDA_MODE_DETERMINISTIC};
  Arithmetic expected = observed;
  expected.alternative = call.in_dialect(MSDA_GRID_SAMPLE);
  const analysis::ElementId id{MsdaGradient::kSamplingLocations, 0, {}};
  EXPECT_EQ(stress::cause_of(call, id, observed, expected), analysis::Cause::kCellBoundary);
  EXPECT_TRUE(stress::Mask{1}.hides(call, id));
  EXPECT_FALSE(stress::Mask{0}.hides(call, id));
  problem.sampling_locations.set(0, 0.4);
  const auto inside = problem.call();
  EXPECT_EQ(stress::cause_of(inside, id, observed, expected), analysis::Cause::kIllConditioned);
  EXPECT_FALSE(stress::Mask{1}.hides(inside, id));
  Problem aligned = make_problem(sizes, {MSDA_MSDA_TRITON, MSDA_PADDING_BORDER, true}, MSDA_FLOAT32, 1);
  aligned.sampling_locations.set(0, 0);
  aligned.sampling_locations.set(1, 0.4);
  const auto at_zero = aligned.call();
  Arithmetic a{"msda_triton", MSDA_MODE_DETERMINISTIC}, b = a;
  b.alternative = at_zero.in_dialect(MSDA_GRID_SAMPLE);
  EXPECT_EQ(stress::cause_of(at_zero, id, a, b), analysis::Cause::kBorderClamp);
}

class Stress : public testing::Test {
 protected:
  Problem problem =
      make_problem({.Q = 200, .levels = {{32, 32}}}, {MSDA_MSDA_TRITON, MSDA_PADDING_ZEROS, true}, MSDA_FLOAT32, 1);
  analysis::MsdaCall call = problem.call();
  stress::Plan plan = plan_of(call, call.arithmetics()[1], {1e-5, 1e-3},
                              {"normal(0,1)", "uniform(0,1)", "softmax(1,2)", "uniform(0,1)"});
};

// The same runs give the same result on any number of threads, in one go or two.
TEST_F(Stress, DependsOnThePlanAlone) {
  const auto tally_of = [&](int threads, const std::vector<int64_t>& parts) {
    stress::Tally tally;
    stress::Effort effort;
    effort.width = 0;
    effort.threads = threads;
    for (const int64_t part : parts) {
      effort.first = tally.runs;
      effort.most_runs = part;
      stress::stress(plan, effort, {1e-5, 1e-3}, {1e-3, 1}, tally);
    }
    return std::tuple{tally.runs,    tally.failures, tally.elements, tally.by_cause,        tally.by_tensor,
                      tally.by_atol, tally.by_rtol,  tally.failing,  tally.failing_by_cause};
  };
  const auto entry = tally_of(1, {200});
  EXPECT_GT(std::get<1>(entry), 0);
  EXPECT_LT(std::get<1>(entry), 200);
  EXPECT_EQ(entry, tally_of(3, {200}));
  EXPECT_EQ(entry, tally_of(2, {70, 130}));
  EXPECT_EQ(std::get<5>(entry)[0], std::get<1>(entry));  // the test's own atol
  EXPECT_LE(std::get<5>(entry)[1], std::get<5>(entry)[0]);
}

TEST_F(Stress, ListsTheRunsThatFail) {
  stress::Tally tally;
  stress::Effort effort;
  effort.width = 1;  // one batch would do
  effort.most_runs = 200;
  effort.least_runs = 150;
  stress::stress(plan, effort, {}, {}, tally);
  EXPECT_EQ(tally.runs, 192);  // whole batches
  std::vector<int64_t> failing;
  std::map<std::string, std::vector<int64_t>> by_cause;
  stress::Simulator simulator(plan);
  for (int64_t number = 0; number < tally.runs; ++number) {
    const stress::Run run = simulator.run(number);
    if (run.fails) failing.push_back(number);
    std::set<std::string> causes;
    for (const auto& miss : run.misses) causes.insert(name_of(miss.cause));
    for (const auto& cause : causes) by_cause[cause].push_back(number);
  }
  EXPECT_EQ(tally.failing, failing);
  EXPECT_EQ(tally.failing_by_cause, by_cause);
  EXPECT_EQ(static_cast<int64_t>(failing.size()), tally.failures);
  EXPECT_GT(tally.failures, 0);
}

// How often coordinates cross a boundary, against the number of generator outputs that do, counted one by one.
TEST(Coordinates, CrossBoundariesAsOftenAsTheGeneratorsOutputsDo) {
  constexpr int32_t kSide = 64;
  // In each binade below 1/4 the outputs of the generator near the boundaries, found by trying neighbours.
  double crossing = 0;
  for (int pixel = 0; pixel < kSide; ++pixel) {
    const double boundary = (pixel + 0.5) / kSide;
    if (boundary >= 0.25) break;
    // A multiple of 2^-33 for each output below 2^-9; coarser above, where several outputs round to one float32.
    const auto centre = static_cast<int64_t>(std::ldexp(boundary, 32));
    for (int64_t x = centre - 4096; x <= centre + 4096; ++x) {
      const float location = uniform_of(static_cast<uint32_t>(x));
      const float observed = location * kSide - 0.5f;
      volatile float grid = location + location;
      grid = grid - 1;
      volatile float expected = grid + 1;
      expected = expected * kSide;
      expected = expected - 1;
      expected = expected * 0.5f;
      crossing += std::floor(observed) != std::floor(expected);
    }
  }
  crossing *= 0x1p-32;
  EXPECT_NEAR(crossing, 16 * 0x1p-26,
              0.02 * 16 * 0x1p-26);  // half a step of 2^-25, of either grid coordinate, at 16 boundaries

  analysis::CoordinatePair pair{MSDA_MSDA_TRITON, MSDA_GRID_SAMPLE, false, false, false, false, false, kSide};
  constexpr int64_t kCount = 1 << 20;
  constexpr int kBatches = 300;
  constexpr int64_t kRow = 256;
  std::vector<float> numbers(kCount), distances(kCount), lows(kCount), fractions(kCount), rows(kCount / kRow);
  std::vector<uint32_t> bits(kCount);
  int64_t crossed = 0;
  for (int batch = 0; batch < kBatches; ++batch) {
    stress::loops().bits(static_cast<uint64_t>(batch), bits.data(), kCount);
    stress::loops().uniform_32(bits.data(), numbers.data(), kCount);
    analysis::screen_loops().distances(pair, numbers.data(), kCount, {distances.data(), lows.data(), fractions.data()});
    analysis::screen_loops().squares(distances.data(), kCount / kRow, kRow, rows.data());
    crossed += std::ranges::count_if(rows, [](float x) { return x >= 1; });  // infinite where one of a row has crossed
  }
  const double expected = crossing * kCount * kBatches;
  EXPECT_NEAR(static_cast<double>(crossed), expected, 4.5 * std::sqrt(expected)) << expected;
}

// grid_sample has no screen; its runs differ by the order of additions alone, or by float32 against float64.
TEST(GridSample, IsSimulated) {
  analysis::GridSampleCall call;
  call.N = 2;
  call.C = 3;
  call.sides[0] = 16;
  call.sides[1] = 12;
  call.pixels = 16 * 12;
  call.samples = 40;
  call.output_sides[0] = 40;
  call.output_sides[1] = 1;
  call.image = {nullptr, MSDA_FLOAT32, {2, 3, 12, 16}};
  call.locations = {nullptr, MSDA_FLOAT32, {2, 1, 40, 2}};
  call.grad_output = {nullptr, MSDA_FLOAT32, {2, 3, 1, 40}};
  const auto arithmetics = call.arithmetics();
  for (const Arithmetic& expected : arithmetics) {
    const bool exact = expected.mode == MSDA_MODE_FLOAT64;
    const stress::Plan plan = plan_of(call, expected, {1e-6, 0}, {"normal(0,1)", "uniform(-1,1)", "normal(0,1)"});
    double needed = 0;
    const auto misses = misses_of(plan, 20, needed);
    EXPECT_EQ(plan.slices.count, 2);
    bool in_grid = false;
    for (const auto& place : misses) in_grid = in_grid || std::get<2>(place) == 1;
    EXPECT_EQ(in_grid, exact) << expected.name;
  }
}

}  // namespace
}  // namespace msda::tests
