// grid_sample's nearest pixels: a sample whose coordinate rounding carries over a tie is added to one pixel or to the
// other, whole. Every choice is explained, and nothing between them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <set>

#include "analysis/model/explain.h"
#include "tests/support/grid_problem.h"

namespace msda::tests {
namespace {

using analysis::GridSampleCall;

constexpr double kStep = 0.25;  // coordinates are multiples of it, exact in every type: ties, and what is far from them

// The pixel that a coordinate within a step is nearest to, as the padding has it; empty beyond the image.
std::optional<int64_t> nearest_pixel(const Variant& variant, double at, double size) {
  if (variant.padding == MSDA_GRID_REFLECTION) {
    const double low = variant.align_corners ? 0 : -0.5, span = variant.align_corners ? size - 1 : size;
    const double away = std::fmod(std::fmod(at - low, 2 * span) + 2 * span, 2 * span);
    at = low + std::min(away, 2 * span - away);
  }
  if (variant.padding != MSDA_GRID_ZEROS) at = std::clamp(at, 0.0, size - 1);
  const double pixel = std::nearbyint(at);
  if (pixel < 0 || pixel >= size) return std::nullopt;
  return static_cast<int64_t>(pixel);
}

// A call whose coordinates are multiples of kStep, and the pixels that each sample may be added to; -1: none.
struct TiedProblem : GridProblem {
  std::vector<std::vector<int64_t>> pixels;  // by sample of all batches
};

TiedProblem tied_problem(const Variant& variant, msda_dtype dtype, uint64_t seed) {
  GridSizes sizes{2, 4, {4, 8, 4}, {9, 7, 2}};
  if (variant.align_corners) sizes.image = {5, 9, 5};
  TiedProblem problem{make_grid_problem(variant, dtype, seed, sizes), {}};
  const GridSampleCall& call = problem.call;
  std::mt19937_64 random(seed + 1);
  for (int64_t sample = 0; sample < call.N * call.samples; ++sample) {
    std::vector<int64_t> reached{0};
    for (int axis = call.axes_count - 1; axis >= 0; --axis) {
      const int64_t size = call.sides[axis];
      const double at =
          kStep * static_cast<double>(static_cast<int64_t>(random() % static_cast<uint64_t>(4 * size + 8)) - 6);
      problem.grid.set(sample * call.axes_count + axis, variant.align_corners
                                                            ? 2 * at / static_cast<double>(size - 1) - 1
                                                            : (2 * at + 1) / static_cast<double>(size) - 1);
      std::set<int64_t> next;
      for (const int64_t before : reached) {
        for (const double off : {-0.1, 0.1}) {
          const auto pixel = nearest_pixel(variant, at + off, static_cast<double>(size));
          next.insert(before < 0 || !pixel ? -1 : before * size + *pixel);
        }
      }
      reached.assign(next.begin(), next.end());
    }
    problem.pixels.push_back(reached);
  }
  return problem;
}

// What a kernel adds up that lands each sample where `random` has it.
OwnedTensor right_kernel(const TiedProblem& problem, msda_dtype dtype, msda_dtype arithmetic, std::mt19937_64& random) {
  const GridSampleCall& call = problem.call;
  std::vector<double> sums(static_cast<size_t>(call.N * call.C * call.pixels));
  for (int64_t sample = 0; sample < call.N * call.samples; ++sample) {
    const auto& reached = problem.pixels[static_cast<size_t>(sample)];
    const int64_t pixel = reached[random() % reached.size()], n = sample / call.samples;
    for (int64_t c = 0; c < call.C && pixel >= 0; ++c) {
      double& sum = sums[static_cast<size_t>(call.image_element(n * call.pixels + pixel, c))];
      sum = analysis::rounded_to(sum + call.grad_output.at(call.output_element(sample, c)), arithmetic);
    }
  }
  return {sums, dtype, call.image.shape};
}

// How far a value is from the nearest choice of the samples that may reach the element, and what they are.
struct Enumerated {
  double distance = INFINITY, reach = 0;
  size_t tied = 0;
};

Enumerated enumerate(const TiedProblem& problem, int64_t flat, double value) {
  const GridSampleCall& call = problem.call;
  const analysis::SampledPixel pixel = call.pixel_at(call.without_channel(flat, call.image_step));
  double certain = 0;
  std::vector<double> tied;
  Enumerated found;
  for (int64_t at = 0; at < call.samples; ++at) {
    const auto& reached = problem.pixels[static_cast<size_t>(call.sample_in(pixel.family, at))];
    if (std::ranges::find(reached, pixel.pixel) == reached.end()) continue;
    const double go = call.grad_output.at(call.output_element(call.sample_in(pixel.family, at), call.channel_of(flat)));
    if (reached.size() == 1) certain += go;
    if (reached.size() > 1) tied.push_back(go);
    if (reached.size() > 1) found.reach += std::abs(go);
  }
  found.tied = tied.size();
  for (size_t chosen = 0; chosen < size_t{1} << std::min<size_t>(tied.size(), 16); ++chosen) {
    double sum = certain;
    for (size_t i = 0; i < tied.size(); ++i) sum += (chosen >> i & 1) != 0 ? tied[i] : 0;
    found.distance = std::min(found.distance, std::abs(value - sum));
  }
  return found;
}

analysis::Side side_of(const OwnedTensor& grad_input, msda_dtype arithmetic) {
  analysis::Side side;
  side.name = "recorded";
  side.tensors[0] = grad_input.view;
  side.arithmetic[0] = arithmetic;
  return side;
}

struct Types {
  msda_dtype stored, arithmetic;
  double close;  // what rounding of a few addends stays below
};

class Ties : public ::testing::TestWithParam<Types> {};
INSTANTIATE_TEST_SUITE_P(Types, Ties,
                         ::testing::Values(Types{MSDA_FLOAT32, MSDA_FLOAT32, 1e-4},
                                           Types{MSDA_FLOAT64, MSDA_FLOAT64, 1e-9},
                                           Types{MSDA_FLOAT16, MSDA_FLOAT32, 0.05},
                                           Types{MSDA_FLOAT16, MSDA_FLOAT16, 0.2},
                                           Types{MSDA_BFLOAT16, MSDA_FLOAT32, 0.4}));

TEST_P(Ties, EveryChoiceIsExplainedAndNothingBetween) {
  const auto [stored, arithmetic, close] = GetParam();
  int64_t ties = 0, shifted = 0;
  for (const Variant& variant : all_variants()) {
    if (variant.interpolation != MSDA_NEAREST) continue;
    const TiedProblem problem = tied_problem(variant, stored, 7);
    const auto cache = problem.call.new_cache();
    std::mt19937_64 random(9);
    for (int trial = 0; trial < 3; ++trial) {
      const OwnedTensor right = right_kernel(problem, stored, arithmetic, random);
      const analysis::Side side = side_of(right, arithmetic);
      for (int64_t flat = 0; flat < right.view.elements(); ++flat) {
        const auto id = problem.call.element_id(analysis::GridSampleGradient::kInput, flat);
        ASSERT_TRUE(explain(problem.call, side, id, *cache).explained()) << name_of(variant) << " " << flat;
        // The value of the next channel, as of a kernel that mistakes one for the other.
        const double wrong = right.view.at((flat + problem.call.pixels) % right.view.elements());
        const Enumerated nearest = enumerate(problem, flat, wrong);
        ties += nearest.tied > 0;
        if (nearest.distance < close || nearest.tied > analysis::TiedSum::kMost) continue;
        EXPECT_FALSE(explain(problem.call, side, id, wrong, *cache).explained())
            << name_of(variant) << " " << flat << ": " << wrong << " is " << nearest.distance << " off";
        shifted += nearest.tied > 0 && nearest.distance < nearest.reach;
      }
    }
  }
  EXPECT_GT(ties, 1000);
  EXPECT_GT(shifted, 300) << "of those that a bound between the choices would excuse";
}

// Three thousand equal addends, whose roundings lean one way, beside two on a tie.
TEST(TiesOfLongSums, AreExplainedByTryingOrders) {
  GridProblem problem =
      make_grid_problem({2, MSDA_NEAREST, MSDA_GRID_ZEROS, true}, MSDA_FLOAT32, 1, {1, 1, {5, 5}, {3002, 1}});
  for (int64_t i = 0; i < 3002; ++i) {
    problem.grid.set(2 * i, i < 2 ? 0.25 : 0);  // 2.5 pixels, and 2
    problem.grid.set(2 * i + 1, 0);
    problem.grad_output.set(i, i < 2 ? 7 + static_cast<double>(i) : 0.1f);
  }
  const auto cache = problem.call.new_cache();
  const auto id = problem.call.element_id(analysis::GridSampleGradient::kInput, 12);
  const analysis::Side side = side_of(problem.input, MSDA_FLOAT32);
  const auto explained = [&](double value) { return explain(problem.call, side, id, value, *cache).explained(); };
  for (const double tied : {0.0, 7.0, 8.0, 15.0}) {
    auto sum = static_cast<float>(tied);
    for (int i = 0; i < 3000; ++i) sum += 0.1f;
    EXPECT_GT(std::abs(sum - 3000 * double{0.1f} - tied), 1e-3);
    EXPECT_TRUE(explained(sum)) << tied;
    EXPECT_FALSE(explained(sum + 0.5)) << tied;
  }
}

// An infinity or NaN that may be added or not: what is not added harms nothing.
void expect_others_as_they_are(double open) {
  GridProblem problem =
      make_grid_problem({2, MSDA_NEAREST, MSDA_GRID_ZEROS, true}, MSDA_FLOAT32, 1, {1, 1, {5, 5}, {3, 1}});
  const double numbers[] = {open, 2, 5};
  for (int64_t i = 0; i < 3; ++i) {
    problem.grid.set(2 * i, i < 2 ? 0.25 : 0);
    problem.grid.set(2 * i + 1, 0);
    problem.grad_output.set(i, numbers[i]);
  }
  const auto cache = problem.call.new_cache();
  const auto id = problem.call.element_id(analysis::GridSampleGradient::kInput, 12);
  const analysis::Side side = side_of(problem.input, MSDA_FLOAT32);
  for (const double right : {5.0, 7.0, numbers[0]})
    EXPECT_TRUE(explain(problem.call, side, id, right, *cache).explained()) << right;
  for (const double wrong : {0.0, 2.0, 6.0, -std::numeric_limits<double>::infinity()})
    EXPECT_FALSE(explain(problem.call, side, id, wrong, *cache).explained()) << wrong;
}
TEST(TiesOfInfinities, LeaveTheOtherSamplesAsTheyAre) {
  expect_others_as_they_are(std::numeric_limits<double>::infinity());
}
TEST(TiesOfNaN, LeaveTheOtherSamplesAsTheyAre) { expect_others_as_they_are(NAN); }

}  // namespace
}  // namespace msda::tests
