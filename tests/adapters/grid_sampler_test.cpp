// PyTorch's grid_sampler_2d_backward_kernel, from parameters laid out byte by byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/adapters/launches.h"

namespace msda::adapters {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Names as PyTorch 2.15 for CUDA 13.2 registers them with the driver.
std::string mangled(const std::string& type, char index) {
  const bool half = type.size() > 1;  // c10 and the type itself are two more substitutions
  const std::string n = half ? "S5_" : "S3_", constant = half ? "SB_" : "S9_", info = half ? "S8_" : "S6_",
                    t = half ? "S9_" : "S7_", plain = half ? "SC_" : "SA_", detail = half ? "SD_" : "SB_";
  return "_ZN2at6native47_GLOBAL__N__035bd546_14_GridSampler_cu_23dc5aa531grid_sampler_2d_backward_kernelI" + type +
         index + "EEvT0_NS_4cuda6detail10TensorInfoIKT_" + n + "EE" + constant + constant + "N" + info.substr(0, 3) +
         "I" + t + n + "EE" + plain + "NS0_6detail24GridSamplerInterpolationEN" + detail + "18GridSamplerPaddingEb" +
         n + "b";
}
constexpr char kFloat[] =
    "_ZN2at6native47_GLOBAL__N__035bd546_14_GridSampler_cu_23dc5aa531grid_sampler_2d_backward_kernelIfiEEvT0_NS_"
    "4cuda6detail10TensorInfoIKT_S3_EES9_S9_NS6_IS7_S3_EESA_NS0_6detail24GridSamplerInterpolationENSB_"
    "18GridSamplerPaddingEbS3_b";
constexpr char kBFloat16[] =
    "_ZN2at6native47_GLOBAL__N__035bd546_14_GridSampler_cu_23dc5aa531grid_sampler_2d_backward_kernelIN3c108BFloat16ElEE"
    "vT0_NS_4cuda6detail10TensorInfoIKT_S5_EESB_SB_NS8_IS9_S5_EESC_NS0_6detail24GridSamplerInterpolationENSD_"
    "18GridSamplerPaddingEbS5_b";

// The parameters written at the offsets that the CUDA ABI gives them, without any struct of ours. `wide`: int64
// indices.
struct GridSampler {
  struct Tensor {
    uint64_t data;
    std::vector<int64_t> sizes, strides;
    int32_t dims = 4;
  };
  bool wide = false;
  int64_t n = 2 * 6 * 7, span = 2 * 3 * 4 * 5;
  Tensor grad_output{0x100, {2, 3, 6, 7}, {126, 42, 7, 1}}, input{0x200, {2, 3, 4, 5}, {60, 20, 5, 1}},
      grid{0x300, {2, 6, 7, 2}, {84, 14, 2, 1}}, grad_input{0x400, {2, 3, 4, 5}, {60, 20, 5, 1}},
      grad_grid{0x500, {2, 6, 7, 2}, {84, 14, 2, 1}};
  int32_t interpolation = 0, padding = 0;
  uint8_t align_corners = 0, input_requires_grad = 1;

  Launch launch(const std::string& kernel) const {
    const size_t index = wide ? 8 : 4, tensor = wide ? 416 : 216;
    Launch launch;
    launch.kernel = kernel;
    launch.bytes.assign(8 + 5 * tensor + 3 * 4 + 3 * index, std::byte{0xAB});  // unset fields are not 0
    const auto put = [&](size_t at, uint64_t value, size_t size) { std::memcpy(&launch.bytes[at], &value, size); };
    put(0, static_cast<uint64_t>(n), index);
    launch.parameters.push_back({0, index});
    size_t at = 8;
    for (const Tensor* t : {&grad_output, &input, &grid, &grad_input, &grad_grid}) {
      put(at, t->data, 8);
      for (size_t i = 0; i < t->sizes.size(); ++i) {
        put(at + 8 + i * index, static_cast<uint64_t>(t->sizes[i]), index);
        put(at + 8 + (25 + i) * index, static_cast<uint64_t>(t->strides[i]), index);
      }
      put(at + 8 + 50 * index, static_cast<uint64_t>(t->dims), 4);
      launch.parameters.push_back({at, tensor});
      at += tensor;
    }
    const size_t span_at = wide ? 2104 : 1100;
    put(at, static_cast<uint64_t>(interpolation), 4);
    put(at + 4, static_cast<uint64_t>(padding), 4);
    put(at + 8, align_corners, 1);
    put(span_at, static_cast<uint64_t>(span), index);
    put(span_at + index, input_requires_grad, 1);
    launch.parameters.insert(launch.parameters.end(),
                             {{at, 4}, {at + 4, 4}, {at + 8, 1}, {span_at, index}, {span_at + index, 1}});
    launch.bytes.resize(span_at + index + 1);
    return launch;
  }
  Decoded decoded() const { return decode(launch(mangled("f", wide ? 'l' : 'i')), nullptr); }
  std::string reason() const { return adapters::reason(decoded()); }
};

TEST(GridSampler2d, EveryTensorOfEveryType) {
  EXPECT_EQ(mangled("f", 'i'), kFloat);
  EXPECT_EQ(mangled("N3c108BFloat16E", 'l'), kBFloat16);
  EXPECT_EQ(GridSampler().launch(kFloat).bytes.size(), 1105u);
  const std::map<std::string, std::string> types{
      {"f", "f32"}, {"d", "f64"}, {"N3c104HalfE", "f16"}, {"N3c108BFloat16E", "bf16"}};
  for (const auto& [type, t] : types) {
    for (const bool wide : {false, true}) {
      GridSampler good;
      good.wide = wide;
      const std::string kernel = mangled(type, wide ? 'l' : 'i');
      SCOPED_TRACE(kernel);
      const Decoded decoded = decode(good.launch(kernel), nullptr);
      ASSERT_EQ(reason(decoded), "not refused");
      const Call& call = std::get<Call>(decoded);
      EXPECT_EQ(call.dialect, std::nullopt);
      EXPECT_EQ(call.padding, std::nullopt);
      EXPECT_THAT(describe(call.inputs), ElementsAre("grad_output 256 " + t + " [2,3,6,7]",
                                                     "input 512 " + t + " [2,3,4,5]", "grid 768 " + t + " [2,6,7,2]"));
      EXPECT_THAT(describe(call.outputs),
                  ElementsAre("grad_input 1024 " + t + " [2,3,4,5]", "grad_grid 1280 " + t + " [2,6,7,2]"));
    }
  }
}

TEST(GridSampler2d, PointersAndBlocks) {
  for (const bool wide : {false, true}) {
    for (const bool needs_gradient : {true, false}) {
      GridSampler sampler;
      sampler.wide = wide;
      sampler.input_requires_grad = needs_gradient;
      const uint64_t tensor = wide ? 416 : 216;
      const Decoded decoded = sampler.decoded();
      ASSERT_EQ(reason(decoded), "not refused");
      std::map<uint64_t, std::string> found;
      for (const auto& [offset, name] : std::get<Call>(decoded).pointers) found[offset] = name;
      EXPECT_EQ(found, (std::map<uint64_t, std::string>{{8, "inputs/grad_output"},
                                                        {8 + tensor, "inputs/input"},
                                                        {8 + 2 * tensor, "inputs/grid"},
                                                        {8 + 3 * tensor, needs_gradient ? "outputs/grad_input" : ""},
                                                        {8 + 4 * tensor, "outputs/grad_grid"}}));
      const Launch launch = sampler.launch(mangled("f", wide ? 'l' : 'i'));
      const auto shape = std::get<LaunchShape>(adapter_for(launch.kernel)->with_block(launch, 32));
      EXPECT_EQ(shape.grid[0], 3u);  // of 84 threads
      EXPECT_EQ(shape.block[0], 32u);
    }
  }
}

TEST(GridSampler2d, ModesInWords) {
  const std::vector<std::string> interpolations{"bilinear", "nearest", "bicubic"},
      paddings{"zeros", "border", "reflection"};
  for (int32_t i = 0; i < 9; ++i) {
    GridSampler good;
    good.interpolation = i / 3;
    good.padding = i % 3;
    good.align_corners = static_cast<uint8_t>(i % 2);
    const Decoded decoded = good.decoded();
    const Call& call = std::get<Call>(decoded);
    EXPECT_EQ(call.texts.at("interpolation"), interpolations[i / 3]);
    EXPECT_EQ(call.texts.at("padding_mode"), paddings[i % 3]);
    EXPECT_EQ(call.integers.at("align_corners"), i % 2);
  }
  for (const int32_t unknown : {-1, 3}) {
    GridSampler other;
    other.interpolation = unknown;
    EXPECT_THAT(other.reason(), HasSubstr("is not known"));
    other = {};
    other.padding = unknown;
    EXPECT_THAT(other.reason(), HasSubstr("is not known"));
  }
  GridSampler flags;
  flags.align_corners = 2;
  EXPECT_THAT(flags.reason(), HasSubstr("bool"));
  flags = {};
  flags.input_requires_grad = 0xAB;
  EXPECT_THAT(flags.reason(), HasSubstr("bool"));
}

TEST(GridSampler2d, WithoutGradientOfTheInput) {
  GridSampler good;
  good.input_requires_grad = 0;
  good.grad_input = {0, {}, {}, 0};  // TensorInfo()
  good.span = 0;
  const Decoded decoded = good.decoded();
  ASSERT_EQ(reason(decoded), "not refused");
  EXPECT_THAT(describe(std::get<Call>(decoded).outputs), ElementsAre("grad_grid 1280 f32 [2,6,7,2]"));
  good.input_requires_grad = 1;
  EXPECT_THAT(good.reason(), HasSubstr("grad_input has 0 dimensions"));
}

// channels_last inputs, and a grad_output that was expanded from a scalar.
TEST(GridSampler2d, Strides) {
  GridSampler strided;
  strided.input.strides = {60, 1, 15, 3};
  strided.grad_output.strides = {0, 0, 0, 0};
  const Decoded decoded = strided.decoded();
  ASSERT_EQ(reason(decoded), "not refused");
  const Call& call = std::get<Call>(decoded);
  EXPECT_THAT(describe(call.inputs),
              ElementsAre("grad_output 256 f32 [2,3,6,7] strides [0,0,0,0]",
                          "input 512 f32 [2,3,4,5] strides [60,1,15,3]", "grid 768 f32 [2,6,7,2]"));
  EXPECT_EQ(call.inputs[0].bytes(), 4);
  EXPECT_EQ(call.inputs[1].bytes(), 2 * 3 * 4 * 5 * 4);
  // The stride of a dimension of size 1 has no meaning.
  GridSampler one;
  one.n = 42;
  one.span = 60;
  for (auto* t : {&one.grad_output, &one.input, &one.grid, &one.grad_input, &one.grad_grid}) {
    t->sizes[0] = 1;
    t->strides[0] = 12345;
  }
  ASSERT_EQ(one.reason(), "not refused");
  const Decoded one_decoded = one.decoded();
  EXPECT_THAT(describe(std::get<Call>(one_decoded).outputs),
              ElementsAre("grad_input 1024 f32 [1,3,4,5]", "grad_grid 1280 f32 [1,6,7,2]"));

  for (GridSampler::Tensor GridSampler::*tensor : {&GridSampler::grad_output, &GridSampler::input, &GridSampler::grid,
                                                   &GridSampler::grad_input, &GridSampler::grad_grid}) {
    GridSampler negative;
    (negative.*tensor).strides[2] = -1;
    EXPECT_THAT(negative.reason(), HasSubstr("negative stride"));
  }
  GridSampler scattered;
  scattered.grad_grid.strides = {84, 14, 2, 3};
  EXPECT_THAT(scattered.reason(), HasSubstr("grad_grid is not contiguous"));
  // One column: the kernel still steps by its stride.
  GridSampler column;
  column.n = 12;
  column.grad_output.sizes[3] = column.grid.sizes[2] = column.grad_grid.sizes[2] = 1;
  column.grad_output.strides = {18, 6, 1, 1};
  column.grid.strides = column.grad_grid.strides = {12, 2, 2, 1};
  EXPECT_EQ(column.reason(), "not refused");
  column.grad_grid.strides[2] = 14;
  EXPECT_THAT(column.reason(), HasSubstr("grad_grid is not contiguous"));
}

TEST(GridSampler2d, SizesThatCannotBeAreRefused) {
  for (GridSampler::Tensor GridSampler::*tensor : {&GridSampler::grad_output, &GridSampler::input, &GridSampler::grid,
                                                   &GridSampler::grad_input, &GridSampler::grad_grid}) {
    for (size_t i = 0; i < 4; ++i) {
      for (const bool wide : {false, true}) {
        GridSampler other;
        other.wide = wide;
        (other.*tensor).sizes[i] += 1;
        EXPECT_THAT(other.reason(), testing::AnyOf(HasSubstr(", not ["), HasSubstr("n is"), HasSubstr("spans"),
                                                   HasSubstr("not contiguous")))
            << i;
        for (const int64_t size : {int64_t{0}, int64_t{-1}, int64_t{std::numeric_limits<int32_t>::min()}}) {
          (other.*tensor).sizes[i] = size;
          EXPECT_THAT(other.reason(), HasSubstr("not positive"));
        }
      }
    }
    GridSampler other;
    (other.*tensor).data = 0;
    EXPECT_THAT(other.reason(), HasSubstr("null pointer"));
    for (const int32_t dims : {0, 3, 5, 25, -1, std::numeric_limits<int32_t>::max()}) {
      other = {};
      (other.*tensor).dims = dims;
      EXPECT_THAT(other.reason(), HasSubstr("dimensions, not 4"));
    }
  }
  GridSampler other;
  for (const int64_t n : {0, 83, 85, -84}) {
    other.n = n;
    EXPECT_THAT(other.reason(), HasSubstr("N*H*W"));
  }
  other = {};
  other.span = 119;
  EXPECT_THAT(other.reason(), HasSubstr("spans 119"));
}

TEST(GridSampler2d, OverflowIsRefused) {
  GridSampler large;
  large.wide = true;
  large.input.sizes = {2, 3, int64_t{1} << 40, int64_t{1} << 40};
  EXPECT_THAT(large.reason(), HasSubstr("too large"));
  large = {};
  large.wide = true;
  large.input.strides[0] = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(large.reason(), HasSubstr("too large"));
  large.input.strides = {60, int64_t{1} << 62, 5, 1};  // twice this overflows to a negative number
  EXPECT_THAT(large.reason(), HasSubstr("too large"));
  large.input.strides = {int64_t{1} << 61, int64_t{1} << 61, 5, 1};  // each fits, their sum in bytes does not
  EXPECT_THAT(large.reason(), HasSubstr("too large"));
}

TEST(GridSampler2d, OtherLayoutsAreRefused) {
  const Launch good = GridSampler().launch(kFloat);
  for (size_t i = 0; i < good.parameters.size(); ++i) {
    Launch launch = good;
    launch.parameters[i].size += 8;
    EXPECT_THAT(reason(decode(launch, nullptr)), HasSubstr("not the 11")) << i;
    launch = good;
    launch.parameters[i].offset += 4;
    EXPECT_THAT(reason(decode(launch, nullptr)), HasSubstr("not the 11")) << i;
    launch = good;
    launch.parameters.resize(i);
    EXPECT_THAT(reason(decode(launch, nullptr)), testing::AnyOf(HasSubstr("not the 11"), HasSubstr("unknown size")));
  }
  for (size_t size = 0; size < good.bytes.size(); size += 51) {
    Launch launch = good;
    launch.bytes.resize(size);
    EXPECT_THAT(reason(decode(launch, nullptr)), HasSubstr("not the 11"));
  }
  // The wide layout under the narrow name, and vice versa.
  GridSampler wide;
  wide.wide = true;
  EXPECT_THAT(reason(decode(wide.launch(kFloat), nullptr)), HasSubstr("not the 11"));
  EXPECT_THAT(reason(decode(GridSampler().launch(mangled("f", 'l')), nullptr)), HasSubstr("not the 11"));
}

TEST(GridSampler2d, OtherNamesAreRefused) {
  const auto refusal = [](const std::string& kernel) { return reason(decode(GridSampler().launch(kernel), nullptr)); };
  EXPECT_THAT(refusal(mangled("6__half", 'i')), HasSubstr("element type"));
  EXPECT_THAT(refusal(mangled("f", 'j')), HasSubstr("index type"));
  EXPECT_THAT(refusal(std::string(kFloat) + "b"), HasSubstr("other parameters"));
  // The layout before input_requires_grad and span existed, and three dimensions.
  EXPECT_THAT(refusal("_ZN2at6native12_GLOBAL__N_131grid_sampler_2d_backward_kernelIfiEEvT0_NS_4cuda6detail10TensorInfo"
                      "IT_S3_EES7_S7_S7_S7_NS0_6detail24GridSamplerInterpolationENS8_18GridSamplerPaddingEb"),
              HasSubstr("other parameters"));
  EXPECT_EQ(adapter_for("_ZN2at6native12_GLOBAL__N_131grid_sampler_3d_backward_kernelIfiEEvT0_"), nullptr);
  // PyTorch before the inputs were const.
  EXPECT_EQ(refusal("_ZN2at6native12_GLOBAL__N_131grid_sampler_2d_backward_kernelIfiEEvT0_NS_4cuda6detail10TensorInfo"
                    "IT_S3_EES7_S7_S7_S7_NS0_6detail24GridSamplerInterpolationENS8_18GridSamplerPaddingEbS3_b"),
            "not refused");
  const std::string whole = kFloat;
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(refusal(whole.substr(0, size)), "not refused") << size;
  }
}

}  // namespace
}  // namespace msda::adapters
