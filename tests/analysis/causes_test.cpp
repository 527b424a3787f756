// Planted faults: each must be named with the right cause and side, on several problem shapes and dialects.
#include "analysis/causes/causes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/operators/msda/call.h"
#include "tests/support/material.h"

namespace msda::tests {
namespace {

using analysis::AtFault;
using analysis::Cause;
using analysis::Conventions;
using analysis::Finding;
using analysis::Gradient;
using analysis::Report;
using analysis::Tolerance;

constexpr Tolerance kTest{1e-3, 1e-2};

struct Shape {
  Sizes sizes;
  Conventions conventions;
  uint64_t seed;
};

std::vector<Shape> shapes() {
  return {{{1, 1, 32, 60, 3, {{16, 16}, {8, 8}}}, {MSDA_MSDA_TRITON, MSDA_PADDING_BORDER, false}, 1},
          {{2, 2, 8, 40, 2, {{7, 5}, {3, 9}, {1, 1}}}, {MSDA_DEFORMABLE_DETR, MSDA_PADDING_ZEROS, false}, 2},
          {{1, 3, 71, 25, 4, {{6, 11}, {5, 4}}}, {MSDA_GRID_SAMPLE, MSDA_PADDING_ZEROS, true}, 3},
          {{2, 1, 30, 50, 1, {{9, 9}, {4, 6}}}, {MSDA_MSDA_TRITON, MSDA_PADDING_ZEROS, true}, 4}};
}

class Planted : public ::testing::TestWithParam<Shape> {
 protected:
  Problem problem = make_problem(GetParam().sizes, GetParam().conventions, MSDA_FLOAT32, GetParam().seed);
  TestMaterial material{problem};
  void SetUp() override { material.tolerance = kTest; }

  // Everything that affects the verdict.
  static std::vector<Finding> findings_of(const Report& report) {
    std::vector<Finding> findings;
    for (const Finding& finding : report.findings) {
      if (!finding.advisory) findings.push_back(finding);
    }
    return findings;
  }
  static void expect_all(const Report& report, Cause cause, AtFault at_fault) {
    EXPECT_FALSE(findings_of(report).empty());
    for (const Finding& f : findings_of(report)) {
      EXPECT_EQ(f.cause, cause) << name_of(f.cause) << ": " << f.why;
      EXPECT_EQ(f.at_fault, at_fault) << name_of(f.at_fault) << ": " << f.why;
    }
    EXPECT_EQ(report.verdict.at_fault, at_fault) << report.verdict.summary;
    ASSERT_EQ(report.verdict.causes.size(), 1u) << report.verdict.summary;
    EXPECT_EQ(report.verdict.causes.begin()->first, cause);
  }
  // An element of a gradient that is large compared with the tolerance.
  int64_t large_element(Gradient gradient) const {
    const auto values = material.recorded.of(gradient).values();
    int64_t best = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      if (std::abs(values[i]) > std::abs(values[static_cast<size_t>(best)])) best = static_cast<int64_t>(i);
    }
    return best;
  }
};
INSTANTIATE_TEST_SUITE_P(Shapes, Planted, ::testing::ValuesIn(shapes()),
                         [](const auto& shape) { return std::to_string(shape.index); });

TEST_P(Planted, OneNanInValue) {
  // The pixel with the largest gradient, which some sample reads.
  problem.value.set(large_element(analysis::MsdaGradient::kValue), std::numeric_limits<double>::quiet_NaN());
  TestMaterial poisoned(problem);
  poisoned.tolerance = kTest;
  const Report report = poisoned.analyze();
  expect_all(report, Cause::kNonFinite, AtFault::kNone);
  for (const Finding& f : findings_of(report)) {
    EXPECT_EQ(f.evidence["first"], "inputs/value");
    EXPECT_EQ(f.evidence["first_index"],
              poisoned.problem.value.view.index_of(large_element(analysis::MsdaGradient::kValue)));
  }
}

TEST_P(Planted, NanInValueThatTheKernelHides) {
  const TestMaterial clean = material;
  material.problem.value.set(large_element(analysis::MsdaGradient::kValue), std::numeric_limits<double>::quiet_NaN());
  material.recorded = clean.recorded;
  expect_all(material.analyze(), Cause::kNonFinite, AtFault::kObserved);
}

TEST_P(Planted, InfinityInGradOutput) {
  problem.grad_output.set(5, std::numeric_limits<double>::infinity());
  TestMaterial poisoned(problem);
  poisoned.tolerance = kTest;
  const Report report = poisoned.analyze();
  expect_all(report, Cause::kNonFinite, AtFault::kNone);
  for (const Finding& f : findings_of(report)) {
    EXPECT_EQ(f.evidence["first"], "inputs/grad_output");
    EXPECT_EQ(f.evidence["first_value"], "Infinity");
  }
}

// A number, or the infinity of the other sign, where an input makes the exact gradient infinite: no bound excuses it.
TEST_P(Planted, InfinityThatTheKernelHides) {
  const TestMaterial clean = material;
  const double infinity = std::numeric_limits<double>::infinity();
  material.problem.value.set(large_element(analysis::MsdaGradient::kValue), infinity);
  const TestMaterial followed(material.problem);
  for (const Gradient gradient :
       {Gradient(analysis::MsdaGradient::kSamplingLocations), Gradient(analysis::MsdaGradient::kAttentionWeights)}) {
    for (const bool negated : {false, true}) {
      TestMaterial hidden(material.problem);
      hidden.tolerance = kTest;
      const auto values = followed.recorded.of(gradient).values();
      const auto found = std::ranges::find_if(values, [](double x) { return std::isinf(x); });
      ASSERT_NE(found, values.end());
      const int64_t flat = found - values.begin();
      hidden.recorded.of(gradient).set(flat, negated ? -*found : clean.recorded.of(gradient).view.at(flat));
      int64_t judged = 0;
      for (const Finding& f : findings_of(hidden.analyze())) {
        EXPECT_EQ(f.cause, Cause::kNonFinite) << f.why;
        EXPECT_EQ(f.at_fault, f.gradient == gradient && f.flat == flat ? AtFault::kObserved : AtFault::kNone) << f.why;
        judged += f.gradient == gradient && f.flat == flat;
      }
      EXPECT_EQ(judged, 1);
    }
  }
}

// Where no kernel of the type meets the tolerance, a NaN that the kernel made up is still its own.
TEST_P(Planted, NanThatTheKernelMadeUpUnderATightTolerance) {
  material.tolerance = Tolerance{0, 1e-12};
  for (const Gradient gradient : analysis::MsdaGradient::kAll) {
    TestMaterial made_up = material;
    const int64_t flat = large_element(gradient);
    made_up.recorded.of(gradient).set(flat, std::numeric_limits<double>::quiet_NaN());
    int64_t found = 0;
    for (const Finding& f : findings_of(made_up.analyze())) {
      if (f.cause != Cause::kNonFinite) continue;
      EXPECT_EQ(f.at_fault, AtFault::kObserved) << f.why;
      ++found;
    }
    EXPECT_EQ(found, 1) << name_of(gradient);
  }
}

// A gradient beyond 65504, which float16 cannot represent.
TEST_P(Planted, Float16Overflow) {
  Problem half = make_problem(GetParam().sizes, GetParam().conventions, MSDA_FLOAT16, GetParam().seed);
  for (int64_t i = 0; i < half.grad_output.view.elements(); ++i)
    half.grad_output.set(i, 30000 + static_cast<double>(i % 7) * 100);
  for (int64_t i = 0; i < half.attention_weights.view.elements(); ++i) half.attention_weights.set(i, 1);
  for (int64_t i = 0; i < half.value.view.elements(); ++i) half.value.set(i, half.value.view.at(i) * 1e-4);
  const TestMaterial overflowing(half);
  const Report report = overflowing.analyze();
  expect_all(report, Cause::kNonFinite, AtFault::kTolerance);
  EXPECT_EQ(findings_of(report)[0].evidence["first"], "outputs/grad_value");
}

// The same, though a reference in float64 holds it; and an infinity of the other sign is no overflow.
TEST(NonFinite, OverflowBesideAWideReference) {
  Problem half =
      make_problem({1, 1, 8, 10, 2, {{6, 6}}}, {MSDA_GRID_SAMPLE, MSDA_PADDING_ZEROS, false}, MSDA_FLOAT16, 3);
  for (int64_t i = 0; i < half.grad_output.view.elements(); ++i) half.grad_output.set(i, 60000);
  for (int64_t i = 0; i < half.attention_weights.view.elements(); ++i) half.attention_weights.set(i, 4);
  TestMaterial material(half);
  material.tolerance = kTest;
  material.reference = run_backward(half, {MSDA_MODE_FLOAT64, 0, 0, 0});
  OwnedTensor& recorded = material.recorded.of(analysis::MsdaGradient::kValue);
  int64_t flat = 0;
  while (flat < recorded.view.elements() && !std::isinf(recorded.view.at(flat))) ++flat;
  ASSERT_LT(flat, recorded.view.elements());
  recorded.set(flat, -recorded.view.at(flat));
  int64_t overflows = 0;
  for (const Finding& f : material.analyze().findings) {
    if (f.gradient != analysis::MsdaGradient::kValue || f.cause != Cause::kNonFinite || f.advisory || f.count != 1)
      continue;
    EXPECT_EQ(f.at_fault, f.flat == flat ? AtFault::kObserved : AtFault::kTolerance) << f.flat << ": " << f.why;
    overflows += f.flat != flat;
  }
  EXPECT_GT(overflows, 3);

  // A finite number is wrong where the gradient does not fit, and the reference's infinity is not.
  material.reference = run_backward(half);
  recorded.set(flat, 7);
  for (const Finding& f : material.analyze().findings) {
    if (f.gradient != analysis::MsdaGradient::kValue || f.flat != flat || f.advisory) continue;
    EXPECT_EQ(f.at_fault, AtFault::kObserved) << f.against << ": " << f.why;
  }
}

// A NaN in grad_output of a sample within rounding of a pixel's centre: whether it comes to the pixel beyond depends on
// the cell that the kernel lands it in, and a kernel whose sample does not come there hides nothing.
TEST(NonFinite, OfASampleThatRoundingLandsElsewhere) {
  for (const double location : {0x1.bffffep-5, 0x1.cp-5}) {  // 2.9999998 pixels, and 3 exactly
    Problem problem =
        make_problem({1, 1, 1, 400, 1, {{64, 64}}}, {MSDA_MSDA_TRITON, MSDA_PADDING_ZEROS, false}, MSDA_FLOAT32, 5);
    for (int64_t q = 0; q < 400; ++q) problem.sampling_locations.set(2 * q, 0.058 + 0.00002 * static_cast<double>(q));
    for (int64_t q = 0; q < 400; ++q) problem.sampling_locations.set(2 * q + 1, 3.25 / 64);
    problem.sampling_locations.set(0, location);
    problem.grad_output.set(0, 0);
    TestMaterial material(problem);  // finite
    problem.grad_output.set(0, std::numeric_limits<double>::quiet_NaN());
    material.problem = problem;
    OwnedTensor& recorded = material.recorded.of(analysis::MsdaGradient::kValue);
    for (const int64_t pixel : {2 * 64 + 2, 2 * 64 + 3, 3 * 64 + 2, 3 * 64 + 3}) {
      recorded.set(pixel, std::numeric_limits<double>::quiet_NaN());  // cell 2, which does not reach pixel 4
    }
    material.tolerance = Tolerance{0, 0};
    int64_t judged = 0;
    for (const Finding& f : material.analyze().findings) {
      if (f.gradient != analysis::MsdaGradient::kValue || f.advisory) continue;
      EXPECT_NE(f.cause, Cause::kImplementationError) << location << " " << f.flat << ": " << f.why;
      if (f.cause == Cause::kNonFinite) {
        EXPECT_EQ(f.at_fault, AtFault::kNone) << location << " " << f.flat << f.why;
      }
      judged += f.flat == 2 * 64 + 4 || f.flat == 3 * 64 + 4;
    }
    EXPECT_GT(judged, 0);
  }
}

// Two atomic results of the same addends, with a tolerance that no order can meet everywhere.
TEST_P(Planted, OrderOfTheSameAddends) {
  Sizes crowded = GetParam().sizes;
  crowded.Q = 600;
  crowded.levels = {{2, 2}, {1, 2}};
  TestMaterial orders(make_problem(crowded, GetParam().conventions, MSDA_FLOAT32, GetParam().seed));
  orders.reference = run_backward(orders.problem, {MSDA_MODE_ATOMIC, 0, 12345, 0});
  orders.reference_conventions = orders.problem.conventions;
  orders.tolerance = Tolerance{1e-6, 1e-6};
  const Report report = orders.analyze();
  int64_t found = 0;
  for (const Finding& f : findings_of(report)) {
    if (f.against != "reference") continue;
    ++found;
    EXPECT_EQ(f.cause, Cause::kAccumulationOrder) << f.why;
    EXPECT_EQ(f.gradient, analysis::MsdaGradient::kValue);
    EXPECT_GT(f.evidence["orders_tried"].get<int>(), 60);
  }
  EXPECT_GT(found, 0);
}

// Findings do not depend on replays with a random order: here each of these is exact.
TEST_P(Planted, ReplaysThatDrawTheirOrderDecideNothing) {
  material.tolerance = Tolerance{0, 1e-9};
  const auto at_fault = [&](const char* name) {
    const Gradients truth = run_backward(material.problem, {MSDA_MODE_FLOAT64, 0, 0, 0});
    if (name != nullptr) material.more = {truth.side(name)};
    const Report report = material.analyze();
    std::vector<AtFault> sides;
    for (const Finding& f : findings_of(report)) sides.push_back(f.at_fault);
    return sides;
  };
  const auto without = at_fault(nullptr);
  EXPECT_EQ(at_fault("atomic"), without);
  EXPECT_EQ(at_fault("original"), without);
  EXPECT_NE(at_fault("another"), without);
}

// The location that msda-triton's own test failed on: 2 * location - 1 in float32 rounds it into the next cell.
TEST(CellBoundary, OfGridSamplesCoordinate) {
  for (const bool align : {false, true}) {
    for (const msda_padding padding : {MSDA_PADDING_ZEROS, MSDA_PADDING_BORDER}) {
      Problem problem =
          make_problem({1, 1, 32, 20, 2, {{64, 64}, {16, 16}}}, {MSDA_MSDA_TRITON, padding, align}, MSDA_FLOAT32, 5);
      const int64_t flat = 2 * (7 * 2 * 2);  // query 7, level 0, point 0, x
      problem.sampling_locations.set(flat, align ? 0.06349207 : 0x1.bffffep-5);
      TestMaterial material(problem);
      material.tolerance = kTest;
      material.add_reference();
      const Report report = material.analyze();
      int64_t against_reference = 0;
      for (const Finding& f : report.findings) {
        EXPECT_EQ(f.cause, Cause::kCellBoundary) << f.why;
        EXPECT_EQ(f.at_fault, AtFault::kReference);
        EXPECT_EQ(f.flat, flat);
        EXPECT_EQ(f.evidence["axis"], "x");
        EXPECT_EQ(f.evidence["boundary"], align ? 4 : 3);
        EXPECT_LE(f.evidence["distance_in_ulp"].get<double>(), 1);
        against_reference += f.against == "reference";
      }
      EXPECT_EQ(against_reference, 1);
      EXPECT_EQ(report.verdict.at_fault, AtFault::kReference);
    }
  }
}

// A coordinate that is exact in neither arithmetic lands wrong in the recorded kernel: the kernel is at fault.
TEST(CellBoundary, OfTheRecordedKernel) {
  Problem problem =
      make_problem({1, 1, 32, 20, 2, {{64, 64}}}, {MSDA_GRID_SAMPLE, MSDA_PADDING_ZEROS, false}, MSDA_FLOAT32, 6);
  problem.sampling_locations.set(0, 0x1.bffffep-5);
  TestMaterial material(problem);
  material.tolerance = kTest;
  material.reference_conventions.dialect = MSDA_MSDA_TRITON;
  material.add_reference();
  const Report report = material.analyze();
  EXPECT_EQ(report.verdict.at_fault, AtFault::kObserved) << report.verdict.summary;
  ASSERT_EQ(report.findings.size(), 2u);  // against the reference, and against float64
  for (const Finding& f : report.findings) EXPECT_EQ(f.cause, Cause::kCellBoundary) << f.why;
  EXPECT_EQ(report.verdict.causes.at(Cause::kCellBoundary), 1) << "one element, reported once";
}

TEST(BorderClamp, AtLocationZero) {
  Problem problem =
      make_problem({1, 1, 32, 20, 2, {{32, 32}}}, {MSDA_MSDA_TRITON, MSDA_PADDING_BORDER, true}, MSDA_FLOAT32, 7);
  for (const double location : {0.0, 0x1p-40}) {  // on the border, and within its rounding error
    problem.sampling_locations.set(4, location);
    TestMaterial material(problem);
    material.tolerance = kTest;
    material.add_reference();
    const Report report = material.analyze();
    ASSERT_EQ(report.findings.size(), 2u);  // the second is advice
    for (const Finding& f : report.findings) {
      EXPECT_EQ(f.cause, Cause::kBorderClamp) << f.why;
      EXPECT_EQ(f.at_fault, AtFault::kConvention);
      EXPECT_EQ(f.flat, 4);
      EXPECT_EQ(f.expected, 0);
    }
    EXPECT_EQ(report.verdict.at_fault, AtFault::kConvention);
  }
}

// A mistake at a sample on a boundary is still a mistake.
TEST(CellBoundary, ExcusesNoMistake) {
  Problem problem =
      make_problem({1, 1, 32, 20, 2, {{64, 64}}}, {MSDA_MSDA_TRITON, MSDA_PADDING_ZEROS, false}, MSDA_FLOAT32, 5);
  problem.sampling_locations.set(0, 0x1.bffffep-5);
  TestMaterial material(problem);
  material.tolerance = kTest;
  material.add_reference();
  material.recorded.of(analysis::MsdaGradient::kSamplingLocations)
      .set(0, 2 * material.recorded.of(analysis::MsdaGradient::kSamplingLocations).view.at(0) + 1);
  const Report report = material.analyze();
  EXPECT_EQ(report.verdict.at_fault, AtFault::kObserved);
  for (const Finding& f : report.findings) EXPECT_EQ(f.cause, Cause::kImplementationError) << f.why;
}

// grad_value summed in the problem's 16-bit type, an addend at a time.
OwnedTensor summed_in_16_bits(const Problem& problem) {
  const analysis::MsdaCall call = problem.call();
  const auto cache = call.new_cache();
  OwnedTensor grad_value = OwnedTensor::for_result(problem.dtype, problem.shape_of(analysis::MsdaGradient::kValue));
  for (int64_t flat = 0; flat < grad_value.view.elements(); ++flat) {
    double sum = 0;
    for (const double addend : call.addends(call.element_id(analysis::MsdaGradient::kValue, flat), *cache).values) {
      sum = analysis::rounded_to(sum + analysis::rounded_to(addend, problem.dtype), problem.dtype);
    }
    grad_value.set(flat, sum);
  }
  return grad_value;
}

// Elements of grad_value called mistakes.
std::vector<int64_t> mistaken(const Report& report) {
  std::vector<int64_t> elements;
  for (const auto& set : report.judged) {
    if (set.advisory || set.gradient != analysis::MsdaGradient::kValue || set.cause != Cause::kImplementationError)
      continue;
    for (const auto& [flat, count] : set.runs) {
      for (int64_t i = 0; i < count; ++i) elements.push_back(flat + i);
    }
  }
  return elements;
}

// Kernels on 16-bit tensors that compute in 16 bits are recognized by their values, and their rounding is not a
// mistake.
TEST(SixteenBitArithmetic, IsTellApartFromFloat32) {
  const Problem problem =
      make_problem({1, 2, 16, 80, 2, {{6, 6}}}, {MSDA_MSDA_TRITON, MSDA_PADDING_ZEROS, false}, MSDA_FLOAT16, 8);
  TestMaterial material(problem);
  material.recorded.of(analysis::MsdaGradient::kValue) = summed_in_16_bits(problem);
  material.tolerance = Tolerance{1e-4, 1e-3};
  const Report report = material.analyze();
  ASSERT_FALSE(report.findings.empty());
  for (const Finding& f : report.findings) {
    if (f.advisory) continue;
    EXPECT_TRUE(analysis::is_rounding(f.cause)) << name_of(f.cause) << f.why;
  }
}

// Two addends are three roundings in a 16-bit type and one in float32: few values lie beyond float32's, and none is a
// mistake.
TEST(SixteenBitArithmetic, IsToldFromTwoAddends) {
  for (const msda_dtype dtype : {MSDA_FLOAT16, MSDA_BFLOAT16}) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const Problem problem =
          make_problem({1, 2, 9, 4, 1, {{12, 11}, {9, 7}}}, {MSDA_MSDA_TRITON, MSDA_PADDING_ZEROS, false}, dtype, seed);
      TestMaterial material(problem);
      material.recorded.of(analysis::MsdaGradient::kValue) = summed_in_16_bits(problem);
      material.tolerance = Tolerance{0, 1e-6};
      EXPECT_EQ(mistaken(material.analyze()), std::vector<int64_t>{}) << msda_dtype_name(dtype) << " " << seed;
    }
  }
}

// Half of the gradient is wrong: what is right is still recognized as a 16-bit sum.
TEST(SixteenBitArithmetic, IsToldFromWhatIsRight) {
  const Problem problem =
      make_problem({1, 2, 16, 80, 2, {{6, 6}}}, {MSDA_MSDA_TRITON, MSDA_PADDING_ZEROS, false}, MSDA_FLOAT16, 8);
  TestMaterial material(problem);
  OwnedTensor& grad_value = material.recorded.of(analysis::MsdaGradient::kValue) = summed_in_16_bits(problem);
  material.tolerance = Tolerance{1e-4, 1e-3};
  int64_t planted = 0;
  for (int64_t flat = 0; flat < grad_value.view.elements(); ++flat) {
    if (flat / 16 % 2 == 0) continue;  // the other head
    grad_value.set(flat, grad_value.view.at(flat) + 5);
    ++planted;
  }
  const std::vector<int64_t> found = mistaken(material.analyze());
  EXPECT_EQ(static_cast<int64_t>(found.size()), planted);
  for (const int64_t flat : found) EXPECT_EQ(flat / 16 % 2, 1);
}

// Faults that sums in bfloat16 would hide, in a kernel whose other sums are none.
TEST(SixteenBitArithmetic, ExcusesNoFaultOfAKernelThatAddsInFloat32) {
  const Problem problem =
      make_problem({1, 2, 16, 200, 2, {{6, 6}}}, {MSDA_MSDA_TRITON, MSDA_PADDING_ZEROS, false}, MSDA_BFLOAT16, 8);
  TestMaterial material(problem);
  OwnedTensor& grad_value = material.recorded.of(analysis::MsdaGradient::kValue);
  const std::vector<int64_t> planted{7, 100, 333, 700, 901};
  for (const int64_t flat : planted) grad_value.set(flat, grad_value.view.at(flat) * 1.03);
  material.tolerance = Tolerance{1e-4, 2e-2};
  EXPECT_EQ(mistaken(material.analyze()), planted);
}

// Where each side is explained, but not by landings that agree, the one is wrong that the exact landing does not
// explain.
TEST(ImplementationError, IsOfTheSideThatOnlyAnotherLandingExplains) {
  const Problem problem =
      make_problem({1, 1, 4, 5, 1, {{6, 6}}}, {MSDA_MSDA_TRITON, MSDA_PADDING_ZEROS, false}, MSDA_BFLOAT16, 8);
  const analysis::MsdaCall call = problem.call();
  const auto cache = call.new_cache();
  const Gradients gradients = run_backward(problem);
  const analysis::Side side = gradients.side("recorded");
  const auto id = call.element_id(analysis::MsdaGradient::kAttentionWeights, 0);
  analysis::Explanation exact = explain(call, side, id, *cache), elsewhere = exact;
  exact.candidates.resize(1);
  exact.candidates.push_back(exact.candidates[0]);
  elsewhere.candidates = exact.candidates;
  exact.matches = {0};
  elsewhere.matches = {1};
  const auto at_fault = [&](const analysis::Explanation& observed, const analysis::Explanation& expected) {
    return analysis::implementation_error({call, id, side, side, false, 1, 2, 1, std::nullopt, observed, expected, true,
                                           false, true, kTest, *cache})
        .at_fault;
  };
  EXPECT_EQ(at_fault(exact, elsewhere), AtFault::kReference);
  EXPECT_EQ(at_fault(elsewhere, exact), AtFault::kObserved);
}

TEST(Findings, ManyNeighboursAreToldAsRuns) {
  Problem problem =
      make_problem({1, 1, 32, 100, 4, {{10, 10}}}, {MSDA_MSDA_TRITON, MSDA_PADDING_ZEROS, false}, MSDA_FLOAT32, 9);
  TestMaterial material(problem);
  material.tolerance = kTest;
  OwnedTensor& tensor = material.recorded.of(analysis::MsdaGradient::kValue);
  for (int64_t i = 0; i < 1000; ++i) tensor.set(i, tensor.view.at(i) + 5);
  const Report report = material.analyze();
  EXPECT_EQ(report.verdict.causes.at(Cause::kImplementationError), 1000);
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(report.findings[0].count, 1000);
}

}  // namespace
}  // namespace msda::tests
