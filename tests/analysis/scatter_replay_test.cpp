// Replays of scattered gradients, all channels of a target at once, have the bits of their definition, element by
// element.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "analysis/model/evaluate.h"
#include "analysis/model/owned_side.h"
#include "analysis/numbers/first_numbers.h"
#include "analysis/operators/interpolate/call.h"
#include "analysis/operators/roi_align/call.h"
#include "analysis/operators/scatter_add/call.h"
#include "tests/support/problem.h"

namespace msda::tests {
namespace {

// One in 50 elements is infinite.
OwnedTensor random_tensor(msda_dtype type, const analysis::Index& shape, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  std::vector<double> values(static_cast<size_t>(kernels::elements_of(shape)));
  for (double& value : values) value = random() % 50 == 0 ? INFINITY : normal(random);
  return {values, type, shape};
}

void expect_bits_of_definition(const analysis::Call& call) {
  const analysis::Gradient gradient = call.gradients().front();
  for (const auto& [mode, evaluation] : {std::pair{MSDA_MODE_FLOAT64, analysis::EvaluationMode::kFloat64},
                                         std::pair{MSDA_MODE_DETERMINISTIC, analysis::EvaluationMode::kDeterministic},
                                         std::pair{MSDA_MODE_ATOMIC, analysis::EvaluationMode::kAtomic}}) {
    SCOPED_TRACE(msda_mode_name(mode));
    msda_options options{};
    options.mode = mode;
    options.seed = 5;
    auto replay = uncomputed_side(call, "replay", mode, {});
    compute_on_cpu(call, options, replay);
    auto expected = uncomputed_side(call, "expected", mode, {});
    const analysis::Tensor& tensor = expected.side.of(gradient);
    evaluate(call, gradient, evaluation, options.seed, 1,
             [&](int64_t flat, double value) { analysis::store(expected.memory[0].get(), tensor.dtype, flat, value); });
    int64_t different = 0;
    for (int64_t flat = 0; flat < tensor.elements(); ++flat) {
      const double a = tensor.at(flat), b = replay.side.of(gradient).at(flat);
      different += std::isnan(a) ? !std::isnan(b) : std::bit_cast<int64_t>(a) != std::bit_cast<int64_t>(b);
    }
    EXPECT_EQ(different, 0);
  }
}

class ScatterReplay : public testing::TestWithParam<msda_dtype> {
 protected:
  std::mt19937_64 random{7};
};

TEST_P(ScatterReplay, HasTheBitsOfScatterAdd) {
  for (const bool mean : {false, true}) {
    for (const bool by_rows : {true, false}) {
      analysis::ScatterAddCall call;
      const analysis::Index shape{3, 400, 7, 43};
      const OwnedTensor values = random_tensor(GetParam(), shape, random),
                        self = random_tensor(GetParam(), {3, 3, 7, 43}, random);
      analysis::OwnedTensor index("index", MSDA_INT64, by_rows ? analysis::Index{400} : shape);
      for (int64_t i = 0; i < index.view().elements(); ++i) {
        store_integer(index, i, random() % 50 == 0 ? 0 : 1);  // hundreds of addends, some, and none
      }
      call.index = index.view();
      call.values = values.view;
      if (mean) call.self = self.view;
      call.dim = 1;
      call.dim_size = 3;
      call.mean = call.include_self = mean;
      call.take_sizes();
      expect_bits_of_definition(call);
    }
  }
}

TEST_P(ScatterReplay, HasTheBitsOfInterpolate) {
  for (const auto mode :
       {analysis::ResizeMode::kNearest, analysis::ResizeMode::kLinear, analysis::ResizeMode::kCubic}) {
    analysis::InterpolateCall call;
    const OwnedTensor grad = random_tensor(GetParam(), {2, 5, 33, 20}, random);
    call.mode = mode;
    call.is_for_gpu = true;
    call.grad_output = grad.view;
    call.sides[0] = {7, 20, 2.7};
    call.sides[1] = {21, 33, 1.5};
    call.take_sizes();
    expect_bits_of_definition(call);
  }
}

TEST_P(ScatterReplay, HasTheBitsOfRoiAlign) {
  for (const int64_t ratio : {0, 2}) {
    analysis::RoiAlignCall call;
    const OwnedTensor grad = random_tensor(GetParam(), {30, 19, 5, 3}, random);
    std::uniform_real_distribution<double> begin(-5, 40), end(0, 60);
    std::vector<double> boxes;
    for (int box = 0; box < 30; ++box) {
      boxes.insert(boxes.end(), {box % 2 + 0.0, begin(random), begin(random), end(random), end(random)});
    }
    const OwnedTensor corners(boxes, GetParam(), {30, 5});
    call.boxes = corners.view;
    call.grad_output = grad.view;
    call.input = {nullptr, GetParam(), {2, 19, 23, 18}};
    call.spatial_scale = 0.5;
    call.sampling_ratio = ratio;
    call.take_sizes();
    expect_bits_of_definition(call);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, ScatterReplay, testing::Values(MSDA_FLOAT16, MSDA_FLOAT32, MSDA_FLOAT64),
                         [](const auto& type) { return msda_dtype_name(type.param); });

TEST(FirstNumbers, AreThoseOfTheStandardEngine) {
  analysis::FirstNumbers numbers;
  for (const uint64_t first : {uint64_t{0}, std::numeric_limits<uint64_t>::max() - 3}) {
    std::array<uint64_t, analysis::FirstNumbers::kSeeds> seeds;
    for (size_t i = 0; i < seeds.size(); ++i) seeds[i] = first + i;
    numbers.seed(seeds);
    for (size_t i = 0; i < seeds.size(); ++i) {
      std::mt19937_64 standard(seeds[i]);
      analysis::FirstNumbers::Engine engine(numbers, i);
      for (int drawn = 0; drawn < 400; ++drawn) ASSERT_EQ(engine(), standard()) << seeds[i] << ", " << drawn;
    }
  }
}

}  // namespace
}  // namespace msda::tests
