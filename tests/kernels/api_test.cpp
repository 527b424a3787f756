// The C ABI: strides, empty tensors, mixed types, stages, and every refusal with its message.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/msda.h"
#include "tests/support/problem.h"

// A C translation unit that makes a call through msda.h (c_abi.c).
extern "C" int msda_test_call_from_c(float* grad_sampling_locations);

namespace msda::tests {
namespace {

using analysis::Gradient;
using ::testing::HasSubstr;

const analysis::Conventions kTriton{MSDA_MSDA_TRITON, MSDA_PADDING_ZEROS, false};

TEST(Api, CallableFromC) {
  float gradient[2] = {0, 0};
  ASSERT_EQ(msda_test_call_from_c(gradient), MSDA_OK) << msda_last_error();
  // Two pixels, 1 and 3, sampled halfway between them with attention 0.5 and grad_output 4; below them all is zero.
  EXPECT_FLOAT_EQ(gradient[0], 4 * 0.5f * (3 - 1) * 2);
  EXPECT_FLOAT_EQ(gradient[1], 4 * 0.5f * (0 - 2) * 1);
}

TEST(Api, AnyStride) {
  const Problem problem = make_problem({2, 2, 5, 7, 2, {{3, 4}, {2, 2}}}, kTriton, MSDA_FLOAT32, 1);
  const Gradients expected = run_backward(problem);
  // The same tensors with dimensions reversed in memory, results too.
  const auto reversed = [](const OwnedTensor& tensor, std::vector<std::byte>& memory) {
    msda_tensor abi = tensor.abi();
    int64_t stride = 1;
    for (int i = 0; i < abi.rank; ++i) {
      abi.stride[i] = stride;
      stride *= abi.shape[i];
    }
    memory.resize(tensor.bytes().size());
    abi.data = memory.data();
    for (int64_t flat = 0; flat < tensor.view.elements(); ++flat) {
      const auto index = tensor.view.index_of(flat);
      int64_t at = 0;
      for (int i = 0; i < abi.rank; ++i) at += index[static_cast<size_t>(i)] * abi.stride[i];
      const size_t size = tensor.bytes().size() / static_cast<size_t>(tensor.view.elements());
      std::copy_n(tensor.memory.data() + static_cast<size_t>(flat) * size, size,
                  memory.data() + static_cast<size_t>(at) * size);
    }
    return abi;
  };
  std::vector<std::byte> memory[8];
  auto abi = analysis::abi_call(problem.call());
  abi.call.value = reversed(problem.value, memory[0]);
  abi.call.spatial_shapes = reversed(problem.spatial_shapes, memory[1]);
  abi.call.sampling_locations = reversed(problem.sampling_locations, memory[2]);
  abi.call.attention_weights = reversed(problem.attention_weights, memory[3]);
  const msda_tensor grad_output = reversed(problem.grad_output, memory[4]);
  msda_tensor results[3];
  for (const Gradient g : analysis::MsdaGradient::kAll) {
    const size_t i = g.place();
    results[i] = reversed(OwnedTensor::for_result(MSDA_FLOAT32, problem.shape_of(g)), memory[5 + i]);
  }
  ASSERT_EQ(msda_backward(&abi.call, &grad_output, nullptr, &results[0], &results[1], &results[2]), MSDA_OK)
      << msda_last_error();
  for (const Gradient g : analysis::MsdaGradient::kAll) {
    const size_t i = g.place();
    const OwnedTensor& wanted = expected.of(g);
    for (int64_t flat = 0; flat < wanted.view.elements(); ++flat) {
      const auto index = wanted.view.index_of(flat);
      int64_t at = 0;
      for (int d = 0; d < results[i].rank; ++d) at += index[static_cast<size_t>(d)] * results[i].stride[d];
      ASSERT_EQ(static_cast<const float*>(results[i].data)[at], wanted.view.at(flat)) << name_of(g) << " " << flat;
    }
  }
}

TEST(Api, EmptyTensors) {
  for (const auto& conventions : all_conventions()) {
    for (int which = 0; which < 6; ++which) {
      Sizes sizes{2, 2, 3, 4, 2, {{3, 3}}};
      if (which == 0) sizes.B = 0;
      if (which == 1) sizes.M = 0;
      if (which == 2) sizes.D = 0;
      if (which == 3) sizes.Q = 0;
      if (which == 4) sizes.P = 0;
      if (which == 5) sizes.levels.clear();
      const Problem problem = make_problem(sizes, conventions, MSDA_FLOAT32, 3);
      const Gradients gradients = run_backward(problem);
      run_forward(problem);
      for (const OwnedTensor& tensor : gradients.tensors) {
        for (const double x : tensor.values()) EXPECT_EQ(x, 0) << problem.text();  // nothing was sampled
      }
    }
  }
}

TEST(Api, SkipsResultsThatAreNotAskedFor) {
  const Problem problem = make_problem({1, 2, 8, 9, 2, {{5, 5}}}, kTriton, MSDA_FLOAT32, 9);
  const Gradients all = run_backward(problem);
  for (const Gradient wanted : analysis::MsdaGradient::kAll) {
    OwnedTensor owned_tensor = OwnedTensor::for_result(MSDA_FLOAT32, problem.shape_of(wanted));
    const msda_tensor result = owned_tensor.abi();
    const msda_tensor* results[3] = {nullptr, nullptr, nullptr};
    results[wanted.place()] = &result;
    const auto abi = analysis::abi_call(problem.call());
    ASSERT_EQ(msda_backward(&abi.call, &abi.grad_output, nullptr, results[0], results[1], results[2]), MSDA_OK);
    EXPECT_EQ(owned_tensor.values(), all.of(wanted).values()) << name_of(wanted);
  }
}

TEST(Api, RoundsOnceIntoTheResultsType) {
  const Problem problem = make_problem({1, 2, 20, 30, 2, {{6, 5}}}, kTriton, MSDA_FLOAT16, 4);
  const Gradients half = run_backward(problem);
  const Gradients wide = run_backward(problem, {MSDA_MODE_FLOAT64, 0, 0, 0});
  const auto abi = analysis::abi_call(problem.call());
  const msda_options options{MSDA_MODE_FLOAT64, 0, 0, 0};
  for (const Gradient g : analysis::MsdaGradient::kAll) {
    OwnedTensor rounded = OwnedTensor::for_result(MSDA_FLOAT16, problem.shape_of(g));
    const msda_tensor result = rounded.abi();
    const msda_tensor* results[3] = {nullptr, nullptr, nullptr};
    results[g.place()] = &result;
    ASSERT_EQ(msda_backward(&abi.call, &abi.grad_output, &options, results[0], results[1], results[2]), MSDA_OK);
    for (int64_t i = 0; i < rounded.view.elements(); ++i) {
      ASSERT_EQ(rounded.view.at(i), analysis::rounded_to(wide.of(g).view.at(i), MSDA_FLOAT16));
    }
  }
}

// The mode mixed is the float32 replay with no stage in float64, the float64 one with all of them, and with the
// coordinates in float64 it puts a sample back into the cell that float32 took it out of.
TEST(Mixed, BetweenFloat32AndFloat64) {
  for (uint64_t seed = 0; seed < 27; ++seed) {
    const Problem problem = random_problem(seed, MSDA_FLOAT32);
    EXPECT_EQ(digest_of(run_backward(problem, {MSDA_MODE_MIXED, 0, 0, 0})), digest_of(run_backward(problem)))
        << problem.text();
    const auto abi = analysis::abi_call(problem.call());
    const Gradients wide = run_backward(problem, {MSDA_MODE_FLOAT64, 0, 0, 0});
    Gradients mixed = wide;
    const msda_options options{MSDA_MODE_MIXED, 0, 0, (1u << MSDA_STAGE_COUNT) - 1};
    const msda_tensor results[] = {mixed.tensors[0].abi(), mixed.tensors[1].abi(), mixed.tensors[2].abi()};
    ASSERT_EQ(msda_backward(&abi.call, &abi.grad_output, &options, &results[0], &results[1], &results[2]), MSDA_OK);
    EXPECT_EQ(digest_of(mixed), digest_of(wide)) << problem.text();
  }
}

TEST(Mixed, CoordinatesInFloat64ChooseTheRightCell) {
  Problem problem =
      make_problem({1, 1, 16, 1, 1, {{64, 64}}}, {MSDA_GRID_SAMPLE, MSDA_PADDING_BORDER, false}, MSDA_FLOAT32, 2);
  // 64 * 0.0546875 - 0.5 is 2.9999998 exactly; 2 * location - 1 in float32 makes it 3.
  problem.sampling_locations.set(0, 0x1.bffffep-5);
  problem.sampling_locations.set(1, 0.3);
  const auto gradient = [&](const msda_options& options) {
    return run_backward(problem, options).of(analysis::MsdaGradient::kSamplingLocations).view.at(0);
  };
  const double wide = gradient({MSDA_MODE_FLOAT64, 0, 0, 0});
  EXPECT_GT(std::abs(gradient({}) - wide), 1e-2 * std::abs(wide));
  EXPECT_NEAR(gradient({MSDA_MODE_MIXED, 0, 0, 1u << MSDA_STAGE_PIXEL_COORDINATES}), wide, 1e-5 * std::abs(wide));
  EXPECT_NEAR(gradient({MSDA_MODE_MIXED, 0, 0, 1u << MSDA_STAGE_GRAD_SAMPLING_LOCATIONS}), gradient({}), 1e-3);
}

TEST(Stages, FitTogether) {
  const Problem problem =
      make_problem({1, 2, 6, 5, 2, {{4, 3}, {2, 5}}}, kTriton, MSDA_FLOAT32, 8, Locations::kAnywhere);
  const auto abi = analysis::abi_call(problem.call());
  const analysis::MsdaCall call = problem.call();
  const std::vector<int64_t> samples{call.B, call.Q, call.M, call.L, call.P};
  const auto stage = [&](msda_stage_id id, const std::vector<int64_t>& more) {
    auto shape = samples;
    shape.insert(shape.end(), more.begin(), more.end());
    OwnedTensor tensor = OwnedTensor::for_result(MSDA_FLOAT32, shape);
    const msda_tensor result = tensor.abi();
    EXPECT_EQ(msda_stage(&abi.call, &abi.grad_output, nullptr, id, &result), MSDA_OK) << msda_last_error();
    return tensor.values();
  };
  const auto pixels = stage(MSDA_STAGE_PIXEL_COORDINATES, {2}), cells = stage(MSDA_STAGE_CELL, {2});
  const auto weights = stage(MSDA_STAGE_INTERPOLATION_WEIGHTS, {4}),
             corners = stage(MSDA_STAGE_CORNER_VALUES, {4, call.D});
  const auto sampled = stage(MSDA_STAGE_SAMPLED_VALUE, {call.D});
  const auto contributions = stage(MSDA_STAGE_VALUE_CONTRIBUTIONS, {4, call.D});
  const Gradients gradients = run_backward(problem);
  EXPECT_EQ(stage(MSDA_STAGE_GRAD_SAMPLING_LOCATIONS, {2}).size(),
            gradients.of(analysis::MsdaGradient::kSamplingLocations).values().size());
  double contributed = 0, received = 0;
  for (size_t sample = 0; sample < pixels.size() / 2; ++sample) {
    for (size_t axis = 0; axis < 2; ++axis) {
      const double pixel = pixels[2 * sample + axis];
      if (pixel > -1 && pixel < 100) {
        EXPECT_LE(cells[2 * sample + axis], pixel);
        EXPECT_GE(cells[2 * sample + axis] + 1, std::min(pixel, 5.0));
      }
    }
    for (size_t d = 0; d < 6; ++d) {
      double interpolated = 0;
      for (size_t corner = 0; corner < 4; ++corner) {
        interpolated += weights[4 * sample + corner] * corners[(4 * sample + corner) * 6 + d];
        const double contribution = contributions[(4 * sample + corner) * 6 + d];
        contributed += contribution;
      }
      if (!std::isnan(interpolated)) {
        EXPECT_NEAR(sampled[6 * sample + d], interpolated, 1e-5);
      }
    }
  }
  for (const double x : gradients.of(analysis::MsdaGradient::kValue).values()) received += x;
  EXPECT_NEAR(received, contributed, 1e-4);
}

// One pass over the samples gives the same as a pass for each stage, and does not touch results that were not
// requested.
TEST(Stages, TogetherAsOneByOne) {
  const Problem problem =
      make_problem({2, 2, 6, 5, 2, {{4, 3}, {2, 5}}}, kTriton, MSDA_FLOAT32, 9, Locations::kAnywhere);
  const auto abi = analysis::abi_call(problem.call());
  const std::vector<int64_t> samples{2, 5, 2, 2, 2};
  const std::vector<std::vector<int64_t>> more{{2}, {2}, {4}, {4, 6}, {6}, {}, {2}, {4, 6}};
  for (const msda_mode mode : {MSDA_MODE_DETERMINISTIC, MSDA_MODE_FLOAT64}) {
    msda_options options{};
    options.mode = mode;
    std::vector<OwnedTensor> together, alone;
    for (size_t i = 0; i < MSDA_STAGE_COUNT; ++i) {
      auto shape = i < more.size() ? samples : problem.shape_of(analysis::MsdaGradient::kValue);
      if (i < more.size()) shape.insert(shape.end(), more[i].begin(), more[i].end());
      together.push_back(OwnedTensor::for_result(MSDA_FLOAT64, shape));
      alone.push_back(together.back());
    }
    std::vector<msda_tensor> tensors;
    for (const OwnedTensor& tensor : together) tensors.push_back(tensor.abi());
    const msda_tensor* results[MSDA_STAGE_COUNT] = {};
    for (size_t i = 0; i < MSDA_STAGE_COUNT; ++i) {
      if (i != MSDA_STAGE_CELL) results[i] = &tensors[i];
    }
    ASSERT_EQ(msda_stages(&abi.call, &abi.grad_output, &options, results), MSDA_OK) << msda_last_error();
    for (size_t i = 0; i < MSDA_STAGE_COUNT; ++i) {
      const auto stage = static_cast<msda_stage_id>(i);
      const msda_tensor result = alone[i].abi();
      if (stage != MSDA_STAGE_CELL) {
        ASSERT_EQ(msda_stage(&abi.call, &abi.grad_output, &options, stage, &result), MSDA_OK);
      }
      EXPECT_EQ(together[i].memory, alone[i].memory) << msda_stage_name(stage);
    }
  }
}

// The message of a refused call.
class Refusals : public ::testing::Test {
 protected:
  Problem problem = make_problem({1, 2, 4, 3, 2, {{3, 4}, {2, 2}}}, kTriton, MSDA_FLOAT32, 1);
  analysis::AbiCall abi = analysis::abi_call(problem.call());
  Gradients gradients = run_backward(problem);
  msda_options options{};
  msda_tensor results[3] = {gradients.tensors[0].abi(), gradients.tensors[1].abi(), gradients.tensors[2].abi()};

  void expect_refused(const char* message) {
    EXPECT_EQ(msda_backward(&abi.call, &abi.grad_output, &options, &results[0], &results[1], &results[2]),
              MSDA_INVALID_ARGUMENT);
    EXPECT_THAT(msda_last_error(), HasSubstr(message));
    EXPECT_EQ(std::string(msda_last_error()).find('\n'), std::string::npos);
  }
};

TEST_F(Refusals, NullPointers) {
  EXPECT_EQ(msda_backward(nullptr, &abi.grad_output, nullptr, nullptr, nullptr, nullptr), MSDA_INVALID_ARGUMENT);
  EXPECT_EQ(msda_forward(&abi.call, nullptr, nullptr), MSDA_INVALID_ARGUMENT);
  EXPECT_EQ(msda_stage(&abi.call, &abi.grad_output, nullptr, MSDA_STAGE_CELL, nullptr), MSDA_INVALID_ARGUMENT);
  abi.call.value.data = nullptr;
  expect_refused("value has no data");
}

TEST_F(Refusals, Ranks) {
  abi.call.value.rank = 3;
  expect_refused("value has rank 3, not 4");
}
TEST_F(Refusals, RankBeyondTheArray) {
  abi.call.sampling_locations.rank = 1000;
  expect_refused("sampling_locations has rank 1000, not 6");
}
TEST_F(Refusals, NegativeSizes) {
  abi.call.value.shape[3] = -4;
  expect_refused("value has a negative size");
}
TEST_F(Refusals, HugeSizes) {
  for (int64_t& size : abi.call.value.shape) size = int64_t{1} << 40;
  expect_refused("value is larger than any memory");
}
TEST_F(Refusals, ShapesThatDisagree) {
  abi.call.attention_weights.shape[1] = 2;
  expect_refused("attention_weights has shape [1, 2, 2, 2, 2], not [1, 3, 2, 2, 2]");
}
TEST_F(Refusals, LevelsThatDoNotAddUp) {
  problem.spatial_shapes.set(0, 4);
  expect_refused("the levels do not add up");
}
TEST_F(Refusals, LevelSides) {
  problem.spatial_shapes.set(1, 0);
  expect_refused("level 0 is 3 x 0; sides go from 1 to 16777216");
  problem.spatial_shapes.set(1, 1e15);
  expect_refused("sides go from 1");
}
TEST_F(Refusals, LevelStarts) {
  OwnedTensor starts({0, 11}, MSDA_INT32, {2});
  abi.call.level_start_index = starts.abi();
  expect_refused("level_start_index: level 1 starts at 11, but the levels before it end at 12");
  starts.set(1, 12);
  EXPECT_EQ(msda_backward(&abi.call, &abi.grad_output, nullptr, nullptr, nullptr, nullptr), MSDA_OK)
      << msda_last_error();
}
TEST_F(Refusals, Types) {
  abi.call.value.dtype = MSDA_INT64;
  expect_refused("value has type int64, not a floating-point one");
  abi.call.value.dtype = static_cast<msda_dtype>(99);
  expect_refused("value has type ?");
}
TEST_F(Refusals, ResultTypes) {
  results[1].dtype = MSDA_INT32;
  expect_refused("grad_sampling_locations has type int32");
}
TEST_F(Refusals, Conventions) {
  abi.call.dialect = MSDA_DEFORMABLE_DETR;
  abi.call.padding = MSDA_PADDING_BORDER;
  expect_refused("deformable_detr supports padding zeros");
  abi.call.dialect = static_cast<msda_dialect>(7);
  expect_refused("no such dialect: 7");
}
TEST_F(Refusals, Options) {
  options.mode = static_cast<msda_mode>(9);
  expect_refused("no such mode: 9");
  options = {};
  options.threads = -1;
  expect_refused("threads is -1");
  options = {};
  options.float64_stages = 1u << 20;
  expect_refused("float64_stages is 0x100000");
}
TEST_F(Refusals, Stages) {
  const msda_tensor result = results[1];
  EXPECT_EQ(msda_stage(&abi.call, &abi.grad_output, nullptr, static_cast<msda_stage_id>(40), &result),
            MSDA_INVALID_ARGUMENT);
  EXPECT_THAT(msda_last_error(), HasSubstr("no such stage: 40"));
  options.mode = MSDA_MODE_ATOMIC;
  EXPECT_EQ(msda_stage(&abi.call, &abi.grad_output, &options, MSDA_STAGE_CELL, &result), MSDA_INVALID_ARGUMENT);
  EXPECT_EQ(msda_stage(&abi.call, &abi.grad_output, nullptr, MSDA_STAGE_CELL, nullptr), MSDA_INVALID_ARGUMENT);
  EXPECT_EQ(msda_stages(&abi.call, &abi.grad_output, nullptr, nullptr), MSDA_INVALID_ARGUMENT);
  EXPECT_THAT(msda_last_error(), HasSubstr("results is a null pointer"));
  const msda_tensor* wrong[MSDA_STAGE_COUNT] = {&result};
  EXPECT_EQ(msda_stages(&abi.call, &abi.grad_output, nullptr, wrong), MSDA_OK);
  wrong[MSDA_STAGE_SAMPLED_VALUE] = &result;
  EXPECT_EQ(msda_stages(&abi.call, &abi.grad_output, nullptr, wrong), MSDA_INVALID_ARGUMENT);
  EXPECT_THAT(msda_last_error(), HasSubstr("sampled_value has shape"));
}

// The GPU's functions, whether there is a GPU or not.
TEST_F(Refusals, OnAGpu) {
  const msda_tensor* wanted[MSDA_STAGE_COUNT] = {};
  const auto stages = [&](const msda_tensor* const* to) {
    return msda_cuda_stages(&abi.call, &abi.grad_output, &options, to, nullptr);
  };
  if (stages(nullptr) == MSDA_UNAVAILABLE) GTEST_SKIP() << msda_last_error();
  EXPECT_THAT(msda_last_error(), HasSubstr("results is a null pointer"));
  EXPECT_EQ(msda_cuda_stages(nullptr, &abi.grad_output, &options, wanted, nullptr), MSDA_INVALID_ARGUMENT);
  wanted[MSDA_STAGE_SAMPLED_VALUE] = &results[1];
  EXPECT_EQ(stages(wanted), MSDA_INVALID_ARGUMENT);
  EXPECT_THAT(msda_last_error(), HasSubstr("sampled_value has shape"));
  options.mode = MSDA_MODE_ATOMIC;
  EXPECT_EQ(stages(wanted), MSDA_INVALID_ARGUMENT);
  EXPECT_THAT(msda_last_error(), HasSubstr("the mode atomic"));
  options.mode = MSDA_MODE_MIXED;
  results[2].dtype = MSDA_INT32;
  EXPECT_EQ(msda_cuda_backward(&abi.call, &abi.grad_output, &options, &results[0], &results[1], &results[2], nullptr),
            MSDA_INVALID_ARGUMENT);
  EXPECT_THAT(msda_last_error(), HasSubstr("grad_attention_weights has type int32"));
}

// A tensor of any size that is a view of one number.
msda_tensor repeated(std::vector<int64_t> shape) {
  static float unit = 1;
  msda_tensor tensor = msda_contiguous(&unit, MSDA_FLOAT32, static_cast<int32_t>(shape.size()), shape.data());
  for (int64_t& stride : tensor.stride) stride = 0;
  return tensor;
}

// One whose elements lie apart, for results that are refused before anything is written.
msda_tensor spread(std::vector<int64_t> shape) {
  static float unit = 1;
  msda_tensor tensor = msda_contiguous(&unit, MSDA_FLOAT32, static_cast<int32_t>(shape.size()), shape.data());
  for (int64_t& stride : tensor.stride) stride *= 2;
  return tensor;
}

TEST(Api, TooLargeForMemoryIsAnError) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizers' operator new ends the process instead of throwing";
#endif
  // A gradient that needs a buffer of 2^48 numbers, of tensors that are views of one number.
  int64_t side[2] = {1, 1};
  const int64_t huge = int64_t{1} << 24;
  msda_call call{};
  call.dialect = MSDA_MSDA_TRITON;
  call.value = repeated({huge, 1, 1, huge});
  const int64_t shapes[2] = {1, 2};
  call.spatial_shapes = msda_contiguous(side, MSDA_INT64, 2, shapes);
  call.sampling_locations = repeated({huge, 0, 1, 1, 1, 2});
  call.attention_weights = repeated({huge, 0, 1, 1, 1});
  const msda_tensor grad_output = repeated({huge, 0, 1, huge}), grad_value = spread({huge, 1, 1, huge});
  EXPECT_EQ(msda_backward(&call, &grad_output, nullptr, &grad_value, nullptr, nullptr), MSDA_OUT_OF_MEMORY);
  EXPECT_THAT(msda_last_error(), HasSubstr("out of memory"));
}

// The GPU's kernels count in 32 bits: larger calls are refused before a GPU is used.
TEST(Api, TooLargeForTheGpuIsRefused) {
  int64_t side[2] = {1, 1};
  const int64_t shapes[2] = {1, 2};
  const auto backward = [&](int64_t M, int64_t D, int64_t P) {
    msda_call call{};
    call.dialect = MSDA_MSDA_TRITON;
    call.value = repeated({1, 1, M, D});
    call.spatial_shapes = msda_contiguous(side, MSDA_INT64, 2, shapes);
    call.sampling_locations = repeated({1, 1, M, 1, P, 2});
    call.attention_weights = repeated({1, 1, M, 1, P});
    const msda_tensor grad_output = repeated({1, 1, M, D}), grad_weights = spread({1, 1, M, 1, P});
    return msda_cuda_backward(&call, &grad_output, nullptr, nullptr, nullptr, &grad_weights, nullptr);
  };
  const int64_t bits16 = int64_t{1} << 16;
  EXPECT_EQ(backward(1, int64_t{1} << 28, 1), MSDA_UNAVAILABLE) << "elements of value to a pixel";
  if (std::string(msda_last_error()).find("without the CUDA toolkit") != std::string::npos) GTEST_SKIP();
  EXPECT_THAT(msda_last_error(), HasSubstr("larger than the GPU's kernels can count"));
  EXPECT_EQ(backward(bits16, 1, bits16), MSDA_UNAVAILABLE) << "samples to a query";
  EXPECT_THAT(msda_last_error(), HasSubstr("larger than the GPU's kernels can count"));
}

TEST(Api, Names) {
  EXPECT_STREQ(msda_dialect_name(MSDA_GRID_SAMPLE), "grid_sample");
  EXPECT_STREQ(msda_padding_name(MSDA_PADDING_BORDER), "border");
  EXPECT_STREQ(msda_mode_name(MSDA_MODE_MIXED), "mixed");
  EXPECT_STREQ(msda_dtype_name(MSDA_BFLOAT16), "bfloat16");
  EXPECT_STREQ(msda_stage_name(MSDA_STAGE_VALUE_CONTRIBUTIONS), "value_contributions");
  EXPECT_STREQ(msda_stage_name(static_cast<msda_stage_id>(99)), "?");
}

}  // namespace
}  // namespace msda::tests
