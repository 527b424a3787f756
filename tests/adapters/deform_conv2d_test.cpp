// The adapters of deform_conv2d, which are data: launches of torchvision 0.26's kernels, laid out as in its image, and
// of mmcv 2.2's, as nvcc lays them out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/adapters/launches.h"

namespace msda::adapters {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kDeformConv2dName =
    "_ZN6vision3ops61_GLOBAL__N__0c0c7144_23_deform_conv2d_kernel_cu_85cbb3f1_4316";

template <class Index>
struct DeformConv2d {
  Index channels = 6, height = 9, width = 8, taps[2] = {3, 2}, padding[2] = {1, 0}, stride[2] = {2, 1},
        dilation[2] = {1, 2}, batch = 2, groups = 2, rows = 4, columns = 6;
  uint8_t has_mask = 1;
  Index surplus = 0;

  Launch launch(bool of_offset, const std::string& element) const {
    const Index taps_of_all = taps[0] * taps[1], positions = batch * rows * columns;
    Packer packer;
    packer.add<Index>((of_offset ? 2 * groups : channels) * taps_of_all * positions + surplus);
    for (uint64_t pointer = 0x100; pointer <= (of_offset ? 0x400 : 0x300); pointer += 0x100) packer.add(pointer);
    for (const Index number : {channels, height, width, taps[0], taps[1], padding[0], padding[1], stride[0], stride[1],
                               dilation[0], dilation[1], batch}) {
      packer.add(number);
    }
    if (of_offset) packer.add<Index>(2 * groups * taps_of_all);
    packer.add(groups).add(rows).add(columns).add(has_mask).add(uint64_t{0x500});
    if (of_offset) packer.add(uint64_t{0x600});
    const std::string name = of_offset ? "30deformable_col2im_coord_kernelI" : "24deformable_col2im_kernelI";
    return packer.launch(kDeformConv2dName + name + element + (sizeof(Index) == 8 ? "lE" : "iE") +
                         "EvT0_PKT_S6_S6_S3_");
  }
};

// mmcv's, with a mask (modulated) and without.
struct DeformConv {
  int32_t channels = 6, height = 9, width = 8, taps[2] = {3, 2}, padding[2] = {1, 0}, stride[2] = {2, 1},
          dilation[2] = {1, 2}, channels_of_group = 3, batch = 2, groups = 2, rows = 4, columns = 6;

  Launch launch(bool is_modulated, bool of_offset, const std::string& element) const {
    const int32_t taps_of_all = taps[0] * taps[1], positions = batch * rows * columns;
    const uint64_t tensors = 2 + (of_offset ? 1 : 0) + (is_modulated ? 1 : 0);
    Packer packer;
    packer.add((of_offset ? 2 * groups : channels) * taps_of_all * positions);
    for (uint64_t i = 1; i <= tensors; ++i) packer.add(i * 0x100);
    for (const int32_t number : {channels, height, width, taps[0], taps[1], padding[0], padding[1], stride[0],
                                 stride[1], dilation[0], dilation[1]}) {
      packer.add(number);
    }
    packer.add(channels_of_group * (of_offset ? taps_of_all : 1)).add(batch);
    if (of_offset) packer.add(2 * groups * taps_of_all);
    packer.add(groups).add(rows).add(columns).add(uint64_t{0x500});
    if (of_offset && is_modulated) packer.add(uint64_t{0x600});
    const std::string name = of_offset      ? is_modulated ? "44modulated_deformable_col2im_coord_gpu_kernel"
                                                           : "34deformable_col2im_coord_gpu_kernel"
                             : is_modulated ? "38modulated_deformable_col2im_gpu_kernel"
                                            : "28deformable_col2im_gpu_kernel";
    return packer.launch("_Z" + name + "I" + element + "EviPKT_S2_");
  }
};

TEST(DeformConv, TensorsOfTheInput) {
  const DeformConv call;
  const Decoded modulated = decode(call.launch(true, false, "f"), nullptr);
  ASSERT_EQ(reason(modulated), "not refused");
  EXPECT_THAT(describe(std::get<Call>(modulated).inputs),
              ElementsAre("columns 256 f32 [6,6,2,4,6]", "offset 512 f32 [2,24,4,6]", "mask 768 f32 [2,12,4,6]"));
  EXPECT_THAT(describe(std::get<Call>(modulated).outputs), ElementsAre("grad_input 1280 f32 [2,6,9,8]"));
  EXPECT_EQ(std::get<Call>(modulated).facts.texts.at("operator"), "deform_conv2d");
  EXPECT_EQ(std::get<Call>(modulated).facts.texts.at("adapter"), "modulated_deform_conv_input");
  EXPECT_EQ(std::get<Call>(modulated).facts.integers.at("dilation_width"), 2);
  const Decoded plain = decode(call.launch(false, false, "N3c104HalfE"), nullptr);
  ASSERT_EQ(reason(plain), "not refused");
  EXPECT_THAT(describe(std::get<Call>(plain).inputs),
              ElementsAre("columns 256 f16 [6,6,2,4,6]", "offset 512 f16 [2,24,4,6]"));
  EXPECT_THAT(describe(std::get<Call>(plain).outputs), ElementsAre("grad_input 1280 f16 [2,6,9,8]"));
}

TEST(DeformConv, TensorsOfTheOffset) {
  const DeformConv call;
  const Decoded modulated = decode(call.launch(true, true, "d"), nullptr);
  ASSERT_EQ(reason(modulated), "not refused");
  EXPECT_THAT(describe(std::get<Call>(modulated).inputs),
              ElementsAre("columns 256 f64 [6,6,2,4,6]", "input 512 f64 [2,6,9,8]", "offset 768 f64 [2,24,4,6]",
                          "mask 1024 f64 [2,12,4,6]"));
  EXPECT_THAT(describe(std::get<Call>(modulated).outputs),
              ElementsAre("grad_offset 1280 f64 [2,24,4,6]", "grad_mask 1536 f64 [2,12,4,6]"));
  const Decoded plain = decode(call.launch(false, true, "f"), nullptr);
  ASSERT_EQ(reason(plain), "not refused");
  EXPECT_THAT(describe(std::get<Call>(plain).inputs),
              ElementsAre("columns 256 f32 [6,6,2,4,6]", "input 512 f32 [2,6,9,8]", "offset 768 f32 [2,24,4,6]"));
  EXPECT_THAT(describe(std::get<Call>(plain).outputs), ElementsAre("grad_offset 1280 f32 [2,24,4,6]"));
}

TEST(DeformConv, Refusals) {
  DeformConv call;
  call.channels_of_group = 2;
  for (const bool is_modulated : {false, true}) {
    for (const bool of_offset : {false, true}) {
      EXPECT_THAT(reason(decode(call.launch(is_modulated, of_offset, "f"), nullptr)),
                  HasSubstr("channels_of_group * offset_groups == channels"));
    }
  }
}

TEST(DeformConv2d, TensorsAndFactsOfTheInput) {
  const Decoded decoded = decode(DeformConv2d<int64_t>().launch(false, "f"), nullptr);
  ASSERT_EQ(reason(decoded), "not refused");
  const Call& call = std::get<Call>(decoded);
  EXPECT_THAT(describe(call.inputs),
              ElementsAre("columns 256 f32 [6,6,2,4,6]", "offset 512 f32 [2,24,4,6]", "mask 768 f32 [2,12,4,6]"));
  EXPECT_THAT(describe(call.outputs), ElementsAre("grad_input 1280 f32 [2,6,9,8]"));
  EXPECT_EQ(call.facts.texts.at("operator"), "deform_conv2d");
  EXPECT_EQ(call.facts.integers, (decltype(call.facts.integers){{"kernel_height", 3},
                                                                {"kernel_width", 2},
                                                                {"padding_height", 1},
                                                                {"padding_width", 0},
                                                                {"stride_height", 2},
                                                                {"stride_width", 1},
                                                                {"dilation_height", 1},
                                                                {"dilation_width", 2},
                                                                {"offset_groups", 2}}));
}

TEST(DeformConv2d, TensorsOfTheOffset) {
  DeformConv2d<int32_t> call;
  const Decoded masked = decode(call.launch(true, "d"), nullptr);
  ASSERT_EQ(reason(masked), "not refused");
  EXPECT_THAT(describe(std::get<Call>(masked).inputs),
              ElementsAre("columns 256 f64 [6,6,2,4,6]", "input 512 f64 [2,6,9,8]", "offset 768 f64 [2,24,4,6]",
                          "mask 1024 f64 [2,12,4,6]"));
  EXPECT_THAT(describe(std::get<Call>(masked).outputs),
              ElementsAre("grad_offset 1280 f64 [2,24,4,6]", "grad_mask 1536 f64 [2,12,4,6]"));
  call.has_mask = 0;
  const Decoded plain = decode(call.launch(true, "N3c104HalfE"), nullptr);
  ASSERT_EQ(reason(plain), "not refused");
  EXPECT_THAT(describe(std::get<Call>(plain).inputs),
              ElementsAre("columns 256 f16 [6,6,2,4,6]", "input 512 f16 [2,6,9,8]", "offset 768 f16 [2,24,4,6]"));
  EXPECT_THAT(describe(std::get<Call>(plain).outputs), ElementsAre("grad_offset 1280 f16 [2,24,4,6]"));
}

TEST(DeformConv2d, Refusals) {
  DeformConv2d<int32_t> call;
  call.surplus = 1;
  EXPECT_THAT(reason(decode(call.launch(false, "f"), nullptr)), HasSubstr("== count does not hold"));
  EXPECT_THAT(reason(decode(call.launch(true, "f"), nullptr)), HasSubstr("== count does not hold"));
  call = {};
  call.groups = 4;
  EXPECT_THAT(reason(decode(call.launch(false, "f"), nullptr)),
              HasSubstr("channels % offset_groups == 0 does not hold"));
  EXPECT_EQ(adapter_for(DeformConv2d<int32_t>().launch(false, "N3c108BFloat16E").kernel), nullptr);
  Launch narrow = DeformConv2d<int32_t>().launch(false, "f");
  narrow.kernel = DeformConv2d<int64_t>().launch(false, "f").kernel;
  EXPECT_THAT(reason(decode(narrow, nullptr)), HasSubstr("bytes"));
}

}  // namespace
}  // namespace msda::adapters
