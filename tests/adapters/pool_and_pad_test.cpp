// The adapters of average_pool and pad_nd, which are data: launches of PyTorch 2.11's kernels, laid out as in its image
// for sm_90.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <initializer_list>
#include <map>

#include "tests/adapters/launches.h"

namespace msda::adapters {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kSpace = "_ZN2at6native49_GLOBAL__N__834c9086_16_AveragePool2d_cu_fb804076";

Launch pooling_launch(Packer& packer, const std::string& name, std::array<uint32_t, 3> grid = {1, 1, 1}) {
  Launch launch = packer.launch(kSpace + name);
  launch.grid = grid;
  launch.block = {32, 8, 1};
  return launch;
}

// Kernel 3x2, stride 2x1, padding 1x0, on [2,3,9,8]: [2,3,5,7].
Launch avg_pool2d(bool nhwc, const std::string& types, int32_t divisor = 0, uint8_t use_divisor = 0) {
  Packer packer;
  packer.add<int32_t>(2 * 3 * 9 * 8).add(uint64_t{0x100});
  for (const int64_t number : {3, 9, 8}) packer.add(number);
  for (const int number : {5, 7}) nhwc ? packer.add<int32_t>(number) : packer.add<int64_t>(number);
  for (const int32_t number : {3, 2, 2, 1, 1, 0}) packer.add(number);
  packer.add(uint64_t{0x200}).add(divisor).add(uint8_t{1}).add(use_divisor);
  const std::string name =
      nhwc ? "39avg_pool2d_backward_out_cuda_frame_nhwcI" : "34avg_pool2d_backward_out_cuda_frameI";
  return pooling_launch(packer, name + types + "iEEvT1_PKT_llliiiiiiiiPS4_ibb");
}

TEST(Pool, AvgPool2d) {
  const Decoded plain = decode(avg_pool2d(false, "ff"), nullptr),
                last = decode(avg_pool2d(true, "N3c104HalfEf"), nullptr);
  ASSERT_EQ(reason(plain), "not refused");
  EXPECT_THAT(describe(std::get<Call>(plain).inputs), ElementsAre("grad_output 256 f32 [2,3,5,7]"));
  EXPECT_THAT(describe(std::get<Call>(plain).outputs), ElementsAre("grad_input 512 f32 [2,3,9,8]"));
  const auto& facts = std::get<Call>(plain).facts;
  EXPECT_EQ(facts.texts.at("operator"), "average_pool");
  EXPECT_EQ(facts.texts.at("pooling"), "avg");
  EXPECT_EQ(facts.integers, (decltype(facts.integers){{"kernel_height", 3},
                                                      {"kernel_width", 2},
                                                      {"stride_height", 2},
                                                      {"stride_width", 1},
                                                      {"padding_height", 1},
                                                      {"padding_width", 0},
                                                      {"count_include_pad", 1},
                                                      {"divisor_override", 0}}));
  ASSERT_EQ(reason(last), "not refused");
  EXPECT_THAT(describe(std::get<Call>(last).inputs), ElementsAre("grad_output 256 f16 [2,3,5,7] strides [105,1,21,3]"));
  EXPECT_THAT(describe(std::get<Call>(last).outputs), ElementsAre("grad_input 512 f16 [2,3,9,8] strides [216,1,24,3]"));
  EXPECT_EQ(std::get<Call>(last).facts.texts.at("adapter"), "avg_pool2d_nhwc");
}

TEST(Pool, AvgPool2dRefusals) {
  EXPECT_EQ(reason(decode(avg_pool2d(false, "dd", 4, 1), nullptr)), "not refused");
  EXPECT_THAT(reason(decode(avg_pool2d(false, "dd", 4, 0), nullptr)), HasSubstr("divisor_override does not hold"));
  Launch launch = avg_pool2d(false, "ff");
  launch.bytes[0] = std::byte{7};
  EXPECT_THAT(reason(decode(launch, nullptr)), HasSubstr("count %"));
  launch = avg_pool2d(false, "ff");
  launch.kernel = avg_pool2d(true, "ff").kernel;
  EXPECT_THAT(reason(decode(launch, nullptr)), HasSubstr("bytes"));
}

// Kernel 2, stride 2, of [6,4,5,6]: [6,2,2,3].
Launch avg_pool3d(const std::string& kernel, bool atomic, uint32_t blocks = 12) {
  Packer packer;
  packer.add(accessor<4>(0x100, {6, 2, 2, 3})).add(accessor<4>(0x200, {6, 4, 5, 6}));
  for (const int32_t number : {2, 2, 2, 2, 2, 2, 0, 0, 0}) packer.add(number);
  packer.add(uint8_t{0}).add(int32_t{0}).add(int32_t{0});
  if (atomic) packer.add(int32_t{720});
  return pooling_launch(packer, kernel + "N3c108BFloat16EfEEvN5torch10headeronly6detail27GenericPackedTensorAccessorI",
                        {1, 1, blocks});
}

TEST(Pool, AvgPool3d) {
  for (const bool atomic : {false, true}) {
    const std::string name =
        atomic ? "40avg_pool3d_cuda_update_grad_input_atomicI" : "33avg_pool3d_cuda_update_grad_inputI";
    const Decoded decoded = decode(avg_pool3d(name, atomic), nullptr);
    ASSERT_EQ(reason(decoded), "not refused");
    EXPECT_THAT(describe(std::get<Call>(decoded).inputs),
                ElementsAre("grad_output 256 bf16 [1,6,2,2,3] strides [72,12,6,3,1]"));
    EXPECT_THAT(describe(std::get<Call>(decoded).outputs),
                ElementsAre("grad_input 512 bf16 [1,6,4,5,6] strides [720,120,30,6,1]"));
    EXPECT_EQ(std::get<Call>(decoded).facts.integers.at("kernel_depth"), 2);
    EXPECT_THAT(reason(decode(avg_pool3d(name, atomic, 11), nullptr)), HasSubstr("grid.z =="));
  }
}

TEST(Pool, AvgPool3dOfStride1) {
  Packer packer;
  packer.add(accessor<4>(0x100, {6, 3, 4, 5})).add(accessor<4>(0x200, {6, 4, 5, 6}));
  packer.add(int32_t{2}).add(int32_t{2}).add(int32_t{2}).add(0.125).add(int32_t{0});
  const Decoded decoded = decode(
      pooling_launch(packer, "44avg_pool3d_single_backward_out_frame_stride1IddEEvN5torch", {1, 1, 24}), nullptr);
  ASSERT_EQ(reason(decoded), "not refused");
  EXPECT_THAT(describe(std::get<Call>(decoded).outputs),
              ElementsAre("grad_input 512 f64 [1,6,4,5,6] strides [720,120,30,6,1]"));
  EXPECT_THAT(std::get<Call>(decoded).facts.texts.at("scalars"), HasSubstr("factor=0.125"));
}

TEST(Pool, AdaptiveAvgPool2d) {
  for (const std::string name : {"26adaptive_average_gradinputI", "33atomic_adaptive_average_gradinputI"}) {
    Packer packer;
    packer.add(uint64_t{0x200}).add(uint64_t{0x100});
    for (const int32_t number : {9, 8, 4, 3}) packer.add(number);
    const Decoded decoded = decode(pooling_launch(packer, name + "dEEvPT_PKS3_iiii", {6, 2, 1}), nullptr);
    ASSERT_EQ(reason(decoded), "not refused");
    EXPECT_THAT(describe(std::get<Call>(decoded).inputs), ElementsAre("grad_output 256 f64 [1,6,4,3]"));
    EXPECT_THAT(describe(std::get<Call>(decoded).outputs), ElementsAre("grad_input 512 f64 [1,6,9,8]"));
    EXPECT_EQ(std::get<Call>(decoded).facts.texts.at("pooling"), "adaptive_avg");
    EXPECT_EQ(std::get<Call>(decoded).facts.integers.at("output_width"), 3);
  }
  Packer packer;
  packer.add(uint64_t{0x200}).add(uint64_t{0x100});
  for (const int32_t number : {2, 3, 9, 8, 4, 5, 1, 1, 60, 1, 15, 3}) packer.add(number);
  const Decoded last =
      decode(pooling_launch(packer, "31adaptive_average_gradinput_nhwcIifEEvPT0_PKS3_iiiiiiiiT_S7_S7_S7_"), nullptr);
  ASSERT_EQ(reason(last), "not refused");
  EXPECT_THAT(describe(std::get<Call>(last).inputs), ElementsAre("grad_output 256 f32 [2,3,4,5] strides [60,1,15,3]"));
  EXPECT_THAT(describe(std::get<Call>(last).outputs), ElementsAre("grad_input 512 f32 [2,3,9,8] strides [216,1,24,3]"));
}

TEST(Pool, AdaptiveAvgPool3d) {
  for (const bool atomic : {false, true}) {
    const auto launch = [&](uint32_t blocks, int64_t offset) {
      Packer packer;
      packer.add(uint64_t{0x200}).add(uint64_t{0x100});
      for (const int32_t number : {4, 9, 8, 2, 3, 4}) packer.add(number);
      packer.add(offset);
      return pooling_launch(packer,
                            atomic ? "30atomicadaptiveaveragegradinputIfEEvPT_PKS3_iiiiiil"
                                   : "24adaptiveaveragegradinputIffEEvPT_PKS3_iiiiiil",
                            {blocks, 1, 1});
    };
    const Decoded decoded = decode(launch(atomic ? 12 : 24, 0), nullptr);
    ASSERT_EQ(reason(decoded), "not refused");
    EXPECT_THAT(describe(std::get<Call>(decoded).inputs), ElementsAre("grad_output 256 f32 [1,6,2,3,4]"));
    EXPECT_THAT(describe(std::get<Call>(decoded).outputs), ElementsAre("grad_input 512 f32 [1,6,4,9,8]"));
    EXPECT_THAT(reason(decode(launch(24, 65535), nullptr)), HasSubstr("offset == 0"));
    EXPECT_THAT(reason(decode(launch(13, 0), nullptr)), HasSubstr("grid.x %"));
  }
}

TEST(Pad, ReflectionPad) {
  Packer line;
  line.add(uint64_t{0x200}).add(uint64_t{0x100}).add(int64_t{7}).add(int64_t{2}).add(int64_t{3});
  const Decoded linear =
      decode(pooling_launch(line, "36reflection_pad1d_backward_out_kernelIfEEvPT_PKS3_lll", {1, 3, 2}), nullptr);
  ASSERT_EQ(reason(linear), "not refused");
  EXPECT_THAT(describe(std::get<Call>(linear).inputs), ElementsAre("grad_output 256 f32 [2,3,12]"));
  EXPECT_THAT(describe(std::get<Call>(linear).outputs), ElementsAre("grad_input 512 f32 [2,3,7]"));
  EXPECT_EQ(std::get<Call>(linear).facts.texts.at("mode"), "reflect");
  EXPECT_EQ(std::get<Call>(linear).facts.integers.at("padding_left"), 2);
  const auto plane = [](const std::string& name, std::initializer_list<int32_t> last) {
    Packer packer;
    packer.add(uint64_t{0x200}).add(uint64_t{0x100}).add(int64_t{7}).add(int64_t{6});
    for (const int32_t number : {1, 2, 3, 0}) packer.add(number);  // top, bottom, left, right
    for (const int32_t number : last) packer.add(number);
    return pooling_launch(packer, name + "IN3c104HalfEEEvPT_PKS5_lliiiiiii", {1, 3, 2});
  };
  const std::string det = "40reflection_pad2d_backward_det_out_kernel",
                    atomic = "36reflection_pad2d_backward_out_kernel";
  for (const Launch& launch : {plane(atomic, {0, 0, 3}), plane(det, {2, 3, 0})}) {
    const Decoded plane_call = decode(launch, nullptr);
    ASSERT_EQ(reason(plane_call), "not refused");
    EXPECT_THAT(describe(std::get<Call>(plane_call).inputs), ElementsAre("grad_output 256 f16 [2,3,9,10]"));
    EXPECT_THAT(describe(std::get<Call>(plane_call).outputs), ElementsAre("grad_input 512 f16 [2,3,6,7]"));
  }
  EXPECT_THAT(reason(decode(plane(atomic, {65535, 0, 3}), nullptr)), HasSubstr("first_channel == 0"));
  EXPECT_THAT(reason(decode(plane(atomic, {0, 0, 4}), nullptr)), HasSubstr("grid.y == channels"));
}

TEST(Pad, OfAccessors) {
  constexpr const char* kTail =
      "EEvN5torch10headeronly6detail27GenericPackedTensorAccessorINS5_14TensorAccessorIN3c108Arr"
      "ayRefIlEET_";
  const auto launch = [&](auto input, auto output, const std::string& kernel, auto... numbers) {
    Packer packer;
    packer.add(input).add(output);
    (packer.add(numbers), ...);
    return pooling_launch(packer, kernel, {1, 3, 2});
  };
  const std::string replication = std::string("31replication_pad_backward_kernelId") + kTail;
  const int32_t none = 0, before = 2, above = 1;
  const std::map<std::string, Launch> launches{
      {"replication_pad1d grad_input 512 f64 [2,3,7] strides [21,7,1]",
       launch(accessor<3>(0x200, {2, 3, 7}), accessor<3>(0x100, {2, 3, 9}), replication + "Lm2ENS4_Lm3E", before, none,
              none)},
      {"replication_pad2d grad_input 512 f64 [2,3,6,7] strides [126,42,7,1]",
       launch(accessor<4>(0x200, {2, 3, 6, 7}), accessor<4>(0x100, {2, 3, 8, 9}), replication + "Lm3ENS4_Lm4E", above,
              before, none, none)},
      {"replication_pad3d grad_input 512 f64 [2,3,5,6,7] strides [630,210,42,7,1]",
       launch(accessor<5>(0x200, {2, 3, 5, 6, 7}), accessor<5>(0x100, {2, 3, 6, 8, 9}), replication + "Lm4ENS4_Lm5E",
              above, above, before, none, none)},
      {"reflection_pad3d grad_input 512 f64 [2,3,5,6,7] strides [630,210,42,7,1]",
       launch(accessor<5>(0x200, {2, 3, 5, 6, 7}), accessor<5>(0x100, {2, 3, 6, 8, 9}),
              std::string("36reflection_pad3d_backward_out_kernelId") + kTail, int64_t{2}, int64_t{1}, int64_t{1},
              int64_t{0}, int64_t{0})},
  };
  for (const auto& [expected, made] : launches) {
    const Decoded decoded = decode(made, nullptr);
    ASSERT_EQ(reason(decoded), "not refused") << expected;
    const Call& call = std::get<Call>(decoded);
    EXPECT_EQ(call.facts.texts.at("adapter") + " " + describe(call.outputs)[0], expected);
    EXPECT_EQ(call.facts.texts.at("mode"), expected.starts_with("refl") ? "reflect" : "replicate");
    EXPECT_EQ(call.facts.integers.at("padding_left"), 2);
    EXPECT_EQ(call.facts.integers.contains("padding_front"), expected.find("3d") != expected.npos);
    Launch partial = made;
    partial.grid = {1, 2, 2};
    EXPECT_THAT(reason(decode(partial, nullptr)), HasSubstr("grid.y == grad_output.channels"));
  }
}

}  // namespace
}  // namespace msda::adapters
