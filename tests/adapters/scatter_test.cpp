// The adapters of torchvision's roi_align and PyTorch's interpolate, by the names that PyTorch 2.11 and torchvision
// 0.26 register, and parameters laid out one after the other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/adapters/launches.h"

namespace msda::adapters {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Texts = std::map<std::string, std::string>;
using Integers = std::map<std::string, int64_t>;

std::map<uint64_t, std::string> pointers_of(const Call& call) {
  std::map<uint64_t, std::string> found;
  for (const auto& [offset, name] : call.pointers) found[offset] = name;
  return found;
}

struct RoiAlign {
  int32_t threads = 6 * 3 * 2 * 4, channels = 3, height = 10, width = 12, rows = 2, columns = 4, ratio = 2;
  float scale = 0.25f;
  uint8_t aligned = 1;
  int32_t strides[4] = {24, 8, 4, 1}, span = 5 * 3 * 10 * 12;

  Launch launch(const std::string& type = "f", const std::string& rest = "EEviPKT_S3_iiiiiibPS3_S5_iiiii") const {
    Packer packer;
    packer.add(threads).add(uint64_t{0x100}).add(scale).add(channels).add(height).add(width).add(rows).add(columns);
    packer.add(ratio).add(aligned).add(uint64_t{0x200}).add(uint64_t{0x300});
    for (const int32_t stride : strides) packer.add(stride);
    return packer.add(span).launch(
        "_ZN6vision3ops57_GLOBAL__N__188fa4c8_19_roi_align_kernel_cu_85cbb3f1_438630roi_align_backward_kernel_implI" +
        type + rest);
  }
  Decoded decoded() const { return decode(launch(), nullptr); }
};

TEST(RoiAlign, TensorsAndFacts) {
  const Launch launch = RoiAlign().launch();
  // Offsets of the parameters, as the image of the kernel has them.
  std::vector<uint64_t> offsets;
  for (const Parameter& parameter : launch.parameters) offsets.push_back(parameter.offset);
  EXPECT_THAT(offsets, ElementsAre(0x0, 0x8, 0x10, 0x14, 0x18, 0x1c, 0x20, 0x24, 0x28, 0x2c, 0x30, 0x38, 0x40, 0x44,
                                   0x48, 0x4c, 0x50));
  EXPECT_EQ(adapter_for(launch.kernel)->name(), "roi_align");
  const Decoded decoded = decode(launch, nullptr);
  ASSERT_EQ(reason(decoded), "not refused");
  const Call& call = std::get<Call>(decoded);
  EXPECT_THAT(describe(call.inputs), ElementsAre("grad_output 256 f32 [6,3,2,4]", "boxes 768 f32 [6,5]"));
  EXPECT_THAT(describe(call.outputs), ElementsAre("grad_input 512 f32 [5,3,10,12]"));
  EXPECT_FALSE(call.outputs[0].written_over);
  EXPECT_EQ(call.texts, (Texts{{"spatial_scale", "0.25"}}));
  EXPECT_EQ(
      call.integers,
      (Integers{{"sampling_ratio", 2}, {"aligned", 1}, {"input_batch", 5}, {"input_height", 10}, {"input_width", 12}}));
  EXPECT_EQ(pointers_of(call), (std::map<uint64_t, std::string>{
                                   {0x8, "inputs/grad_output"}, {0x30, "outputs/grad_input"}, {0x38, "inputs/boxes"}}));
  const auto shape = std::get<LaunchShape>(adapter_for(launch.kernel)->with_block(launch, 32));
  EXPECT_EQ(shape.grid[0], 5u);  // of 144 threads
}

TEST(RoiAlign, StridesOfGradOutput) {
  RoiAlign expanded;
  for (int32_t& stride : expanded.strides) stride = 0;  // the gradient of a sum
  const Decoded decoded = expanded.decoded();
  ASSERT_EQ(reason(decoded), "not refused");
  EXPECT_THAT(describe(std::get<Call>(decoded).inputs),
              ElementsAre("grad_output 256 f32 [6,3,2,4] strides [0,0,0,0]", "boxes 768 f32 [6,5]"));
}

TEST(RoiAlign, Refusals) {
  RoiAlign call;
  call.threads = 145;
  EXPECT_THAT(reason(call.decoded()), HasSubstr("do not divide"));
  call = {};
  call.span += 1;
  EXPECT_THAT(reason(call.decoded()), HasSubstr("do not divide"));
  call = {};
  call.channels = 0;
  EXPECT_THAT(reason(call.decoded()), HasSubstr("do not divide"));
  call = {};
  call.aligned = 2;
  EXPECT_THAT(reason(call.decoded()), HasSubstr("bool"));
  call = {};
  call.strides[0] = -24;
  EXPECT_NE(reason(call.decoded()), "not refused");
  EXPECT_THAT(reason(decode(RoiAlign().launch("d"), nullptr)), HasSubstr("17"));
  EXPECT_THAT(reason(decode(RoiAlign().launch("f", "EEviPKT_S3_iiiiiibPS3_S5_i"), nullptr)),
              HasSubstr("other parameters"));
  Launch fewer = RoiAlign().launch();
  fewer.parameters.pop_back();
  EXPECT_THAT(reason(decode(fewer, nullptr)), HasSubstr("17"));
}

template <class Real>
Launch bilinear(const std::string& types, int32_t (&&sides)[4], Real rheight, Real rwidth, uint8_t aligned) {
  Packer packer;
  packer.add(uint64_t{6});
  for (const int32_t side : sides) packer.add(side);
  return packer.add(rheight)
      .add(rwidth)
      .add(aligned)
      .add(uint64_t{0x200})
      .add(uint64_t{0x100})
      .launch(
          "_ZN2at6native54_GLOBAL__N__483be8b1_21_UpSampleBilinear2d_cu_607db5e338upsample_bilinear2d_backward_out_"
          "frameI" +
          types + "EEvmiiiiT0_S3_bPT_PKS4_");
}

TEST(Interpolate, Bilinear) {
  const Launch launch = bilinear<float>("ff", {4, 5, 8, 15}, 0.5f, 5.0f / 15.0f, 0);
  EXPECT_EQ(adapter_for(launch.kernel)->name(), "upsample_bilinear2d");
  const Decoded decoded = decode(launch, nullptr);
  ASSERT_EQ(reason(decoded), "not refused");
  const Call& call = std::get<Call>(decoded);
  EXPECT_THAT(describe(call.inputs), ElementsAre("grad_output 256 f32 [1,6,8,15]"));
  EXPECT_THAT(describe(call.outputs), ElementsAre("grad_input 512 f32 [1,6,4,5]"));
  EXPECT_EQ(call.texts, (Texts{{"mode", "bilinear"}}));
  EXPECT_EQ(call.integers, (Integers{{"align_corners", 0}, {"input_height", 4}, {"input_width", 5}}));
  const auto shape = std::get<LaunchShape>(adapter_for(launch.kernel)->with_block(launch, 64));
  EXPECT_EQ(shape.grid[0], 12u);  // of 720 threads

  const Decoded scaled = decode(bilinear<float>("ff", {4, 5, 8, 15}, 0.5f, 0.25f, 0), nullptr);
  EXPECT_EQ(std::get<Call>(scaled).texts, (Texts{{"mode", "bilinear"}, {"scale_width", "4"}}));
  const Decoded aligned = decode(bilinear<float>("ff", {4, 5, 8, 15}, 3.0f / 7, 4.0f / 14, 1), nullptr);
  EXPECT_EQ(std::get<Call>(aligned).texts, (Texts{{"mode", "bilinear"}}));
  EXPECT_EQ(std::get<Call>(aligned).integers.at("align_corners"), 1);
  const Decoded wide = decode(bilinear<double>("dd", {4, 5, 8, 15}, 0.5, 5.0 / 15.0, 0), nullptr);
  ASSERT_EQ(reason(wide), "not refused");
  EXPECT_THAT(describe(std::get<Call>(wide).inputs), ElementsAre("grad_output 256 f64 [1,6,8,15]"));
  const Decoded half = decode(bilinear<float>("N3c104HalfEf", {4, 5, 8, 15}, 0.5f, 5.0f / 15.0f, 0), nullptr);
  ASSERT_EQ(reason(half), "not refused");
  EXPECT_THAT(describe(std::get<Call>(half).inputs), ElementsAre("grad_output 256 f16 [1,6,8,15]"));
  EXPECT_THAT(describe(std::get<Call>(half).outputs), ElementsAre("grad_input 512 f16 [1,6,4,5]"));

  EXPECT_NE(reason(decode(bilinear<float>("ff", {0, 5, 8, 15}, 0.5f, 0.25f, 0), nullptr)), "not refused");
  EXPECT_THAT(reason(decode(bilinear<float>("ff", {4, 5, 8, 15}, 0.5f, NAN, 0), nullptr)), HasSubstr("ratio"));
  EXPECT_THAT(reason(decode(bilinear<float>("dd", {4, 5, 8, 15}, 0.5f, 0.25f, 0), nullptr)), HasSubstr("10"));
}

Launch nearest(int axes, const std::string& function, const std::vector<uint64_t>& out, const std::vector<uint64_t>& in,
               const std::vector<float>& scales) {
  Packer packer;
  packer.add(uint64_t{0x100}).add(uint64_t{2}).add(uint64_t{3});
  for (const uint64_t side : out) packer.add(side);
  for (const uint64_t side : in) packer.add(side);
  packer.add(uint64_t{0x200});
  for (const float scale : scales) packer.add(scale);
  const std::string number = std::to_string(axes), count(static_cast<size_t>(2 + 2 * axes), 'm'),
                    floats(static_cast<size_t>(axes), 'f');
  return packer.launch("_ZN2at6native53_GLOBAL__N__222ba01c_20_UpSampleNearest" + number +
                       "d_cu_198c5ce237upsample_nearest" + number + "d_backward_out_frameIffXadL_ZNS0_" + function +
                       "EfiiEEEEvPKT_" + count + "PS3_" + floats);
}
constexpr char kPlain[] = "40nearest_neighbor_bw_compute_source_index",
               kExact[] = "46nearest_neighbor_exact_bw_compute_source_index";

TEST(Interpolate, Nearest) {
  const Decoded plane = decode(nearest(2, kPlain, {8, 15}, {4, 5}, {2, 3}), nullptr);
  ASSERT_EQ(reason(plane), "not refused");
  const Call& call = std::get<Call>(plane);
  EXPECT_THAT(describe(call.inputs), ElementsAre("grad_output 256 f32 [2,3,8,15]"));
  EXPECT_THAT(describe(call.outputs), ElementsAre("grad_input 512 f32 [2,3,4,5]"));
  EXPECT_TRUE(call.outputs[0].written_over);
  EXPECT_EQ(call.texts, (Texts{{"mode", "nearest"}}));
  EXPECT_EQ(call.integers, (Integers{{"input_height", 4}, {"input_width", 5}}));
  const Decoded line = decode(nearest(1, kExact, {9}, {4}, {2.5f}), nullptr);
  ASSERT_EQ(reason(line), "not refused");
  EXPECT_EQ(std::get<Call>(line).texts, (Texts{{"mode", "nearest-exact"}, {"scale_width", "2.5"}}));
  const Decoded volume = decode(nearest(3, kPlain, {6, 8, 15}, {2, 4, 5}, {3, 2, 2.9f}), nullptr);
  ASSERT_EQ(reason(volume), "not refused");
  EXPECT_EQ(std::get<Call>(volume).integers, (Integers{{"input_depth", 2}, {"input_height", 4}, {"input_width", 5}}));
  EXPECT_EQ(std::get<Call>(volume).texts.count("scale_width"), 1u);
  EXPECT_EQ(std::get<Call>(volume).texts.count("scale_depth"), 0u);

  EXPECT_THAT(reason(decode(nearest(2, "7unknown", {8, 15}, {4, 5}, {2, 3}), nullptr)), HasSubstr("other parameters"));
  EXPECT_NE(reason(decode(nearest(2, kPlain, {8, 15}, {4, 0}, {2, 3}), nullptr)), "not refused");
  EXPECT_THAT(reason(decode(nearest(2, kPlain, {8, 15}, {4, 5}, {2, -3}), nullptr)), HasSubstr("ratio"));
}

}  // namespace
}  // namespace msda::adapters
