// The kernels against the slow, obvious loop, on random problems of every dialect and against closed forms.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/naive.h"
#include "tests/support/problem.h"

namespace msda::tests {
namespace {

using analysis::Gradient;
using analysis::Precision;

// Rounding of any kind stays within this many units of the sum of magnitudes: 24 for the factors of a term and the
// fractions, one for each level of a sum's tree and for each addend of a run.
double allowed_units(int64_t terms) { return 24 + std::min<double>(static_cast<double>(terms), 160); }

void expect_close(const OwnedTensor& computed, const Sums& truth, int64_t terms, msda_dtype arithmetic,
                  const std::string& what) {
  const Precision precision = Precision::of(arithmetic), storage = Precision::of(computed.view.dtype);
  int64_t wrong = 0;
  for (int64_t i = 0; i < computed.view.elements() && wrong < 3; ++i) {
    const auto at = static_cast<size_t>(i);
    const double value = computed.view.at(i);
    const long double expected = truth.value[at];
    if (std::isnan(static_cast<double>(expected))) {
      EXPECT_TRUE(std::isnan(value)) << what << " element " << i << ": " << value << ", not NaN";
      wrong += !std::isnan(value);
      continue;
    }
    const double bound = allowed_units(terms) * precision.unit * static_cast<double>(truth.magnitude[at]) +
                         (computed.view.dtype != arithmetic ? storage.unit * std::abs(value) + storage.tiny : 0) +
                         static_cast<double>(terms) * precision.tiny;
    const double error = static_cast<double>(std::abs(value - expected));
    EXPECT_LE(error, bound) << what << " element " << i << ": " << value << ", not " << static_cast<double>(expected);
    wrong += !(error <= bound);
  }
}

// Most terms that an element of a gradient sums.
int64_t terms_of(const Problem& problem, Gradient gradient) {
  const Sizes& s = problem.sizes;
  return gradient == analysis::MsdaGradient::kValue ? 4 * s.Q * s.P : 4 * s.D;
}

// In float32 the dialect's float32 coordinate decides the cell; the exact computation uses that cell.
void check_problem(const Problem& problem, const msda_options& options) {
  const bool wide = options.mode == MSDA_MODE_FLOAT64 || problem.dtype == MSDA_FLOAT64;
  const msda_dtype arithmetic = wide ? MSDA_FLOAT64 : MSDA_FLOAT32;
  const Naive truth = naive(problem, !wide);
  const Gradients gradients = run_backward(problem, options);
  for (const Gradient gradient : analysis::MsdaGradient::kAll) {
    expect_close(gradients.of(gradient), truth.gradients[gradient.place()], terms_of(problem, gradient), arithmetic,
                 problem.text() + " " + name_of(gradient));
  }
  if (options.mode == MSDA_MODE_MIXED) return;
  expect_close(run_forward(problem, options), truth.output, 4 * problem.sizes.L() * problem.sizes.P, arithmetic,
               problem.text() + " output");
}

TEST(Independent, Float32DeterministicOn300Problems) {
  for (uint64_t seed = 0; seed < 300; ++seed) check_problem(random_problem(seed, MSDA_FLOAT32), {});
}

TEST(Independent, Float64ModeOn300Float32Problems) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    check_problem(random_problem(seed, MSDA_FLOAT32), {MSDA_MODE_FLOAT64, 0, 0, 0});
  }
}

TEST(Independent, Float64On300Problems) {
  for (uint64_t seed = 0; seed < 300; ++seed) check_problem(random_problem(seed, MSDA_FLOAT64), {});
}

TEST(Independent, SixteenBitStorage) {
  for (uint64_t seed = 0; seed < 90; ++seed) {
    check_problem(random_problem(seed, MSDA_FLOAT16), {});
    check_problem(random_problem(seed, MSDA_BFLOAT16), {});
    check_problem(random_problem(seed, MSDA_FLOAT16), {MSDA_MODE_FLOAT64, 0, 0, 0});
  }
}

TEST(Independent, AtomicInAnyOrder) {
  for (uint64_t seed = 0; seed < 90; ++seed) {
    check_problem(random_problem(seed, MSDA_FLOAT32), {MSDA_MODE_ATOMIC, 0, seed, 0});
  }
}

// A value that is linear in the pixel coordinates, v = c0 + cx * x + cy * y, is interpolated exactly, and its gradients
// have closed forms: inside the level, d sampled / d location is (cx * width, cy * height).
TEST(ClosedForm, LinearRamp) {
  for (const auto& conventions : all_conventions()) {
    Sizes sizes{2, 2, 3, 40, 2, {{8, 16}, {32, 4}}};
    Problem problem = make_problem(sizes, conventions, MSDA_FLOAT64, 5);
    const auto coefficient = [](int64_t m, int64_t d, int which) {
      return 0.25 * static_cast<double>(m + 2 * d + 3 * which) - 1;
    };
    int64_t start = 0;
    for (const auto& [height, width] : sizes.levels) {
      for (int64_t i = 0; i < sizes.B * height * width * sizes.M * sizes.D; ++i) {
        const int64_t d = i % sizes.D, m = i / sizes.D % sizes.M, pixel = i / sizes.D / sizes.M % (height * width);
        const int64_t b = i / sizes.D / sizes.M / (height * width);
        const int64_t row = pixel / width, column = pixel % width;
        const double v = coefficient(m, d, 0) + coefficient(m, d, 1) * static_cast<double>(column) +
                         coefficient(m, d, 2) * static_cast<double>(row);
        problem.value.set(((b * sizes.S() + start + pixel) * sizes.M + m) * sizes.D + d, v);
      }
      start += int64_t{height} * width;
    }
    const Gradients gradients = run_backward(problem);
    const analysis::MsdaCall call = problem.call();
    int64_t checked = 0;
    for (int64_t flat = 0; flat < call.factors.elements(); ++flat) {
      const auto& level = call.level_of(flat);
      const int64_t m = flat / (call.P * call.L) % call.M;
      double pixel[2], side[2];
      bool inside = true;
      for (int axis = 0; axis < 2; ++axis) {
        side[axis] = analysis::side_of(level, axis) - (conventions.align_corners ? 1 : 0);
        pixel[axis] = call.locations.at(2 * flat + axis) * side[axis] - (conventions.align_corners ? 0 : 0.5);
        inside = inside && pixel[axis] > 0 && pixel[axis] < analysis::side_of(level, axis) - 1;
      }
      if (!inside) continue;
      ++checked;
      double weight = 0, x = 0, y = 0;
      for (int64_t d = 0; d < sizes.D; ++d) {
        const double go = call.grad_output.at(call.output_element(flat, d));
        weight += go * (coefficient(m, d, 0) + coefficient(m, d, 1) * pixel[0] + coefficient(m, d, 2) * pixel[1]);
        x += go * coefficient(m, d, 1) * side[0] * call.factor_of(flat);
        y += go * coefficient(m, d, 2) * side[1] * call.factor_of(flat);
      }
      EXPECT_NEAR(gradients.of(analysis::MsdaGradient::kAttentionWeights).view.at(flat), weight, 1e-11)
          << problem.text();
      EXPECT_NEAR(gradients.of(analysis::MsdaGradient::kSamplingLocations).view.at(2 * flat), x, 1e-11)
          << problem.text();
      EXPECT_NEAR(gradients.of(analysis::MsdaGradient::kSamplingLocations).view.at(2 * flat + 1), y, 1e-11)
          << problem.text();
    }
    EXPECT_GT(checked, 100);
  }
}

// The weights of a sample inside add up to 1, so that grad_value, summed over a level's pixels, is the sum of
// grad_output * attention over the level's samples.
TEST(ClosedForm, GradValueKeepsTheTotal) {
  for (const auto& conventions : all_conventions()) {
    if (conventions.padding == MSDA_PADDING_ZEROS && !conventions.align_corners)
      continue;  // near the edge some is lost
    const Sizes sizes{1, 2, 5, 200, 3, {{6, 7}, {1, 1}, {9, 2}}};
    const Problem problem = make_problem(sizes, conventions, MSDA_FLOAT32, 11);
    const Gradients gradients = run_backward(problem, {MSDA_MODE_FLOAT64, 0, 0, 0});
    const analysis::MsdaCall call = problem.call();
    for (int64_t l = 0; l < call.L; ++l) {
      const auto& level = call.levels[static_cast<size_t>(l)];
      for (int64_t m = 0; m < call.M; ++m) {
        for (int64_t d = 0; d < call.D; ++d) {
          double given = 0, received = 0;
          for (int64_t q = 0; q < call.Q; ++q) {
            for (int64_t p = 0; p < call.P; ++p) {
              const int64_t sample = ((q * call.M + m) * call.L + l) * call.P + p;
              given += call.grad_output.at(call.output_element(sample, d)) * call.factor_of(sample);
            }
          }
          for (int64_t s = level.start; s < level.start + int64_t{level.height} * level.width; ++s) {
            received += gradients.of(analysis::MsdaGradient::kValue).view.at((s * call.M + m) * call.D + d);
          }
          EXPECT_NEAR(received, given, 1e-10) << problem.text();
        }
      }
    }
  }
}

// A derivative is what finite differences of the forward pass say, away from the kinks.
TEST(ClosedForm, FiniteDifferencesOfTheForwardPass) {
  for (const auto& conventions : all_conventions()) {
    const Sizes sizes{1, 2, 3, 4, 2, {{5, 4}, {3, 6}}};
    const Problem problem = make_problem(sizes, conventions, MSDA_FLOAT64, 23);
    const Gradients gradients = run_backward(problem);
    const auto loss = [](const Problem& changed) {
      const auto output = run_forward(changed).values(), grad_output = changed.grad_output.values();
      long double sum = 0;
      for (size_t i = 0; i < output.size(); ++i) sum += static_cast<long double>(output[i]) * grad_output[i];
      return sum;
    };
    const auto check = [&](OwnedTensor Problem::*input, Gradient gradient, double step) {
      for (int64_t i = 0; i < (problem.*input).view.elements(); i += 3) {
        Problem changed = problem;
        const double x = (problem.*input).view.at(i);
        (changed.*input).set(i, x + step);
        const long double above = loss(changed);
        (changed.*input).set(i, x - step);
        const double numeric = static_cast<double>((above - loss(changed)) / (2 * step));
        EXPECT_NEAR(gradients.of(gradient).view.at(i), numeric, 1e-6 * (1 + std::abs(numeric)))
            << problem.text() << " " << name_of(gradient) << " " << i;
      }
    };
    check(&Problem::value, analysis::MsdaGradient::kValue, 1e-3);  // linear: any step will do
    check(&Problem::attention_weights, analysis::MsdaGradient::kAttentionWeights, 1e-3);
    check(&Problem::sampling_locations, analysis::MsdaGradient::kSamplingLocations, 1e-8);
  }
}

}  // namespace
}  // namespace msda::tests
