// The adapter of ps_roi_align, which is data: launches of torchvision 0.26's kernel, laid out as its name says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/adapters/launches.h"

namespace msda::adapters {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <class Real>
struct PsRoiAlign {
  int32_t count = 4 * 2 * 3 * 5, channels = 30, points = 2, channels_out = 2, elements = 2 * 30 * 7 * 6;

  Launch launch(const std::string& element) const {
    Packer packer;
    packer.add(count).add(uint64_t{0x100}).add(uint64_t{0x300}).add(Real{0.25});
    for (const int32_t number : {channels, 7, 6, 3, 5, points, channels_out}) packer.add(number);
    packer.add(uint64_t{0x200}).add(uint64_t{0x400}).add(elements);
    return packer.launch(
        "_ZN6vision3ops60_GLOBAL__N__d1018eed_22_ps_roi_align_kernel_cu_85cbb3f1_438533ps_roi_align_backward_kernel_"
        "implI" +
        element + "EEviPKT_PKiS3_iiiiiiiPS3_S5_i");
  }
};

TEST(PsRoiAlign, TensorsAndFacts) {
  const Decoded decoded = decode(PsRoiAlign<float>().launch("f"), nullptr);
  ASSERT_EQ(reason(decoded), "not refused");
  const Call& call = std::get<Call>(decoded);
  EXPECT_THAT(describe(call.inputs), ElementsAre("grad_output 256 f32 [4,2,3,5]", "channel_mapping 768 i32 [4,2,3,5]",
                                                 "boxes 1024 f32 [4,5]"));
  EXPECT_THAT(describe(call.outputs), ElementsAre("grad_input 512 f32 [2,30,7,6]"));
  EXPECT_EQ(call.facts.texts.at("operator"), "ps_roi_align");
  EXPECT_EQ(call.facts.reals, (decltype(call.facts.reals){{"spatial_scale", 0.25}}));
  EXPECT_EQ(call.facts.integers,
            (decltype(call.facts.integers){{"sampling_ratio", 2}, {"pooled_height", 3}, {"pooled_width", 5}}));
  const Decoded wide = decode(PsRoiAlign<double>().launch("d"), nullptr);
  ASSERT_EQ(reason(wide), "not refused");
  EXPECT_THAT(describe(std::get<Call>(wide).outputs), ElementsAre("grad_input 512 f64 [2,30,7,6]"));
}

TEST(PsRoiAlign, Refusals) {
  PsRoiAlign<float> call;
  call.points = 0;
  EXPECT_THAT(reason(decode(call.launch("f"), nullptr)), HasSubstr("sampling_ratio > 0 does not hold"));
  call = {};
  call.channels_out = 3;
  EXPECT_THAT(reason(decode(call.launch("f"), nullptr)), HasSubstr("channels == channels_out"));
  call = {};
  ++call.elements;
  EXPECT_THAT(reason(decode(call.launch("f"), nullptr)), HasSubstr("elements %"));
  EXPECT_EQ(adapter_for(PsRoiAlign<float>().launch("N3c104HalfE").kernel), nullptr);
}

}  // namespace
}  // namespace msda::adapters
