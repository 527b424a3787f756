// The kernels against the slow, obvious loop, on random problems of every dialect.
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

}  // namespace
}  // namespace msda::tests
