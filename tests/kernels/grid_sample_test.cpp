// grid_sample's kernels: the same bits however they run, and what the operator's definition says.
#include "kernels/grid_sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "analysis/model/evaluate.h"
#include "kernels/tree_sum.h"
#include "recorder/capture/digest.h"
#include "tests/support/grid_problem.h"

namespace msda::tests {
namespace {

using analysis::GridSampleCall;
using analysis::GridSampleGradient;

struct GridGradients {
  OwnedTensor input, grid;
  std::string digest() const { return capture::digest(input.bytes()) + capture::digest(grid.bytes()); }
};

GridGradients run_grid(const GridProblem& problem, const msda_options& options = {}, msda_dtype type = MSDA_FLOAT32) {
  const auto& call = problem.call;
  if (options.mode == MSDA_MODE_FLOAT64) type = MSDA_FLOAT64;
  GridGradients results{OwnedTensor::for_result(type, call.image.shape),
                        OwnedTensor::for_result(type, call.locations.shape)};
  const analysis::Tensor tensors[] = {results.input.view, results.grid.view};
  call.run_kernels(options, tensors);
  return results;
}

TEST(GridSample, SameBitsOnAnyThreadCountAndRun) {
  for (const Variant& variant : all_variants()) {
    const GridProblem problem = make_grid_problem(variant, MSDA_FLOAT32, 7, {3, 33, {3, 2, 2}, {40, 6, 3}});
    for (const msda_mode mode : {MSDA_MODE_DETERMINISTIC, MSDA_MODE_ATOMIC, MSDA_MODE_FLOAT64, MSDA_MODE_MIXED}) {
      std::set<std::string> digests;
      for (const int threads : {1, 2, 7, 2}) digests.insert(run_grid(problem, {mode, threads, 3, 1u << 4}).digest());
      EXPECT_EQ(digests.size(), 1u) << name_of(variant) << " " << msda_mode_name(mode);
    }
  }
}

TEST(GridSample, MixedIsDeterministicOrFloat64AtItsEnds) {
  constexpr uint32_t kAll = (1u << MSDA_GRID_STAGE_COUNT) - 1;
  for (const Variant& variant : all_variants()) {
    for (const msda_dtype dtype : {MSDA_FLOAT32, MSDA_BFLOAT16}) {
      const GridProblem problem = make_grid_problem(variant, dtype, 11, {2, 40, {3, 2, 2}, {40, 6, 3}});
      EXPECT_EQ(run_grid(problem, {MSDA_MODE_MIXED, 0, 0, 0}).digest(), run_grid(problem).digest()) << name_of(variant);
      EXPECT_EQ(run_grid(problem, {MSDA_MODE_MIXED, 0, 0, kAll}, MSDA_FLOAT64).digest(),
                run_grid(problem, {MSDA_MODE_FLOAT64, 0, 0, 0}).digest())
          << name_of(variant);
      const std::string none = run_grid(problem).digest();
      if (variant.interpolation == MSDA_NEAREST || dtype != MSDA_FLOAT32) continue;
      // The others alone may change nothing: a product of two float32 is rounded to float32 by the next stage.
      for (const auto stage :
           {MSDA_GRID_STAGE_PIXEL_COORDINATES, MSDA_GRID_STAGE_GRAD_GRID, MSDA_GRID_STAGE_GRAD_INPUT}) {
        EXPECT_NE(run_grid(problem, {MSDA_MODE_MIXED, 0, 0, 1u << stage}).digest(), none)
            << name_of(variant) << " " << msda_grid_stage_name(stage);
      }
    }
  }
}

TEST(GridSample, AtomicOrdersDifferBySeedInGradInputAlone) {
  const GridProblem problem = make_grid_problem(all_variants()[0], MSDA_FLOAT32, 5, {1, 3, {2, 2, 1}, {30, 30, 1}});
  std::set<std::string> input, grid;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const GridGradients gradients = run_grid(problem, {MSDA_MODE_ATOMIC, 0, seed, 0});
    input.insert(capture::digest(gradients.input.bytes()));
    grid.insert(capture::digest(gradients.grid.bytes()));
  }
  EXPECT_EQ(input.size(), 8u);
  EXPECT_EQ(grid.size(), 1u);
}

// As the atomic additions of a GPU.
TEST(GridSample, AtomicAdditionsFlushSubnormals) {
  for (const msda_dtype dtype : {MSDA_FLOAT32, MSDA_FLOAT64}) {
    GridProblem problem = make_grid_problem(all_variants()[0], dtype, 5);
    PortableNumbers fill;
    fill(problem.grad_output, -0x1p-128, 0x1p-128);
    for (const msda_mode mode : {MSDA_MODE_DETERMINISTIC, MSDA_MODE_ATOMIC}) {
      const auto values = run_grid(problem, {mode, 0, 7, 0}).input.values();
      const bool all_zero = std::ranges::all_of(values, [](double value) { return value == 0; });
      EXPECT_EQ(all_zero, dtype == MSDA_FLOAT32 && mode == MSDA_MODE_ATOMIC) << msda_mode_name(mode) << dtype;
    }
  }
}

void expect_close_gradients(const std::vector<double>& found, const std::vector<double>& wanted, double unit,
                            const std::string& what) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i) {
    if (std::isnan(wanted[i])) {
      EXPECT_TRUE(std::isnan(found[i])) << what << ", element " << i;
    } else if (found[i] != wanted[i]) {
      EXPECT_NEAR(found[i], wanted[i], unit) << what << ", element " << i;
    }
  }
}

// The definition is written for any way of landing, in other operations; the coordinates lie anywhere.
TEST(GridSample, KernelsAgreeWithTheDefinition) {
  const double far[] = {std::numeric_limits<double>::infinity(),
                        -std::numeric_limits<double>::infinity(),
                        std::nan(""),
                        1e9,
                        -1e12,
                        1e30,
                        4e5,
                        -1,
                        1,
                        0};
  for (const Variant& variant : all_variants()) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      GridProblem problem = make_grid_problem(variant, MSDA_FLOAT64, seed, {}, seed % 3 == 0 ? 4 : 1.2);
      for (size_t i = 0; i < std::size(far); ++i) problem.grid.set(static_cast<int64_t>(i * 2 + seed % 2), far[i]);
      if (seed % 4 == 1) problem.input.set(static_cast<int64_t>(seed), std::nan(""));
      const GridGradients kernels = run_grid(problem, {MSDA_MODE_FLOAT64, 0, 0, 0});
      for (const auto gradient : analysis::GridSampleGradient::kAll) {
        const OwnedTensor& found = gradient.scattered() ? kernels.input : kernels.grid;
        std::vector<double> wanted(found.values().size());
        analysis::evaluate(problem.call, gradient, analysis::EvaluationMode::kFloat64, 0, 1,
                           [&](int64_t flat, double value) { wanted[static_cast<size_t>(flat)] = value; });
        expect_close_gradients(found.values(), wanted, 1e-12, name_of(variant) + " " + gradient.name());
      }
    }
  }
}

TEST(GridSample, ResultsAreRoundedOnce) {
  for (const msda_dtype dtype : {MSDA_FLOAT16, MSDA_BFLOAT16}) {
    const GridProblem problem = make_grid_problem(all_variants()[0], dtype, 3);
    const auto wide = run_grid(problem), narrow = run_grid(problem, {}, dtype);
    EXPECT_EQ(OwnedTensor(wide.input.values(), dtype, problem.call.image.shape).values(), narrow.input.values());
    EXPECT_EQ(OwnedTensor(wide.grid.values(), dtype, problem.call.locations.shape).values(), narrow.grid.values());
  }
}

TEST(GridSample, StridesChangeNothing) {
  const GridProblem problem = make_grid_problem(all_variants()[0], MSDA_FLOAT32, 3);
  const auto& shape = problem.call.image.shape;
  // The same input, channels last.
  std::vector<float> memory(static_cast<size_t>(problem.call.image.elements()));
  msda_tensor input = problem.input.abi();
  input.data = memory.data();
  const int64_t strides[] = {shape[1] * shape[2] * shape[3], 1, shape[3] * shape[1], shape[1]};
  std::copy_n(strides, 4, input.stride);
  for (int64_t i = 0; i < problem.call.image.elements(); ++i) {
    const auto index = problem.call.image.index_of(i);
    int64_t at = 0;
    for (size_t d = 0; d < 4; ++d) at += index[d] * strides[d];
    memory[static_cast<size_t>(at)] = static_cast<float>(problem.call.image.at(i));
  }
  const msda_grid_sample_call call{MSDA_BILINEAR, MSDA_GRID_ZEROS, 0, input, problem.grid.abi()};
  const auto wanted = run_grid(problem);
  OwnedTensor found = OwnedTensor::for_result(MSDA_FLOAT32, problem.call.locations.shape);
  const msda_tensor grad_output = problem.grad_output.abi(), grad_grid = found.abi();
  ASSERT_EQ(msda_grid_sample_backward(&call, &grad_output, nullptr, nullptr, &grad_grid), MSDA_OK);
  EXPECT_EQ(found.values(), wanted.grid.values());
}

TEST(GridSample, RefusesWhatDoesNotFit) {
  const GridProblem problem = make_grid_problem(all_variants()[0], MSDA_FLOAT32, 3);
  const msda_tensor grad_output = problem.grad_output.abi();
  const msda_grid_sample_call right{MSDA_BILINEAR, MSDA_GRID_ZEROS, 0, problem.input.abi(), problem.grid.abi()};
  const auto refused = [&](const msda_grid_sample_call& call, const std::string& why,
                           const msda_options& options = {}) {
    EXPECT_EQ(msda_grid_sample_backward(&call, &grad_output, &options, nullptr, nullptr), MSDA_INVALID_ARGUMENT);
    EXPECT_NE(std::string(msda_last_error()).find(why), std::string::npos) << msda_last_error();
  };
  auto wrong = right;
  wrong.interpolation = static_cast<msda_interpolation>(3);
  refused(wrong, "no such interpolation: 3");
  wrong = right;
  wrong.padding = static_cast<msda_grid_padding>(-1);
  refused(wrong, "no such padding: -1");
  wrong.padding = MSDA_GRID_PIXELS;
  wrong.interpolation = MSDA_NEAREST;
  refused(wrong, "a grid in pixels has bilinear interpolation alone");
  wrong = right;
  wrong.input.rank = 3;
  refused(wrong, "input has rank 3, not 4 or 5");
  wrong = right;
  wrong.grid.shape[3] = 3;
  refused(wrong, "grid has shape");
  wrong = right;
  wrong.input.shape[2] = 0;
  refused(wrong, "input has a side of 0 pixels");
  wrong = right;
  wrong.input.data = nullptr;
  refused(wrong, "input has no data");
  wrong = right;
  wrong.grid.dtype = MSDA_INT32;
  refused(wrong, "grid has type int32, not a floating-point one");
  refused(right, "float64_stages is 0x20; there are 5 stages", {MSDA_MODE_MIXED, 0, 0, 1u << 5});
  EXPECT_EQ(msda_grid_sample_backward(nullptr, &grad_output, nullptr, nullptr, nullptr), MSDA_INVALID_ARGUMENT);
  EXPECT_EQ(msda_grid_sample_backward(&right, nullptr, nullptr, nullptr, nullptr), MSDA_INVALID_ARGUMENT);
  msda_tensor small = problem.grid.abi();
  small.shape[1] -= 1;
  EXPECT_EQ(msda_grid_sample_backward(&right, &grad_output, nullptr, nullptr, &small), MSDA_INVALID_ARGUMENT);
}

const analysis::Intermediate& stage_named(const std::vector<analysis::Intermediate>& stages, const std::string& name) {
  return *std::ranges::find_if(stages, [&](const auto& stage) { return stage.name == name; });
}

// An element's addends, as the intermediate tensor has them, summed as the kernels do.
template <class Real>
double sum_of_addends(const GridSampleCall& call, const analysis::ElementId& id, msda_mode mode) {
  const auto stages = call.intermediates();
  const auto& stage = stage_named(stages, "input_contributions");
  const auto cache = call.new_cache();
  kernels::TreeSum<Real> sum;
  const auto addends = call.named_addends(id, *cache);
  for (const auto& [text, sample, number] : addends) {
    const auto numbers = call.numbers_of(stage, sample, 1, mode, 1);
    sum.add(static_cast<Real>(numbers[static_cast<size_t>(number)]));
  }
  return addends.empty() ? 0 : static_cast<double>(Real(0) + sum.sum());
}

TEST(GridSample, IntermediateTensorsHaveTheKernelsBits) {
  for (const Variant& variant : all_variants()) {
    for (const auto dtype : {MSDA_FLOAT16, MSDA_BFLOAT16, MSDA_FLOAT32, MSDA_FLOAT64}) {
      const GridProblem problem = make_grid_problem(variant, dtype, 17, {2, 3, {4, 3, 2}, {5, 3, 2}});
      const GridSampleCall& call = problem.call;
      const auto stages = call.intermediates();
      const auto& grad_grid = stage_named(stages, "grad_grid");
      for (const auto mode : {MSDA_MODE_DETERMINISTIC, MSDA_MODE_FLOAT64}) {
        const std::string what = name_of(variant) + " " + msda_dtype_name(dtype) + " " + msda_mode_name(mode);
        const bool wide = mode == MSDA_MODE_FLOAT64 || dtype == MSDA_FLOAT64;
        const GridGradients wanted = run_grid(problem, {mode, 1, 0, 0}, wide ? MSDA_FLOAT64 : MSDA_FLOAT32);
        std::vector<double> found;
        for (int64_t first = 0; first < call.sample_count(); first += 7) {  // parts that end amid a batch
          const int64_t count = std::min<int64_t>(7, call.sample_count() - first);
          const auto part = call.numbers_of(grad_grid, first, count, mode, 2);
          found.insert(found.end(), part.begin(), part.end());
        }
        EXPECT_EQ(found, wanted.grid.values()) << what;
        const auto gradient = wanted.input.values();
        const auto cache = call.new_cache();
        for (size_t flat = 0; flat < gradient.size(); flat += 5) {
          const auto id = call.element_id(GridSampleGradient::kInput, static_cast<int64_t>(flat));
          EXPECT_EQ(call.scattered_value(id, mode, *cache), gradient[flat]) << what << " " << flat;
          if (mode == MSDA_MODE_FLOAT64 && dtype != MSDA_FLOAT64) continue;  // float32 says which samples come here
          const double sum = wide ? sum_of_addends<double>(call, id, mode) : sum_of_addends<float>(call, id, mode);
          EXPECT_EQ(sum, gradient[flat]) << what << " " << flat;
        }
      }
    }
  }
}

TEST(Determinism, GridSampleDigestsOfRecord) {
  std::string all;
  for (const Variant& variant : all_variants()) {
    GridProblem problem = make_grid_problem(variant, MSDA_FLOAT32, 0, {2, 37, {9, 5, 4}, {20, 7, 3}});
    PortableNumbers fill;
    fill(problem.input, -1, 1);
    fill(problem.grid, -1.5, 1.5);
    fill(problem.grad_output, -1, 1);
    all += run_grid(problem).digest();
  }
  EXPECT_EQ(capture::digest({reinterpret_cast<const std::byte*>(all.data()), all.size()}),
            "xxh3-128:b5d7e08862cfe32200054a45c6865842");
}

}  // namespace
}  // namespace msda::tests
