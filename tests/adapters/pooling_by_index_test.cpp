// The adapters of max pooling, which are data: launches of PyTorch 2.11's kernels, laid out as in its image for sm_90,
// are calls of scatter_add.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>

#include "tests/adapters/launches.h"

namespace msda::adapters {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Launch max_launch(Packer& packer, const std::string& name, std::array<uint32_t, 3> grid = {1, 1, 1}) {
  Launch launch = packer.launch("_ZN2at6native52_GLOBAL__N__e57809e0_19_DilatedMaxPool2d_cu_6258b574" + name);
  launch.grid = grid;
  launch.block = {32, 8, 1};
  return launch;
}

void expect_scatter(const Launch& launch, const std::string& adapter, const std::string& source,
                    const std::string& index, const std::string& sum, int64_t dim, int64_t size) {
  const Decoded decoded = decode(launch, nullptr);
  ASSERT_EQ(reason(decoded), "not refused") << adapter;
  const Call& call = std::get<Call>(decoded);
  EXPECT_EQ(call.facts.texts.at("adapter"), adapter);
  EXPECT_EQ(call.facts.texts.at("reduce"), "sum");
  EXPECT_FALSE(call.facts.texts.contains("operator"));
  EXPECT_EQ(call.facts.integers.at("dim"), dim);
  EXPECT_EQ(call.facts.integers.at("dim_size"), size);
  EXPECT_THAT(describe(call.inputs), ElementsAre(source, index));
  EXPECT_THAT(describe(call.outputs), ElementsAre(sum));
}

// Images [2,3,9,8] are pooled to [2,3,5,4].
TEST(MaxPooling, TwoDimensions) {
  Packer plain;
  plain.add(uint64_t{0x100}).add(uint64_t{0x300});
  for (const int64_t number : {2, 3, 9, 8, 5, 4}) plain.add(number);
  for (const int32_t number : {3, 3, 2, 2, 1, 1, 1, 1}) plain.add(number);
  plain.add(uint64_t{0x200});
  expect_scatter(max_launch(plain, "22max_pool_backward_nchwIfflEEvPKT_PKlT1_S8_S8_S8_S8_S8_iiiiiiiiPS3_"),
                 "max_pool2d", "source 256 f32 [2,3,20]", "index 768 i64 [2,3,20]", "sum 512 f32 [2,3,72]", 2, 72);
  const auto nhwc = [](int32_t row_stride) {
    Packer packer;
    packer.add(uint64_t{0x100}).add(uint64_t{0x300}).add(int32_t{2});
    for (const int64_t number : {3, 9, 8}) packer.add(number);
    for (const int32_t number : {5, 4, 3, 3, 2, 2, 1, 1, 1, 1, 1, row_stride, 3, 1, 1}) packer.add(number);
    packer.add(uint64_t{0x200});
    return max_launch(packer, "22max_pool_backward_nhwcIN3c104HalfEfEEvPKT_PKlillliiiiiiiiiiiiiiiPS5_");
  };
  expect_scatter(nhwc(12), "max_pool2d_nhwc", "source 256 f16 [2,3,20] strides [60,1,3]",
                 "index 768 i64 [2,3,20] strides [60,1,3]", "sum 512 f16 [2,3,72] strides [216,1,3]", 2, 72);
  EXPECT_THAT(reason(decode(nhwc(13), nullptr)), HasSubstr("row_stride =="));
}

// Images [2,3,4,6,5] are pooled to [2,3,2,3,2].
TEST(MaxPooling, ThreeDimensions) {
  const auto launch = [](int32_t offset, uint8_t channels_last) {
    Packer packer;
    packer.add(uint64_t{0x200}).add(uint64_t{0x100}).add(uint64_t{0x300});
    for (const int32_t number : {3, 4, 6, 5, 2, 2, 3, 2, offset}) packer.add(number);
    packer.add(channels_last);
    return max_launch(packer, "49max_pool3d_with_indices_backward_single_out_frameIdEEvPT_PKS3_PKliiiiiiiiib",
                      {1, 1, 12});
  };
  expect_scatter(launch(0, 0), "max_pool3d", "source 256 f64 [2,3,12] strides [36,12,1]",
                 "index 768 i64 [2,3,12] strides [36,12,1]", "sum 512 f64 [2,3,120] strides [360,120,1]", 2, 120);
  expect_scatter(launch(0, 1), "max_pool3d", "source 256 f64 [2,3,12] strides [36,1,3]",
                 "index 768 i64 [2,3,12] strides [36,1,3]", "sum 512 f64 [2,3,120] strides [360,1,3]", 2, 120);
  EXPECT_THAT(reason(decode(launch(65535, 0), nullptr)), HasSubstr("offset == 0"));
}

TEST(MaxPooling, Adaptive) {
  for (const std::string name : {"20adaptivemaxgradinputI", "26atomicadaptivemaxgradinputI"}) {
    const std::string atomic = name[0] == '2' && name[1] == '6' ? "_atomic" : "";
    Packer two, three;
    for (Packer* packer : {&two, &three}) packer->add(uint64_t{0x200}).add(uint64_t{0x100}).add(uint64_t{0x300});
    for (const int32_t number : {9, 8, 4, 3}) two.add(number);
    for (const int32_t number : {5, 9, 8, 2, 4, 3}) three.add(number);
    three.add(int64_t{0});
    expect_scatter(max_launch(two, name + "fEEvPT_PKS3_PKliiii", {6, 2, 1}), "adaptive_max_pool2d" + atomic,
                   "source 256 f32 [6,12]", "index 768 i64 [6,12]", "sum 512 f32 [6,72]", 1, 72);
    const std::string type = "N3c108BFloat16EEEvPT_PKS5_PKliiiiiil";
    expect_scatter(max_launch(three, name + type, {12, 2, 1}), "adaptive_max_pool3d" + atomic, "source 256 bf16 [6,24]",
                   "index 768 i64 [6,24]", "sum 512 bf16 [6,360]", 1, 360);
    EXPECT_THAT(reason(decode(max_launch(three, name + type, {13, 2, 1}), nullptr)), HasSubstr("grid.x %"));
  }
}

TEST(MaxPooling, Fractional) {
  // A packed accessor: the data, sizes and strides, row-major but for a gap after each row.
  const auto accessor = [](uint64_t data, int64_t height, int64_t width, int64_t gap) {
    const int64_t row = width + gap, plane = height * row;
    return std::array<int64_t, 9>{static_cast<int64_t>(data), 2, 3, height, width, 3 * plane, plane, row, 1};
  };
  const auto launch = [&](int64_t gap) {
    Packer packer;
    packer.add(accessor(0x200, 9, 8, 0)).add(accessor(0x100, 4, 3, gap)).add(accessor(0x300, 4, 3, 0));
    return max_launch(packer, "45fractional_max_pool2d_backward_out_cuda_frameIfEEvN5torch10headeronly", {1, 3, 2});
  };
  expect_scatter(launch(0), "fractional_max_pool2d", "source 256 f32 [2,3,12] strides [36,12,1]",
                 "index 768 i64 [2,3,12] strides [36,12,1]", "sum 512 f32 [2,3,72] strides [216,72,1]", 2, 72);
  EXPECT_THAT(reason(decode(launch(1), nullptr)), HasSubstr("height_stride =="));
}

}  // namespace
}  // namespace msda::adapters
