// The weights of grid_sample's pixels: what arithmetic makes of them, evaluated in several ways, stays within the
// bounds, which are close where a sample lies on a pixel's centre.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <random>

#include "analysis/operators/sampling/contributions.h"
#include "tests/support/grid_problem.h"
#include "tests/support/unfused.h"

namespace msda::tests {
namespace {

using analysis::Contributions;
using analysis::Precision;

constexpr int kPixels = 9;
constexpr int64_t kOfSamples = 3000;
const Precision kOfFloat = Precision::of(MSDA_FLOAT32);

enum class Way { kHorner, kFused, kPowers };

float polynomial(Way way, float a, float b, float c, float d, float x) {
  if (way == Way::kFused) return std::fma(std::fma(std::fma(a, x, b), x, c), x, d);
  if (way == Way::kHorner) return add(multiply(add(multiply(add(multiply(a, x), b), x), c), x), d);
  const float square = multiply(x, x);
  return add(add(multiply(a, multiply(square, x)), multiply(b, square)), add(multiply(c, x), d));
}

// Numbers of the four pixels around, the first of which is the last number.
struct Weights {
  std::array<float, 4> weights;
  int first;
};

Weights weights_along(Way way, float location) {
  const float at = way == Way::kFused ? std::fma(location, (kPixels - 1) / 2.0f, (kPixels - 1) / 2.0f)
                                      : multiply(multiply(add(location, 1), 0.5f), kPixels - 1);
  const float low = std::floor(at), f = add(at, -low);
  constexpr float kA = -0.75f;
  const auto near = [&](float x) { return polynomial(way, kA + 2, -(kA + 3), 0, 1, x); };
  const auto far = [&](float x) { return polynomial(way, kA, -5 * kA, 8 * kA, -4 * kA, x); };
  return {{far(add(f, 1)), near(f), near(add(1, -f)), far(add(add(1, -f), 1))}, static_cast<int>(low) - 1};
}

// By pixel, what a kernel multiplies grad_output of the sample with.
std::map<int64_t, float> weights_of(Way way, float x, float y) {
  const Weights along_x = weights_along(way, x), along_y = weights_along(way, y);
  std::map<int64_t, float> all;
  for (int j = 0; j < 4; ++j) {
    for (int i = 0; i < 4; ++i) {
      const int column = along_x.first + i, row = along_y.first + j;
      if (column < 0 || column >= kPixels || row < 0 || row >= kPixels) continue;
      all[row * kPixels + column] =
          multiply(along_x.weights[static_cast<size_t>(i)], along_y.weights[static_cast<size_t>(j)]);
    }
  }
  return all;
}

GridProblem problem_around_centres(msda_interpolation interpolation) {
  GridProblem problem = make_grid_problem({2, interpolation, MSDA_GRID_ZEROS, true}, MSDA_FLOAT32, 3,
                                          {1, 1, {kPixels, kPixels}, {kOfSamples, 1}});
  std::mt19937_64 random(4);
  for (int64_t i = 0; i < 2 * kOfSamples; ++i) {
    const double centre = static_cast<double>(random() % kPixels) / (kPixels - 1) * 2 - 1;
    const double off = static_cast<double>(random() % 5) - 2;
    if (i % 4 < 2) problem.grid.set(i, std::ldexp(off, i % 8 < 4 ? -23 : -12) + centre);
    if (i < 100) problem.grid.set(i, centre);
  }
  return problem;
}

TEST(GridWeights, CubicBoundsHoldForEveryWayToComputeThem) {
  const GridProblem problem = problem_around_centres(MSDA_BICUBIC);
  const Contributions contributions(problem.call, 0, kOfFloat, nullptr);
  std::vector<std::map<int64_t, Contributions::Addend>> of_sample(kOfSamples);
  for (int64_t pixel = 0; pixel < kPixels * kPixels; ++pixel) {
    for (const auto& addend : contributions.exact(pixel))
      of_sample[static_cast<size_t>(addend.sample())][pixel] = addend;
  }
  double farthest = 0;
  for (int64_t sample = 0; sample < kOfSamples; ++sample) {
    const auto location = [&](int64_t axis) { return static_cast<float>(problem.grid.view.at(2 * sample + axis)); };
    const auto& bounds = of_sample[static_cast<size_t>(sample)];
    for (const Way way : {Way::kHorner, Way::kFused, Way::kPowers}) {
      const auto weights = weights_of(way, location(0), location(1));
      for (const auto& [pixel, weight] : weights) {
        const auto found = bounds.find(pixel);
        if (found == bounds.end()) {
          EXPECT_EQ(weight, 0) << sample << " " << pixel;
          continue;
        }
        const double reach = found->second.weight_error + 4 * kOfFloat.unit * std::abs(found->second.weight);
        const double off = std::abs(weight - found->second.weight);
        EXPECT_LE(off, reach) << sample << " " << pixel << " way " << static_cast<int>(way);
        if (reach > 0) farthest = std::max(farthest, off / reach);
      }
      for (const auto& [pixel, addend] : bounds) {
        if (weights.contains(pixel)) continue;
        EXPECT_LE(std::abs(addend.weight), addend.weight_error) << sample << " " << pixel;
      }
    }
  }
  EXPECT_GT(farthest, 0.1);
}

// Where both weights are 0, evaluating them leaves less than the square of what it leaves of one.
TEST(GridWeights, OnACentreCubicOnesOfTheCornersAreCertain) {
  const GridProblem problem = problem_around_centres(MSDA_BICUBIC);
  const Contributions contributions(problem.call, 0, kOfFloat, nullptr);
  int64_t corners = 0;
  for (int64_t pixel = 0; pixel < kPixels * kPixels; ++pixel) {
    for (const auto& addend : contributions.exact(pixel)) {
      if (addend.sample() >= 50) continue;
      const auto distance = [&](int64_t axis, int64_t at) {
        const double location = problem.grid.view.at(2 * addend.sample() + axis);
        return std::abs(std::nearbyint((location + 1) / 2 * (kPixels - 1)) - static_cast<double>(at));
      };
      const double x = distance(0, pixel % kPixels), y = distance(1, pixel / kPixels);
      if (x == 0 || y == 0) continue;
      ++corners;
      EXPECT_LT(addend.weight_error, 1e-10) << addend.sample() << " " << pixel;
    }
  }
  EXPECT_GT(corners, 200);
}

// In 16 bits coordinates are off by large parts of a pixel, along both axes at once.
TEST(GridWeights, BilinearBoundsHoldAsFarAsCoordinatesMayBeOff) {
  const GridProblem problem = problem_around_centres(MSDA_BILINEAR);
  const auto& call = problem.call;
  const Precision precision = Precision::of(MSDA_BFLOAT16);
  const Contributions contributions(call, 0, precision, nullptr);
  const auto distance = [&](int64_t sample, int axis, double share, int64_t pixel) {
    const auto [exact, error] = call.coordinate(call.axis_at(sample, call.image_of(0), axis), precision);
    return std::abs(exact + share * error - static_cast<double>(pixel));
  };
  double farthest = 0;
  for (int64_t pixel = 0; pixel < kPixels * kPixels; ++pixel) {
    for (const auto& addend : contributions.exact(pixel)) {
      for (const double along_x : {-1.0, -0.4, 0.4, 1.0}) {
        for (const double along_y : {-1.0, -0.4, 0.4, 1.0}) {
          const double x = distance(addend.sample(), 0, along_x, pixel % kPixels);
          const double y = distance(addend.sample(), 1, along_y, pixel / kPixels);
          const double off = std::abs(std::max(0.0, 1 - x) * std::max(0.0, 1 - y) - addend.weight);
          EXPECT_LE(off, addend.weight_error * (1 + 1e-12)) << addend.sample() << " " << pixel;
          farthest = std::max(farthest, off);
        }
      }
    }
  }
  EXPECT_GT(farthest, 0.05);
}

}  // namespace
}  // namespace msda::tests
