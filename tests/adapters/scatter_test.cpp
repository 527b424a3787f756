// The adapters of torchvision's roi_align and PyTorch's kernels that scatter, by the names that PyTorch 2.11 and
// torchvision 0.26 register, and parameters laid out one after the other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>

#include "recorder/adapters/tensor_info.h"
#include "tests/adapters/launches.h"

namespace msda::adapters {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Texts = std::map<std::string, std::string>;
using Integers = std::map<std::string, int64_t>;
using Reals = std::map<std::string, double>;
using Flags = std::map<std::string, bool>;

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
  EXPECT_EQ(call.facts.texts, Texts{});
  EXPECT_EQ(call.facts.reals, (Reals{{"spatial_scale", 0.25}}));
  EXPECT_EQ(call.facts.flags, (Flags{{"aligned", true}}));
  EXPECT_EQ(call.facts.integers,
            (Integers{{"sampling_ratio", 2}, {"input_batch", 5}, {"input_height", 10}, {"input_width", 12}}));
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
  EXPECT_EQ(call.facts.texts, (Texts{{"mode", "bilinear"}}));
  EXPECT_EQ(call.facts.flags, (Flags{{"align_corners", false}}));
  EXPECT_EQ(call.facts.integers, (Integers{{"input_height", 4}, {"input_width", 5}}));
  const auto shape = std::get<LaunchShape>(adapter_for(launch.kernel)->with_block(launch, 64));
  EXPECT_EQ(shape.grid[0], 12u);  // of 720 threads

  const Decoded scaled = decode(bilinear<float>("ff", {4, 5, 8, 15}, 0.5f, 0.25f, 0), nullptr);
  EXPECT_EQ(std::get<Call>(scaled).facts.texts, (Texts{{"mode", "bilinear"}}));
  EXPECT_EQ(std::get<Call>(scaled).facts.reals, (Reals{{"scale_width", 4}}));
  const Decoded aligned = decode(bilinear<float>("ff", {4, 5, 8, 15}, 3.0f / 7, 4.0f / 14, 1), nullptr);
  EXPECT_EQ(std::get<Call>(aligned).facts.texts, (Texts{{"mode", "bilinear"}}));
  EXPECT_EQ(std::get<Call>(aligned).facts.flags.at("align_corners"), true);
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

TEST(Interpolate, BilinearChannelsLast) {
  const auto launch = [](int64_t elements, float width_ratio) {
    Packer packer;
    for (const int32_t number : {4, 5, 8, 15}) packer.add(number);
    packer.add(0.5f).add(width_ratio).add(uint8_t{0}).add(uint64_t{0x200}).add(uint64_t{0x100}).add(int32_t{3});
    packer.add(elements).add(int64_t{2 * 3 * 4 * 5});
    return packer.launch(
        "_ZN2at6native54_GLOBAL__N__483be8b1_21_UpSampleBilinear2d_cu_607db5e343upsample_bilinear2d_backward_nhwc_out_"
        "frameIffEEviiiiT0_S3_bPT_PKS4_imm");
  };
  const Decoded decoded = decode(launch(2 * 3 * 8 * 15, 0.25f), nullptr);
  ASSERT_EQ(reason(decoded), "not refused");
  const Call& call = std::get<Call>(decoded);
  EXPECT_THAT(describe(call.inputs), ElementsAre("grad_output 256 f32 [2,3,8,15] strides [360,1,45,3]"));
  EXPECT_THAT(describe(call.outputs), ElementsAre("grad_input 512 f32 [2,3,4,5] strides [60,1,15,3]"));
  EXPECT_EQ(call.facts.texts, (Texts{{"mode", "bilinear"}}));
  EXPECT_EQ(call.facts.reals, (Reals{{"scale_width", 4}}));
  EXPECT_EQ(call.facts.integers, (Integers{{"input_height", 4}, {"input_width", 5}}));
  EXPECT_THAT(reason(decode(launch(2 * 3 * 8 * 15 + 1, 0.25f), nullptr)), HasSubstr("contradict"));
  EXPECT_THAT(reason(decode(launch(3 * 3 * 8 * 15, 0.25f), nullptr)), HasSubstr("contradict"));
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
  EXPECT_EQ(call.facts.texts, (Texts{{"mode", "nearest"}}));
  EXPECT_EQ(call.facts.integers, (Integers{{"input_height", 4}, {"input_width", 5}}));
  const Decoded line = decode(nearest(1, kExact, {9}, {4}, {2.5f}), nullptr);
  ASSERT_EQ(reason(line), "not refused");
  EXPECT_EQ(std::get<Call>(line).facts.texts, (Texts{{"mode", "nearest-exact"}}));
  EXPECT_EQ(std::get<Call>(line).facts.reals, (Reals{{"scale_width", 2.5}}));
  const Decoded volume = decode(nearest(3, kPlain, {6, 8, 15}, {2, 4, 5}, {3, 2, 2.9f}), nullptr);
  ASSERT_EQ(reason(volume), "not refused");
  EXPECT_EQ(std::get<Call>(volume).facts.integers,
            (Integers{{"input_depth", 2}, {"input_height", 4}, {"input_width", 5}}));
  EXPECT_EQ(std::get<Call>(volume).facts.reals.count("scale_width"), 1u);
  EXPECT_EQ(std::get<Call>(volume).facts.reals.count("scale_depth"), 0u);

  EXPECT_THAT(reason(decode(nearest(2, "7unknown", {8, 15}, {4, 5}, {2, 3}), nullptr)), HasSubstr("other parameters"));
  EXPECT_NE(reason(decode(nearest(2, kPlain, {8, 15}, {4, 0}, {2, 3}), nullptr)), "not refused");
  EXPECT_THAT(reason(decode(nearest(2, kPlain, {8, 15}, {4, 5}, {2, -3}), nullptr)), HasSubstr("ratio"));
}

std::vector<uint64_t> offsets_of(const Launch& launch) {
  std::vector<uint64_t> offsets;
  for (const Parameter& parameter : launch.parameters) offsets.push_back(parameter.offset);
  return offsets;
}

constexpr char kBicubic[] =
    "_ZN2at6native53_GLOBAL__N__9a173a14_20_UpSampleBicubic2d_cu_80ee57ca37upsample_bicubic2d_backward_out_frameI";
constexpr char kTrilinear[] =
    "_ZN2at6native55_GLOBAL__N__cde4609a_22_UpSampleTrilinear3d_cu_efb54c9339upsample_trilinear3d_backward_out_frameI";
constexpr char kAccessors[] =
    "bN5torch10headeronly6detail27GenericPackedTensorAccessorINS6_14TensorAccessorIN3c108ArrayRefIlEET_Lm3ENS5_"
    "16DefaultPtrTraitsElEENS_6detail16IndexBoundsCheckILm4ElEESC_Lm4ESD_lEE";

TEST(Interpolate, Bicubic) {
  const auto launch = [](auto ratio, const std::string& types, float factor = 1) {
    using Real = decltype(ratio);
    auto in = accessor<4>(0x200, {2, 3, 4, 5}), out = accessor<4>(0x100, {2, 3, 8, 15});
    return Packer()
        .add(int32_t{120})
        .add(Real{0.5})
        .add(static_cast<Real>(static_cast<Real>(5) / static_cast<Real>(15) * static_cast<Real>(factor)))
        .add(uint8_t{0})
        .add(in)
        .add(out)
        .launch(kBicubic + types + "EEviT0_S3_" + kAccessors);
  };
  const Launch narrow = launch(float{}, "ff");
  EXPECT_THAT(offsets_of(narrow), ElementsAre(0, 4, 8, 12, 16, 88));  // as the image has them
  EXPECT_THAT(offsets_of(launch(double{}, "dd")), ElementsAre(0, 8, 16, 24, 32, 104));
  EXPECT_EQ(adapter_for(narrow.kernel)->name(), "upsample_bicubic2d");
  const Decoded decoded = decode(narrow, nullptr);
  ASSERT_EQ(reason(decoded), "not refused");
  const Call& call = std::get<Call>(decoded);
  EXPECT_THAT(describe(call.inputs), ElementsAre("grad_output 256 f32 [2,3,8,15]"));
  EXPECT_THAT(describe(call.outputs), ElementsAre("grad_input 512 f32 [2,3,4,5]"));
  EXPECT_EQ(call.facts.texts, (Texts{{"mode", "bicubic"}}));
  EXPECT_EQ(call.facts.flags, (Flags{{"align_corners", false}}));
  EXPECT_EQ(call.facts.integers, (Integers{{"input_height", 4}, {"input_width", 5}}));
  EXPECT_EQ(pointers_of(call),
            (std::map<uint64_t, std::string>{{16, "outputs/grad_input"}, {88, "inputs/grad_output"}}));
  EXPECT_EQ(reason(decode(launch(double{}, "dd"), nullptr)), "not refused");
  EXPECT_EQ(std::get<Call>(decode(launch(float{}, "ff", 0.75f), nullptr)).facts.reals.count("scale_width"), 1u);
  EXPECT_THAT(reason(decode(launch(float{}, "dd"), nullptr)), HasSubstr("6"));
  EXPECT_NE(reason(decode(launch(float{}, "ff", -1), nullptr)), "not refused");
  Launch another = narrow;
  another.kernel = kBicubic + std::string("ffEEviT0_S3_b");
  EXPECT_THAT(reason(decode(another, nullptr)), HasSubstr("other parameters"));
}

TEST(Interpolate, Trilinear) {
  const auto launch = [](int64_t last_stride, uint64_t again, const std::array<int64_t, 5>& out_sizes) {
    auto in = accessor<5>(0x200, {2, 3, 2, 4, 5});
    in.strides[4] = last_stride;
    return Packer()
        .add(int32_t{480})
        .add(0.7f)
        .add(0.5f)
        .add(0.7f)
        .add(uint8_t{1})
        .add(in)
        .add(accessor<5>(0x100, out_sizes))
        .add(again)
        .launch(kTrilinear + std::string("ffEEviT0_S3_S3_") + kAccessors + "PSC_");
  };
  const Launch good = launch(1, 0x200, {2, 3, 4, 8, 15});
  EXPECT_THAT(offsets_of(good), ElementsAre(0, 4, 8, 12, 16, 24, 112, 200));
  const Decoded decoded = decode(good, nullptr);
  ASSERT_EQ(reason(decoded), "not refused");
  EXPECT_THAT(describe(std::get<Call>(decoded).outputs), ElementsAre("grad_input 512 f32 [2,3,2,4,5]"));
  EXPECT_EQ(std::get<Call>(decoded).facts.texts, (Texts{{"mode", "trilinear"}}));
  EXPECT_EQ(std::get<Call>(decoded).pointers.size(), 3u);
  EXPECT_THAT(reason(decode(launch(2, 0x200, {2, 3, 4, 8, 15}), nullptr)), HasSubstr("contiguous"));
  EXPECT_THAT(reason(decode(launch(1, 0x300, {2, 3, 4, 8, 15}), nullptr)), HasSubstr("contiguous"));
  EXPECT_THAT(reason(decode(launch(1, 0x200, {2, 2, 4, 8, 15}), nullptr)), HasSubstr("channels"));
  EXPECT_NE(reason(decode(launch(1, 0x200, {2, 3, 4, 0, 15}), nullptr)), "not refused");
}

template <class Index>
TensorInfo<Index> info(uint64_t data, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  TensorInfo<Index> made{};
  made.data = data;
  made.dims = static_cast<int32_t>(sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    made.sizes[i] = static_cast<Index>(sizes[i]);
    made.strides[i] = static_cast<Index>(strides[i]);
  }
  return made;
}

// sum [7,5] and source [20,5], both indexed along dimension 0.
struct IndexAdd {
  int32_t sum_dim = 0, source_dim = 0;
  std::vector<int64_t> source_sizes{1, 5}, source_strides{5, 1};
  int64_t rows = 7, count = 20, slice = 5, elements = 35;
  float alpha = 1;

  template <class Index>
  Launch launch(bool large) const {
    Packer packer;
    packer.add(info<Index>(0x300, {1, 5}, {5, 1})).add(info<Index>(0x200, source_sizes, source_strides));
    packer.add(info<Index>(0x100, {count}, {1})).add(sum_dim).add(source_dim);
    packer.add(static_cast<Index>(large ? slice * count : slice));
    if (large) packer.add(static_cast<Index>(slice));
    const std::string wide = sizeof(Index) == 8 ? "m" : "j",
                      in = "44_GLOBAL__N__50c743a2_11_Indexing_cu_89862edb9ReduceAddEEE";
    return packer.add(rows)
        .add(elements)
        .add(uint64_t{0x900})
        .add(alpha)
        .launch(large ? "_ZN2at6native19indexFuncLargeIndexIfl" + wide + "Li2ELi2ELin2ELb1ENS0_" + in +
                            "vNS_4cuda6detail10TensorInfoIT_T1_EENS6_IKS7_S8_EENS6_IKT0_S8_EEiiS8_S8_llRKT6_S7_"
                      : "_ZN2at6native19indexFuncSmallIndexIfl" + wide + "Li2ELi2ELin2ENS0_" + in +
                            "vNS_4cuda6detail10TensorInfoIT_T1_EENS6_IKS7_S8_EENS6_IKT0_S8_EEiiS8_llRKT5_S7_");
  }
  std::string refused() const { return reason(decode(launch<int32_t>(true), nullptr)); }
};

TEST(IndexAdd, TensorsAndFacts) {
  const Launch large = IndexAdd().launch<int32_t>(true), small = IndexAdd().launch<int32_t>(false),
               wide = IndexAdd().launch<int64_t>(true);
  EXPECT_THAT(offsets_of(large), ElementsAre(0, 216, 432, 648, 652, 656, 660, 664, 672, 680, 688));  // as in the image
  EXPECT_THAT(offsets_of(small), ElementsAre(0, 216, 432, 648, 652, 656, 664, 672, 680, 688));
  EXPECT_THAT(offsets_of(wide), ElementsAre(0, 416, 832, 1248, 1252, 1256, 1264, 1272, 1280, 1288, 1296));
  for (const Launch& launch : {large, small, wide}) {
    EXPECT_EQ(adapter_for(launch.kernel)->name(), "index_add");
    const Decoded decoded = decode(launch, nullptr);
    ASSERT_EQ(reason(decoded), "not refused");
    const Call& call = std::get<Call>(decoded);
    EXPECT_THAT(describe(call.inputs), ElementsAre("index 256 i64 [20]", "source 512 f32 [20,5]"));
    EXPECT_THAT(describe(call.outputs), ElementsAre("sum 768 f32 [7,5]"));
    EXPECT_EQ(call.facts.texts, (Texts{{"reduce", "sum"}}));
    EXPECT_EQ(call.facts.integers, (Integers{{"dim", 0}, {"dim_size", 7}}));
    EXPECT_EQ(call.pointers.size(), 3u);  // `op` points to the host
  }
  EXPECT_EQ(std::get<LaunchShape>(adapter_for(large.kernel)->with_block(large, 32)).grid[0], 4u);  // of 100
  EXPECT_EQ(std::get<LaunchShape>(adapter_for(small.kernel)->with_block(small, 2)).grid[0], 3u);   // of 5
  Launch largest = large;                                                                          // another reduction
  largest.kernel.replace(largest.kernel.find("9ReduceAdd"), 10, "13ReduceMaximum");
  EXPECT_EQ(reason(decode(largest, nullptr)), "no adapter");
}

TEST(IndexAdd, Refusals) {
  IndexAdd call;
  call.alpha = 2;
  EXPECT_THAT(call.refused(), HasSubstr("alpha"));
  call = {};
  call.source_dim = 1;
  EXPECT_THAT(call.refused(), HasSubstr("indexed"));
  call = {};
  call.source_sizes = {1, 5, 1};
  call.source_strides = {5, 1, 1};
  EXPECT_THAT(call.refused(), HasSubstr("different dimensions"));
  call = {};
  call.slice = 6;
  EXPECT_THAT(call.refused(), HasSubstr("contradict"));
  call = {};
  call.elements = 36;
  EXPECT_THAT(call.refused(), HasSubstr("contradict"));
  call = {};
  call.rows = 0;
  EXPECT_NE(call.refused(), "not refused");
  call = {};
  call.source_strides = {-5, 1};
  EXPECT_NE(call.refused(), "not refused");
  Launch fewer = IndexAdd().launch<int32_t>(true);
  fewer.parameters.pop_back();
  EXPECT_THAT(reason(decode(fewer, nullptr)), HasSubstr("11"));
}

// source [3,20,4] into sum [3,7,4] along dimension 1; the iterator has merged nothing.
struct ScatterAdd {
  struct Axis {
    uint32_t size, sum, source, index;  // strides in bytes
  };
  std::vector<Axis> axes{{4, 4, 4, 8}, {20, 0, 16, 32}, {3, 112, 320, 640}};
  int64_t rows = 7, stride = 4;
  int32_t n = 240;

  Launch launch(const std::string& reduce = "9ReduceAdd") const {
    struct Loop {
      OffsetCalculator<3> offsets{};
      uint64_t index = 0x100;
      int64_t rows = 0;
      uint8_t reduce = 0x5a;
      uint64_t sum = 0x300;
      int64_t stride = 0, elements = 84;
      uint64_t source = 0x200;
    } loop;
    loop.offsets.dims = static_cast<int32_t>(axes.size());
    for (size_t i = 0; i < axes.size(); ++i) {
      loop.offsets.sizes[i] = {axes[i].size, 1, 0};
      loop.offsets.strides[i] = {axes[i].sum, axes[i].source, axes[i].index};
    }
    loop.rows = rows;
    loop.stride = stride;
    return Packer().add(n).add(loop).launch(
        "_ZN2at6native34_scatter_gather_elementwise_kernelILi128ELi8EZNS0_36_cuda_scatter_gather_internal_"
        "kernelILb1EflEclINS0_" +
        reduce + "EEEvRNS_14TensorIteratorElllRKT_EUliE_EEviT1_");
  }
  std::string refused() const { return reason(decode(launch(), nullptr)); }
};

TEST(ScatterAdd, TensorsAndFacts) {
  const Launch launch = ScatterAdd().launch();
  EXPECT_EQ(launch.parameters[1].offset, 8u);
  EXPECT_EQ(launch.parameters[1].size, 664u);
  for (const char* reduce : {"9ReduceAdd", "10ReduceMean"}) {
    const Decoded decoded = decode(ScatterAdd().launch(reduce), nullptr);
    ASSERT_EQ(reason(decoded), "not refused");
    const Call& call = std::get<Call>(decoded);
    EXPECT_THAT(describe(call.inputs), ElementsAre("index 256 i64 [3,20,4]", "source 512 f32 [3,20,4]"));
    EXPECT_THAT(describe(call.outputs), ElementsAre("sum 768 f32 [3,7,4]"));
    EXPECT_EQ(call.facts.integers, (Integers{{"dim", 1}, {"dim_size", 7}}));
    EXPECT_EQ(pointers_of(call), (std::map<uint64_t, std::string>{
                                     {8 + 608, "inputs/index"}, {8 + 632, "outputs/sum"}, {8 + 656, "inputs/source"}}));
  }
  EXPECT_EQ(reason(decode(ScatterAdd().launch("14ReduceMultiply"), nullptr)), "no adapter");
}

TEST(ScatterAdd, AnIndexForEachRow) {
  ScatterAdd call;  // index.expand_as(source), as graph networks have it
  call.axes = {{5, 4, 4, 0}, {20, 0, 20, 8}};
  call.stride = 5;
  call.n = 100;
  const Decoded decoded = decode(call.launch(), nullptr);
  ASSERT_EQ(reason(decoded), "not refused");
  EXPECT_THAT(describe(std::get<Call>(decoded).inputs), ElementsAre("index 256 i64 [20]", "source 512 f32 [20,5]"));
  EXPECT_THAT(describe(std::get<Call>(decoded).outputs), ElementsAre("sum 768 f32 [7,5]"));
}

TEST(ScatterAdd, OneIndex) {
  ScatterAdd call;  // along a dimension of one index, which the iterator leaves out
  call.axes = {{5, 4, 4, 8}};
  call.stride = 5;
  call.n = 5;
  const Decoded decoded = decode(call.launch(), nullptr);
  ASSERT_EQ(reason(decoded), "not refused");
  EXPECT_THAT(describe(std::get<Call>(decoded).outputs), ElementsAre("sum 768 f32 [7,5]"));
  EXPECT_THAT(describe(std::get<Call>(decoded).inputs),
              ElementsAre("index 256 i64 [1,5]", testing::StartsWith("source 512 f32 [1,5]")));
}

TEST(ScatterAdd, Refusals) {
  ScatterAdd call;
  call.axes[0].sum = 0;
  EXPECT_THAT(call.refused(), HasSubstr("no stride"));
  call = {};
  call.axes[2].source = 321;
  EXPECT_THAT(call.refused(), HasSubstr("multiples"));
  call = {};
  call.n = 241;
  EXPECT_THAT(call.refused(), HasSubstr("n is 241"));
  call = {};
  call.rows = 0;
  EXPECT_THAT(call.refused(), HasSubstr("rows"));
  call = {};
  call.axes[1].size = 0;
  EXPECT_NE(call.refused(), "not refused");
  call = {};
  call.axes.resize(9, {1, 4, 4, 8});
  EXPECT_THAT(call.refused(), HasSubstr("dimensions"));
  Launch broken = ScatterAdd().launch();
  const int32_t negative = -1;
  std::memcpy(&broken.bytes[8], &negative, sizeof negative);
  EXPECT_THAT(reason(decode(broken, nullptr)), HasSubstr("dimensions"));
}

// Whether the next launch with the same parameters may be recorded.
bool of_this_launch(const Decoded& decoded) {
  const auto* refusal = std::get_if<Refusal>(&decoded);
  return refusal != nullptr && refusal->of_this_launch;
}

// Device memory that holds one array.
template <class Number>
ReadDevice holding(uint64_t address, const std::vector<Number>& numbers) {
  return [=](uint64_t from, void* to, size_t bytes) {
    if (from < address || from + bytes > address + numbers.size() * sizeof(Number)) return false;
    std::memcpy(to, reinterpret_cast<const char*>(numbers.data()) + (from - address), bytes);
    return true;
  };
}

Launch embedding_launch(int32_t count, int32_t padding) {
  return Packer()
      .add(uint64_t{0x100})
      .add(uint64_t{0x2000})
      .add(uint64_t{0x3000})
      .add(count)
      .add(int64_t{16})
      .add(padding)
      .launch(
          "_ZN2at6native45_GLOBAL__N__83039fe0_12_Embedding_cu_9c8c8d3a33embedding_backward_feature_"
          "kernelIN3c104HalfEflEEvPKT1_PKT_PS8_ili");
}

TEST(Embedding, RowsUpToTheLargestIndex) {
  const auto memory = holding<int64_t>(0x100, {3, 1, 11, 3});
  const Launch launch = embedding_launch(4, -1);
  EXPECT_THAT(offsets_of(launch), ElementsAre(0, 8, 16, 24, 32, 40));
  const Decoded decoded = decode(launch, memory);
  ASSERT_EQ(reason(decoded), "not refused");
  const Call& call = std::get<Call>(decoded);
  EXPECT_THAT(describe(call.inputs), ElementsAre("index 256 i64 [4]", "source 8192 f16 [4,16]"));
  EXPECT_THAT(describe(call.outputs), ElementsAre("sum 12288 f16 [12,16]"));
  EXPECT_EQ(call.facts.integers, (Integers{{"dim", 0}, {"dim_size", 12}}));
  EXPECT_EQ(std::get<Call>(decode(embedding_launch(4, 3), memory)).facts.integers.at("padding_idx"), 3);
  EXPECT_TRUE(call.reads_data);
}

TEST(Embedding, Refusals) {
  const auto memory = holding<int64_t>(0x100, {3, -1, 11, 3});
  EXPECT_THAT(reason(decode(embedding_launch(4, -1), memory)), HasSubstr("no row"));
  EXPECT_THAT(reason(decode(embedding_launch(4, -1), nullptr)), HasSubstr("cannot be read"));
  EXPECT_TRUE(of_this_launch(decode(embedding_launch(4, -1), memory)));
  EXPECT_FALSE(of_this_launch(decode(embedding_launch(4000, -1), memory)));
  EXPECT_THAT(
      reason(decode(embedding_launch(4, -1), holding<int64_t>(0x100, {1, 2, std::numeric_limits<int64_t>::max(), 1}))),
      HasSubstr("no row"));
  EXPECT_THAT(reason(decode(embedding_launch(4000, -1), memory)), HasSubstr("3072"));
  EXPECT_THAT(reason(decode(embedding_launch(0, -1), memory)), HasSubstr("3072"));
  Launch sorted;
  sorted.kernel = "_ZN2at6native59_GLOBAL__N__4b0cc4ca_26_EmbeddingBackwardKernel_cu_5d1cf09b19compute_grad_weightIfl";
  EXPECT_THAT(reason(decode(sorted, memory)), HasSubstr("several launches"));
}

Launch index_put_launch(int64_t sum_outer, int64_t outer, uint8_t accumulate = 1) {
  return Packer()
      .add(uint64_t{0x100})
      .add(uint64_t{0x200})
      .add(uint64_t{0x3000})
      .add(uint64_t{0x4000})
      .add(int64_t{4})
      .add(int64_t{8})
      .add(sum_outer)
      .add(outer)
      .add(accumulate)
      .launch(
          "_ZN44_GLOBAL__N__50c743a2_11_Indexing_cu_89862edb24indexing_backward_kernelIfLi4EEEvPKlS2_PKT_PS3_llllb");
}

TEST(IndexPut, SortedIndicesAndTheirRows) {
  const auto memory = holding<int64_t>(0x100, {1, 1, 3, 9});
  const Launch launch = index_put_launch(0, 1);
  EXPECT_THAT(offsets_of(launch), ElementsAre(0, 8, 16, 24, 32, 40, 48, 56, 64));
  const Decoded decoded = decode(launch, memory);
  ASSERT_EQ(reason(decoded), "not refused");
  const Call& call = std::get<Call>(decoded);
  EXPECT_THAT(describe(call.inputs),
              ElementsAre("index 256 i64 [4]", "source_row 512 i64 [4]", "source 12288 f32 [4,8]"));
  EXPECT_THAT(describe(call.outputs), ElementsAre("sum 16384 f32 [10,8]"));
  EXPECT_TRUE(call.reads_data);
  const Decoded outer = decode(index_put_launch(80, 3), nullptr);
  EXPECT_FALSE(std::get<Call>(outer).reads_data);
  ASSERT_EQ(reason(outer), "not refused");
  EXPECT_THAT(describe(std::get<Call>(outer).outputs), ElementsAre("sum 16384 f32 [3,10,8]"));
  EXPECT_EQ(std::get<Call>(outer).facts.integers, (Integers{{"dim", 1}, {"dim_size", 10}}));
}

TEST(IndexPut, Refusals) {
  const auto memory = holding<int64_t>(0x100, {-3, -2, -2, -1});
  EXPECT_THAT(reason(decode(index_put_launch(0, 1), memory)), HasSubstr("rows"));
  EXPECT_THAT(reason(decode(index_put_launch(0, 1), nullptr)), HasSubstr("rows"));
  EXPECT_TRUE(of_this_launch(decode(index_put_launch(0, 1), memory)));
  EXPECT_FALSE(of_this_launch(decode(index_put_launch(81, 3), memory)));
  EXPECT_THAT(reason(decode(index_put_launch(81, 3), memory)), HasSubstr("rows"));
  EXPECT_THAT(reason(decode(index_put_launch(80, 3, 0), memory)), HasSubstr("accumulate"));
  EXPECT_NE(reason(decode(index_put_launch(80, 0), memory)), "not refused");
}

}  // namespace
}  // namespace msda::adapters
