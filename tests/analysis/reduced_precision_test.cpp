// reduced_precision: named where a side rounded to fewer bits than the tensors have, whatever it rounded; never where
// an error is merely as large.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "analysis/numbers/narrow.h"
#include "tests/support/material.h"
#include "tests/support/reduced.h"

namespace msda::tests {
namespace {

using analysis::AtFault;
using analysis::Cause;
using analysis::Conventions;
using analysis::Finding;
using analysis::Gradient;
using analysis::Narrow;
using analysis::Report;
using analysis::Tolerance;

// Far tighter than TF32, wider than nearly all rounding of float32.
constexpr Tolerance kTight{1e-5, 1e-4};

struct ReducedShape {
  Sizes sizes;
  Conventions conventions;
  uint64_t seed;
};

std::vector<ReducedShape> reduced_shapes() {
  return {{{1, 1, 32, 60, 3, {{16, 16}, {8, 8}}}, {MSDA_MSDA_TRITON, MSDA_PADDING_BORDER, false}, 1},
          {{2, 2, 8, 40, 2, {{7, 5}, {3, 9}, {1, 1}}}, {MSDA_DEFORMABLE_DETR, MSDA_PADDING_ZEROS, false}, 2},
          {{1, 3, 17, 25, 4, {{6, 11}, {5, 4}}}, {MSDA_GRID_SAMPLE, MSDA_PADDING_ZEROS, true}, 3},
          {{2, 1, 30, 50, 1, {{9, 9}, {4, 6}}}, {MSDA_GRID_SAMPLE, MSDA_PADDING_BORDER, false}, 4}};
}

struct Type {
  const char* name;
  float (*round)(float);
  Narrow narrow;
};
constexpr Type kNarrowTypes[] = {{"tf32", tf32_even, Narrow::kTf32Even},
                                 {"tf32", tf32_away, Narrow::kTf32Away},
                                 {"tf32", tf32_truncated, Narrow::kTf32Truncated},
                                 {"bfloat16", bfloat16, Narrow::kBFloat16},
                                 {"bfloat16", bfloat16_truncated, Narrow::kBFloat16Truncated},
                                 {"float16", float16, Narrow::kFloat16}};

TEST(Narrow, RoundsEveryKindOfNumberAsItsBitsSay) {
  std::mt19937_64 random(1);
  for (const Type& type : kNarrowTypes) {
    for (int i = 0; i < 200'000; ++i) {
      auto bits = static_cast<uint32_t>(random());
      if (i % 3 == 0) bits &= ~uint32_t{0xfff};                 // ties
      if (i % 5 == 0) bits = (bits & 0x87ffffff) | 0x30000000;  // around float16's smallest
      const auto x = std::bit_cast<float>(bits);
      if (!std::isfinite(x) || std::abs(x) < 0x1p-126f) continue;
      EXPECT_EQ(analysis::round_to(type.narrow, x), double{type.round(x)}) << rounding_name(type.narrow) << " " << x;
    }
    EXPECT_EQ(analysis::round_to(type.narrow, 0.0), 0);
    EXPECT_TRUE(std::isnan(analysis::round_to(type.narrow, NAN)));
  }
}

class Reduced : public ::testing::TestWithParam<ReducedShape> {
 protected:
  Problem problem = make_problem(GetParam().sizes, GetParam().conventions, MSDA_FLOAT32, GetParam().seed);

  // The recorded side, or the reference, with these steps rounded.
  TestMaterial plant(bool in_reference, float (*round)(float), const StepNames& steps) const {
    TestMaterial material(problem);
    material.tolerance = kTight;
    material.reference_conventions = problem.conventions;
    if (in_reference) {
      material.reference_conventions.dialect = MSDA_GRID_SAMPLE;
      material.reference = reduced(problem, material.reference_conventions, round, steps);
    } else {
      material.add_reference();
      material.recorded = reduced(problem, problem.conventions, round, steps);
    }
    return material;
  }
};
INSTANTIATE_TEST_SUITE_P(Shapes, Reduced, ::testing::ValuesIn(reduced_shapes()),
                         [](const auto& shape) { return std::to_string(shape.index); });

int64_t count(const Report& report, const std::function<bool(const Finding&)>& such) {
  return std::ranges::count_if(report.findings, [&](const Finding& f) { return !f.advisory && such(f); });
}

// No finding is a mistake, and those of reduced precision are charged to the side; counts them.
int64_t expect_reduced(const Report& report, AtFault at_fault) {
  for (const Finding& f : report.findings) {
    EXPECT_NE(f.cause, Cause::kImplementationError) << name_of(f.gradient) << ": " << f.why;
    if (f.cause != Cause::kReducedPrecision) continue;
    EXPECT_EQ(f.at_fault, at_fault) << f.why;
  }
  EXPECT_EQ(report.verdict.at_fault, at_fault) << report.verdict.summary;
  return count(report, [](const Finding& f) { return f.cause == Cause::kReducedPrecision; });
}

// Sets of steps that implementations round, and in which gradients that shows.
struct ReducedCase {
  StepNames steps;
  std::vector<Gradient> gradients;
};
const std::vector<Gradient> kAll{analysis::MsdaGradient::kValue, analysis::MsdaGradient::kSamplingLocations,
                                 analysis::MsdaGradient::kAttentionWeights};
std::vector<ReducedCase> cases() {
  const auto [value, locations, attention] = std::tuple(kAll[0], kAll[1], kAll[2]);
  return {{{"grad_output"}, kAll},
          {{"value"}, {locations, attention}},
          {{"attention_weights"}, {value, locations}},
          {{"grad_output", "attention_weights"}, {value, locations}},
          {{"grad_output", "value"}, {attention}},
          {{"grad_output", "sampled_value"}, {attention}},
          {{"interpolation_weights"}, kAll},
          {{"interpolation_weights", "value"}, {attention}},
          {{"grad_output*attention_weights"}, {value, locations}},
          {{"grad_output", "attention_weights", "grad_output*attention_weights"}, {value, locations}},
          {{"addends"}, kAll},
          {{"grad_output", "attention_weights", "value", "sampling_locations"}, {value, locations}}};
}

// The names that a gradient's evidence must have of the steps that were rounded.
StepNames shown_in(const StepNames& steps, Gradient gradient) {
  StepNames shown = steps;
  if (gradient == analysis::MsdaGradient::kValue) shown.erase("value");
  if (gradient == analysis::MsdaGradient::kValue) shown.erase("sampled_value");
  if (gradient == analysis::MsdaGradient::kAttentionWeights) shown.erase("attention_weights");
  return shown;
}

TEST_P(Reduced, NamesTypeStepsAndSide) {
  uint64_t number = GetParam().seed;
  for (const Type& type : kNarrowTypes) {
    for (const ReducedCase& reduced_case : cases()) {
      for (const bool in_reference : {true, false}) {
        if (++number % 5 != 0) continue;  // each with every other in one of the reduced_shapes at least, but not in all
        std::string text = std::string(type.name) + (in_reference ? " reference" : " recorded");
        for (const std::string& step : reduced_case.steps) text += " " + step;
        SCOPED_TRACE(text);
        const Report report = plant(in_reference, type.round, reduced_case.steps).analyze();
        EXPECT_GT(expect_reduced(report, in_reference ? AtFault::kReference : AtFault::kObserved), 0);
        for (const Gradient gradient : reduced_case.gradients) {
          const auto named = [&](const Finding& f) {
            return f.gradient == gradient && f.cause == Cause::kReducedPrecision;
          };
          EXPECT_GT(count(report, named), 0) << name_of(gradient);
          for (const Finding& f : report.findings) {
            if (!named(f)) continue;
            const auto types = f.evidence["types"].get<std::vector<std::string>>();
            EXPECT_TRUE(std::ranges::find(types, type.name) != types.end()) << f.why;
            EXPECT_TRUE(types.size() == 1 || types == std::vector<std::string>({"tf32", "float16"})) << f.why;
            EXPECT_EQ(f.evidence["rounded"].get<StepNames>(), shown_in(reduced_case.steps, gradient)) << f.why;
            EXPECT_EQ(f.evidence["side"], in_reference ? "reference" : "recorded");
            EXPECT_LE(std::abs(f.evidence["reduced_error"].get<double>()), f.evidence["reduced_bound"].get<double>());
            const double error = std::abs(f.evidence["error"].get<double>());
            EXPECT_TRUE(error > f.evidence["rounding_bound"].get<double>() ||
                        error >= 15 * std::abs(f.evidence["reduced_error"].get<double>()))
                << f.why;
            EXPECT_GE(f.evidence["chance_bits"].get<double>(), 64);
          }
        }
      }
    }
  }
}

// Under a tolerance that plain float32 meets and the narrowing misses, elements are off by it even where the wide
// bounds of float32 would explain them.
TEST_P(Reduced, NamesWhatRoundingCouldExplain) {
  const Gradients plain = reduced(problem, problem.conventions, tf32_even, {});
  const Gradients exact = run_backward(problem, {MSDA_MODE_FLOAT64, 0, 0, 0});
  int64_t wrong = 0, missed = 0;
  for (const Type& type : kNarrowTypes) {
    for (const StepNames& steps : {StepNames{"grad_output"}, StepNames{"addends"}, StepNames{"result"}}) {
      if (steps.contains("result") && type.name == std::string("tf32")) continue;
      TestMaterial material = plant(/*in_reference=*/false, type.round, steps);
      material.tolerance = Tolerance{2e-6, 0};
      const Report report = material.analyze();
      for (const auto& set : report.judged) {
        if (set.advisory || set.against != "float64") continue;
        const auto &right = plain.of(set.gradient).view, &truth = exact.of(set.gradient).view;
        for (const auto& run : set.runs) {
          for (int64_t flat = run.flat; flat < run.flat + run.count; ++flat) {
            if (!material.tolerance->holds(right.at(flat), truth.at(flat))) continue;
            ++wrong;
            missed += set.cause != Cause::kReducedPrecision;
          }
        }
      }
    }
  }
  EXPECT_GT(wrong, 1000);
  EXPECT_LE(missed, wrong / 1000) << "of " << wrong;
}

// Results cast to 16 bits and back, and sums kept in 16 bits.
TEST_P(Reduced, NamesResultsAndSumsIn16Bits) {
  for (const Type& type : {kNarrowTypes[3], kNarrowTypes[5]}) {
    for (const StepNames& steps :
         {StepNames{"result"}, StepNames{"grad_output", "result"}, StepNames{"sums", "result"}}) {
      for (const bool in_reference : {true, false}) {
        SCOPED_TRACE(std::string(type.name) + (in_reference ? " reference " : " recorded ") + *steps.rbegin());
        const Report report = plant(in_reference, type.round, steps).analyze();
        EXPECT_GT(expect_reduced(report, in_reference ? AtFault::kReference : AtFault::kObserved), 20);
        for (const Finding& f : report.findings) {
          if (f.cause != Cause::kReducedPrecision) continue;
          EXPECT_EQ(f.evidence["types"], std::vector<std::string>{type.name}) << f.why;
          EXPECT_TRUE(f.evidence["rounded"].get<StepNames>().contains("result")) << f.why;
          if (steps.contains("sums")) continue;
          EXPECT_EQ(f.evidence["rounded"].get<StepNames>(), steps) << f.why;
        }
      }
    }
  }
}

// float64 tensors that a side computed in float32.
TEST_P(Reduced, NamesFloat32BehindFloat64Tensors) {
  problem = make_problem(GetParam().sizes, GetParam().conventions, MSDA_FLOAT64, GetParam().seed);
  const StepNames everything{"grad_output", "attention_weights", "value", "sampling_locations", "sums", "result"};
  for (const StepNames& steps : {everything, StepNames{"grad_output", "value", "attention_weights"}}) {
    for (const bool in_reference : {true, false}) {
      TestMaterial material = plant(in_reference, float32, steps);
      material.tolerance = Tolerance{1e-9, 1e-9};
      const Report report = material.analyze();
      EXPECT_GT(expect_reduced(report, in_reference ? AtFault::kReference : AtFault::kObserved), 20);
      for (const Finding& f : report.findings) {
        if (f.cause != Cause::kReducedPrecision) continue;
        EXPECT_EQ(f.evidence["type"], "float32") << f.why;
      }
    }
  }
}

// Ordinary float32, in another order and in another dialect, under a tolerance that rounding misses.
TEST_P(Reduced, IsNotOrdinaryRounding) {
  TestMaterial material = plant(true, tf32_even, {});
  material.tolerance = Tolerance{0, 1e-7};
  const Report report = material.analyze();
  EXPECT_GT(report.findings.size(), 100u);
  EXPECT_EQ(count(report, [](const Finding& f) { return f.cause == Cause::kReducedPrecision; }), 0);
}

// Mistakes whose errors are as large as those of TF32 and bfloat16, on all elements: none is excused.
TEST_P(Reduced, ExcusesNoMistakeOfItsSize) {
  std::mt19937_64 random(GetParam().seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  const std::pair<const char*, std::function<double(double)>> mistakes[] = {
      {"scale by 1 + 2^-11", [](double x) { return x * (1 + 0x1p-11); }},
      {"scale by 1 - 2^-12, as truncation on average", [](double x) { return x * (1 - 0x1p-12); }},
      {"scale by 1.003", [](double x) { return x * 1.003; }},
      {"scale by 1.1", [](double x) { return x * 1.1; }},
      {"noise of TF32's size", [&](double x) { return x * (1 + 0x1p-11 * uniform(random)); }},
      {"noise of bfloat16's size", [&](double x) { return x * (1 + 0x1p-8 * uniform(random)); }},
      {"cut to 12 bits",
       [](double x) { return double{std::bit_cast<float>(std::bit_cast<uint32_t>(float(x)) & ~0xfffu)}; }},
      {"scale by 1.003, then to bfloat16", [](double x) { return double{bfloat16(float(x * 1.003))}; }},
      {"scale by 1.1, then to bfloat16", [](double x) { return double{bfloat16(float(x * 1.1))}; }},
      {"scale by 1.02, then to float16", [](double x) { return double{float16(float(x * 1.02))}; }},
      {"offset", [](double x) { return x + 0x1p-10; }}};
  for (const auto& [text, mistake] : mistakes) {
    for (const bool in_reference : {true, false}) {
      TestMaterial material = plant(in_reference, tf32_even, {});
      Gradients& side = in_reference ? *material.reference : material.recorded;
      for (const Gradient gradient : analysis::MsdaGradient::kAll) {
        const int64_t total = side.of(gradient).view.elements();
        for (int64_t i = 0; i < total; ++i) side.of(gradient).set(i, mistake(side.of(gradient).view.at(i)));
      }
      const Report report = material.analyze();
      EXPECT_EQ(count(report, [](const Finding& f) { return f.cause == Cause::kReducedPrecision; }), 0)
          << text << " " << report.verdict.summary;
      EXPECT_GT(count(report, [](const Finding& f) { return f.cause == Cause::kImplementationError; }), 0) << text;
    }
  }
}

// Operands that are wrong by as much as TF32 rounds them, and corners left out.
TEST_P(Reduced, ExcusesNoOperandThatIsSlightlyWrong) {
  const Problem right = problem;
  for (OwnedTensor Problem::*operand : {&Problem::grad_output, &Problem::attention_weights, &Problem::value}) {
    std::mt19937_64 random(GetParam().seed);
    for (int64_t i = 0; i < (problem.*operand).view.elements(); ++i) {
      const double step = static_cast<double>(random() % 3) - 1;
      (problem.*operand).set(i, (right.*operand).view.at(i) * (1 + step * 0x1p-12));
    }
    TestMaterial material(right);
    material.tolerance = kTight;
    material.recorded = run_backward(problem);
    problem = right;
    const Report report = material.analyze();
    EXPECT_EQ(count(report, [](const Finding& f) { return f.cause == Cause::kReducedPrecision; }), 0);
    EXPECT_GT(count(report, [](const Finding& f) { return f.cause == Cause::kImplementationError; }), 0);
  }
}

// Faults among elements that a narrowing explains, on either side: all of them are found, and nothing else is.
TEST_P(Reduced, HidesNoFault) {
  for (const Type& type : {kNarrowTypes[1], kNarrowTypes[3]}) {
    for (const bool in_reference : {true, false}) {
      TestMaterial material = plant(in_reference, type.round, {"grad_output"});
      Gradients& side = in_reference ? *material.reference : material.recorded;
      for (const Gradient gradient : analysis::MsdaGradient::kAll) {
        std::vector<int64_t> wrong;
        OwnedTensor& tensor = side.of(gradient);
        for (int64_t i = 0; i < tensor.view.elements() && wrong.size() < 5; i += 3) {
          if (std::abs(tensor.view.at(i)) < 0.3) continue;
          tensor.set(i, (wrong.size() % 2 == 0 ? -1 : 1.1) * tensor.view.at(i));
          wrong.push_back(i);
        }
        ASSERT_EQ(wrong.size(), 5u);
        const Report report = material.analyze();
        EXPECT_EQ(report.verdict.at_fault, in_reference ? AtFault::kReference : AtFault::kObserved);
        std::vector<int64_t> named;
        for (const auto& set : report.judged) {
          const bool against = in_reference ? set.against == "reference" : set.against == "float64";
          if (set.cause != Cause::kImplementationError || set.gradient != gradient || !against) continue;
          EXPECT_EQ(set.at_fault, in_reference ? AtFault::kReference : AtFault::kObserved);
          for (const auto& run : set.runs) {
            for (int64_t i = 0; i < run.count; ++i) named.push_back(run.flat + i);
          }
        }
        EXPECT_EQ(named, wrong) << name_of(gradient) << type.name;
        EXPECT_GT(report.verdict.causes.at(Cause::kReducedPrecision), 20);
      }
    }
  }
}

// A reference in TF32 that also landed in the next cell: the jump is what separates the two, not the rounding.
TEST(ReducedPrecision, LeavesTheCellBoundaryItsName) {
  Problem problem = make_problem({1, 1, 32, 60, 2, {{64, 64}, {16, 16}}}, {MSDA_MSDA_TRITON, MSDA_PADDING_ZEROS, false},
                                 MSDA_FLOAT32, 5);
  const int64_t flat = 2 * (7 * 2 * 2);  // query 7, level 0, point 0, x
  problem.sampling_locations.set(flat, 0x1.bffffep-5);
  TestMaterial material(problem);
  material.tolerance = Tolerance{1e-4, 1e-4};
  material.reference = reduced(problem, material.reference_conventions, tf32_away, {"grad_output"});
  const Report report = material.analyze();
  int64_t boundaries = 0;
  for (const Finding& f : report.findings) {
    if (f.advisory || f.against != "reference") continue;
    if (f.flat == flat && f.gradient == analysis::MsdaGradient::kSamplingLocations) {
      ++boundaries;
      EXPECT_EQ(f.cause, Cause::kCellBoundary) << f.why;
    } else {
      EXPECT_TRUE(f.cause == Cause::kReducedPrecision || analysis::is_rounding(f.cause)) << f.why;
    }
    EXPECT_EQ(f.at_fault, AtFault::kReference);
  }
  EXPECT_EQ(boundaries, 1);
}

// Locations rounded to bfloat16 land in cells that no rounding of their coordinates reaches: that is the narrowing's.
TEST_P(Reduced, IsNoCellBoundaryWhereLocationsAreRounded) {
  const TestMaterial material =
      plant(false, bfloat16, {"grad_output", "attention_weights", "value", "sampling_locations"});
  const Report report = material.analyze();
  int64_t other_cell = 0;
  for (const Finding& f : report.findings) {
    other_cell += f.cause == Cause::kReducedPrecision && f.gradient == analysis::MsdaGradient::kSamplingLocations;
    if (f.cause != Cause::kCellBoundary) continue;
    double reach = 0;
    for (const auto& side : f.evidence["sides"]) reach = std::max(reach, side["coordinate_error_bound"].get<double>());
    EXPECT_LE(std::abs(f.evidence["distance_to_boundary"].get<double>()), reach) << f.why;
  }
  EXPECT_GT(other_cell, 0);
}

// Too few numbers to decide: no narrowing is claimed.
TEST(ReducedPrecision, NeedsEvidence) {
  const Problem problem =
      make_problem({1, 1, 4, 1, 1, {{4, 4}}}, {MSDA_MSDA_TRITON, MSDA_PADDING_BORDER, false}, MSDA_FLOAT32, 6);
  TestMaterial material(problem);
  material.tolerance = kTight;
  material.recorded = reduced(problem, problem.conventions, tf32_away, {"grad_output"});
  const Report report = material.analyze();
  EXPECT_FALSE(report.findings.empty());
  for (const Finding& f : report.findings) EXPECT_NE(f.cause, Cause::kReducedPrecision) << f.why;
}

// Results in bfloat16 that are left of cancelling addends have no room for more bits, and decide nothing.
// Neither do results of addends that are all 0: 0 has no last bit.
TEST(ReducedPrecision, IsToldByNoSumOfZeros) {
  const Sizes sizes{1, 1, 2, 100, 1, {{16, 16}}};
  Problem problem = make_problem(sizes, {MSDA_MSDA_TRITON, MSDA_PADDING_BORDER, false}, MSDA_FLOAT32, 5);
  const std::vector<double> values = problem.value.values(), of_queries = problem.grad_output.values();
  for (int64_t pixel = 0; pixel < sizes.S(); ++pixel) {
    const double value = 1 + values[static_cast<size_t>(2 * pixel)];
    problem.value.set(2 * pixel, value);
    problem.value.set(2 * pixel + 1, value * (1 + 0x1p-14));
  }
  const auto kind = [](int64_t query) { return query % 5; };
  for (int64_t query = 0; query < sizes.Q; ++query) {
    if (kind(query) < 2) continue;
    const double narrow =
        kind(query) == 4 ? 0 : bfloat16(static_cast<float>(of_queries[static_cast<size_t>(2 * query)]));
    problem.grad_output.set(2 * query, narrow);
    problem.grad_output.set(2 * query + 1, -narrow * (1 + 0x1p-10));  // the same number in bfloat16
  }
  TestMaterial material(problem);
  material.tolerance = kTight;
  material.add_reference();
  material.recorded = reduced(problem, problem.conventions, bfloat16, {"grad_output", "result"});
  constexpr double kMistake = 0x1.91p-17;  // no number of bfloat16
  const Gradient attention = analysis::MsdaGradient::kAttentionWeights;
  for (int64_t query = 4; query < sizes.Q; query += 5)
    material.recorded.tensors[attention.place()].set(query, kMistake);
  const Report report = material.analyze();
  int64_t reduced_ones = 0;
  for (const Finding& f : report.findings) {
    if (f.advisory || f.gradient != attention) continue;
    EXPECT_EQ(f.cause, f.observed == kMistake ? Cause::kImplementationError : Cause::kReducedPrecision) << f.why;
    reduced_ones += f.cause == Cause::kReducedPrecision;
  }
  EXPECT_GT(reduced_ones, 40);
}

// Samples a little off the centres of pixels, where a kernel reads them at the centres: its weights are 1, as rounded
// ones would be, but the neighbours got nothing, and small weights have as many bits as large ones.
TEST(ReducedPrecision, IsToldByNoWeightsOfOne) {
  const Sizes sizes{1, 1, 16, 40, 1, {{16, 16}}};
  Problem exact = make_problem(sizes, {MSDA_MSDA_TRITON, MSDA_PADDING_BORDER, false}, MSDA_FLOAT64, 5);
  Problem snapped = exact;
  for (int64_t query = 0; query < sizes.Q; ++query) {
    for (const int64_t axis : {0, 1}) {
      const double centre = (static_cast<double>((query * (5 + 2 * axis)) % 14) + 1.5) / 16;
      snapped.sampling_locations.set(2 * query + axis, centre);
      exact.sampling_locations.set(2 * query + axis, centre + 1e-6 * static_cast<double>(1 + query % 5) / 16);
    }
  }
  TestMaterial material(exact);
  material.tolerance = Tolerance{0, 1e-6};
  material.recorded = TestMaterial(snapped).recorded;
  const Report report = material.analyze();
  int64_t wrong = 0;
  for (const Finding& f : report.findings) {
    EXPECT_NE(f.cause, Cause::kReducedPrecision) << f.why;
    wrong += f.cause == Cause::kImplementationError && f.at_fault == AtFault::kObserved;
  }
  EXPECT_GT(wrong, 40);
}

}  // namespace
}  // namespace msda::tests
