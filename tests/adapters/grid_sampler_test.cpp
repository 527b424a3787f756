// PyTorch's grid_sampler_2d_backward_kernel and grid_sampler_3d_backward_kernel, from parameters laid out byte by byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "tests/adapters/launches.h"

namespace msda::adapters {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Names as PyTorch 2.15 for CUDA 13.2 registers them with the driver, of the kernel of so many axes.
std::string mangled_sampler(int axes, const std::string& type, char index) {
  const bool half = type.size() > 1;  // c10 and the type itself are two more substitutions
  const std::string n = half ? "S5_" : "S3_", constant = half ? "SB_" : "S9_", info = half ? "S8_" : "S6_",
                    t = half ? "S9_" : "S7_", plain = half ? "SC_" : "SA_", detail = half ? "SD_" : "SB_";
  return "_ZN2at6native47_GLOBAL__N__035bd546_14_GridSampler_cu_23dc5aa531grid_sampler_" + std::to_string(axes) +
         "d_backward_kernelI" + type + index + "EEvT0_NS_4cuda6detail10TensorInfoIKT_" + n + "EE" + constant +
         constant + "N" + info.substr(0, 3) + "I" + t + n + "EE" + plain + "NS0_6detail24GridSamplerInterpolationEN" +
         detail + "18GridSamplerPaddingEb" + n + "b";
}
constexpr char kFloat[] =
    "_ZN2at6native47_GLOBAL__N__035bd546_14_GridSampler_cu_23dc5aa531grid_sampler_2d_backward_kernelIfiEEvT0_NS_"
    "4cuda6detail10TensorInfoIKT_S3_EES9_S9_NS6_IS7_S3_EESA_NS0_6detail24GridSamplerInterpolationENSB_"
    "18GridSamplerPaddingEbS3_b";
constexpr char kBFloat16[] =
    "_ZN2at6native47_GLOBAL__N__035bd546_14_GridSampler_cu_23dc5aa531grid_sampler_2d_backward_kernelIN3c108BFloat16ElEE"
    "vT0_NS_4cuda6detail10TensorInfoIKT_S5_EESB_SB_NS8_IS9_S5_EESC_NS0_6detail24GridSamplerInterpolationENSD_"
    "18GridSamplerPaddingEbS5_b";

using Shape = std::vector<int64_t>;

Shape row_major(const Shape& sizes) {
  Shape strides(sizes.size(), 1);
  for (size_t i = sizes.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * sizes[i + 1];
  return strides;
}

// "[2,3,4,5]"
std::string text(const Shape& sizes) {
  std::string words;
  for (const int64_t size : sizes) words += (words.empty() ? "[" : ",") + std::to_string(size);
  return words + "]";
}

// The parameters written at the offsets that the CUDA ABI gives them, without any struct of ours. `wide`: int64
// indices.
struct GridSampler {
  struct Tensor {
    Tensor(uint64_t at, const Shape& shape)
        : data(at), sizes(shape), strides(row_major(shape)), dims(static_cast<int32_t>(shape.size())) {}
    uint64_t data;
    Shape sizes, strides;
    int32_t dims;
  };

  // 2 batches of 3 channels: 4 x 5 pixels and 6 x 7 samples, in 3D 8 x 4 x 5 and 9 x 6 x 7.
  explicit GridSampler(int axes_count, bool int64_indices = false)
      : axes(axes_count),
        wide(int64_indices),
        n(axes == 2 ? 2 * 6 * 7 : 2 * 9 * 6 * 7),
        span(axes == 2 ? 2 * 3 * 4 * 5 : 2 * 3 * 8 * 4 * 5),
        grad_output(0x100, axes == 2 ? Shape{2, 3, 6, 7} : Shape{2, 3, 9, 6, 7}),
        input(0x200, axes == 2 ? Shape{2, 3, 4, 5} : Shape{2, 3, 8, 4, 5}),
        grid(0x300, axes == 2 ? Shape{2, 6, 7, 2} : Shape{2, 9, 6, 7, 3}),
        grad_input(0x400, input.sizes),
        grad_grid(0x500, grid.sizes) {}

  int axes;
  bool wide;
  int64_t n, span;
  Tensor grad_output, input, grid, grad_input, grad_grid;
  int32_t interpolation = 0, padding = 0;
  uint8_t align_corners = 0, input_requires_grad = 1;

  std::string symbol() const { return mangled_sampler(axes, "f", wide ? 'l' : 'i'); }
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
  Decoded decoded() const { return decode(launch(symbol()), nullptr); }
  std::string reason() const { return adapters::reason(decoded()); }
};
constexpr std::array kTensors{&GridSampler::grad_output, &GridSampler::input, &GridSampler::grid,
                              &GridSampler::grad_input, &GridSampler::grad_grid};

// The name of the kernel with so many axes.
class GridSamplerOf : public testing::TestWithParam<int> {
 protected:
  int axes() const { return GetParam(); }
  size_t dims() const { return static_cast<size_t>(axes()) + 2; }
  GridSampler good(bool wide = false) const { return GridSampler(axes(), wide); }
};
INSTANTIATE_TEST_SUITE_P(Axes, GridSamplerOf, testing::Values(2, 3), testing::PrintToStringParamName());

TEST_P(GridSamplerOf, EveryTensorOfEveryType) {
  EXPECT_EQ(mangled_sampler(2, "f", 'i'), kFloat);
  EXPECT_EQ(mangled_sampler(2, "N3c108BFloat16E", 'l'), kBFloat16);
  EXPECT_EQ(good().launch("").bytes.size(), 1105u);
  const std::map<std::string, std::string> types{
      {"f", "f32"}, {"d", "f64"}, {"N3c104HalfE", "f16"}, {"N3c108BFloat16E", "bf16"}};
  const std::string input = axes() == 2 ? " [2,3,4,5]" : " [2,3,8,4,5]",
                    grid = axes() == 2 ? " [2,6,7,2]" : " [2,9,6,7,3]",
                    output = axes() == 2 ? " [2,3,6,7]" : " [2,3,9,6,7]";
  for (const auto& [type, t] : types) {
    for (const bool wide : {false, true}) {
      const std::string kernel = mangled_sampler(axes(), type, wide ? 'l' : 'i');
      SCOPED_TRACE(kernel);
      ASSERT_NE(adapter_for(kernel), nullptr);
      EXPECT_EQ(adapter_for(kernel)->name(), axes() == 2 ? "grid_sampler_2d" : "grid_sampler_3d");
      const Decoded decoded = decode(good(wide).launch(kernel), nullptr);
      ASSERT_EQ(reason(decoded), "not refused");
      const Call& call = std::get<Call>(decoded);
      EXPECT_EQ(call.dialect, std::nullopt);
      EXPECT_EQ(call.padding, std::nullopt);
      EXPECT_THAT(describe(call.inputs),
                  ElementsAre("grad_output 256 " + t + output, "input 512 " + t + input, "grid 768 " + t + grid));
      EXPECT_THAT(describe(call.outputs), ElementsAre("grad_input 1024 " + t + input, "grad_grid 1280 " + t + grid));
      EXPECT_FALSE(call.outputs[0].written_over);
      EXPECT_TRUE(call.outputs[1].written_over);
    }
  }
}

TEST_P(GridSamplerOf, PointersAndBlocks) {
  for (const bool wide : {false, true}) {
    for (const bool needs_gradient : {true, false}) {
      GridSampler sampler = good(wide);
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
      const Launch launch = sampler.launch(sampler.symbol());
      const auto shape = std::get<LaunchShape>(adapter_for(launch.kernel)->with_block(launch, 32));
      EXPECT_EQ(shape.grid[0], axes() == 2 ? 3u : 24u);  // of 84 threads, or 756
      EXPECT_EQ(shape.block[0], 32u);
    }
  }
}

TEST_P(GridSamplerOf, ModesInWords) {
  const std::vector<std::string> interpolations{"bilinear", "nearest", "bicubic"},
      paddings{"zeros", "border", "reflection"};
  const int known = axes() == 2 ? 3 : 2;  // PyTorch refuses bicubic in 3D
  for (int32_t i = 0; i < 3 * known; ++i) {
    GridSampler sampler = good();
    sampler.interpolation = i / 3;
    sampler.padding = i % 3;
    sampler.align_corners = static_cast<uint8_t>(i % 2);
    const Decoded decoded = sampler.decoded();
    ASSERT_EQ(reason(decoded), "not refused");
    const Call& call = std::get<Call>(decoded);
    EXPECT_EQ(call.facts.texts.at("interpolation"), interpolations[i / 3]);
    EXPECT_EQ(call.facts.texts.at("padding_mode"), paddings[i % 3]);
    EXPECT_EQ(call.facts.flags.at("align_corners"), i % 2 == 1);
  }
  for (const int32_t unknown : {-1, known, 3}) {
    GridSampler grid_sampler = good();
    grid_sampler.interpolation = unknown;
    EXPECT_THAT(grid_sampler.reason(), HasSubstr("is not known"));
  }
  for (const int32_t unknown : {-1, 3}) {
    GridSampler grid_sampler = good();
    grid_sampler.padding = unknown;
    EXPECT_THAT(grid_sampler.reason(), HasSubstr("is not known"));
  }
  GridSampler flags = good();
  flags.align_corners = 2;
  EXPECT_THAT(flags.reason(), HasSubstr("bool"));
  flags = good();
  flags.input_requires_grad = 0xAB;
  EXPECT_THAT(flags.reason(), HasSubstr("bool"));
}

TEST_P(GridSamplerOf, WithoutGradientOfTheInput) {
  for (const bool wide : {false, true}) {
    GridSampler sampler = good(wide);
    sampler.input_requires_grad = 0;
    sampler.grad_input.data = 0;  // TensorInfo()
    sampler.grad_input.sizes = sampler.grad_input.strides = {};
    sampler.grad_input.dims = 0;
    sampler.span = 0;
    const Decoded decoded = sampler.decoded();
    ASSERT_EQ(reason(decoded), "not refused");
    EXPECT_THAT(describe(std::get<Call>(decoded).outputs),
                ElementsAre(axes() == 2 ? "grad_grid 1280 f32 [2,6,7,2]" : "grad_grid 1280 f32 [2,9,6,7,3]"));
    sampler.input_requires_grad = 1;
    EXPECT_THAT(sampler.reason(), HasSubstr("grad_input has 0 dimensions"));
  }
}

// channels_last inputs, and a grad_output that was expanded from a scalar.
TEST_P(GridSamplerOf, Strides) {
  GridSampler strided = good();
  strided.input.strides = axes() == 2 ? Shape{60, 1, 15, 3} : Shape{480, 1, 60, 15, 3};
  strided.grad_output.strides.assign(dims(), 0);
  const Decoded decoded = strided.decoded();
  ASSERT_EQ(reason(decoded), "not refused");
  const Call& call = std::get<Call>(decoded);
  const bool flat = axes() == 2;
  EXPECT_THAT(describe(call.inputs), ElementsAre(flat ? "grad_output 256 f32 [2,3,6,7] strides [0,0,0,0]"
                                                      : "grad_output 256 f32 [2,3,9,6,7] strides [0,0,0,0,0]",
                                                 flat ? "input 512 f32 [2,3,4,5] strides [60,1,15,3]"
                                                      : "input 512 f32 [2,3,8,4,5] strides [480,1,60,15,3]",
                                                 flat ? "grid 768 f32 [2,6,7,2]" : "grid 768 f32 [2,9,6,7,3]"));
  EXPECT_EQ(call.inputs[0].bytes(), 4);
  EXPECT_EQ(call.inputs[1].bytes(), strided.span * 4);
  for (const auto tensor : kTensors) {
    for (size_t i = 0; i < dims(); ++i) {
      GridSampler negative = good();
      (negative.*tensor).strides[i] = -1;
      EXPECT_THAT(negative.reason(), HasSubstr("negative stride"));
    }
  }
}

TEST_P(GridSamplerOf, StrideOfASizeOfOneHasNoMeaning) {
  GridSampler grid_sampler = good();
  grid_sampler.n /= 2;
  grid_sampler.span /= 2;
  for (const auto tensor : kTensors) {
    (grid_sampler.*tensor).sizes[0] = 1;
    (grid_sampler.*tensor).strides[0] = 12345;
  }
  const Decoded decoded = grid_sampler.decoded();
  ASSERT_EQ(reason(decoded), "not refused");
  EXPECT_THAT(describe(std::get<Call>(decoded).outputs),
              ElementsAre("grad_input 1024 f32 " + text(grid_sampler.input.sizes),
                          "grad_grid 1280 f32 " + text(grid_sampler.grid.sizes)));
}

// The kernel steps through grad_grid by one stride only, even if there is only one column.
TEST_P(GridSamplerOf, GradientOfTheGridIsContiguous) {
  for (size_t i = 0; i < dims(); ++i) {
    GridSampler scattered = good();
    scattered.grad_grid.strides[i] += 1;
    EXPECT_THAT(scattered.reason(), HasSubstr("grad_grid is not contiguous")) << i;
  }
  GridSampler column = good();
  const size_t last = dims() - 2;  // the columns of the grid
  column.n /= 7;
  column.grad_output.sizes[last + 1] = column.grid.sizes[last] = column.grad_grid.sizes[last] = 1;
  for (const auto tensor : {&GridSampler::grad_output, &GridSampler::grid, &GridSampler::grad_grid}) {
    (column.*tensor).strides = row_major((column.*tensor).sizes);
  }
  EXPECT_EQ(column.grad_grid.strides[last], axes());
  EXPECT_EQ(column.reason(), "not refused");
  for (const int64_t stride : {1, 5 - axes(), 14}) {  // 5 - axes: right for the other kernel
    column.grad_grid.strides[last] = stride;
    EXPECT_THAT(column.reason(), HasSubstr("grad_grid is not contiguous")) << stride;
  }
}

TEST_P(GridSamplerOf, SizesThatCannotBeAreRefused) {
  for (const auto tensor : kTensors) {
    for (size_t i = 0; i < dims(); ++i) {
      for (const bool wide : {false, true}) {
        GridSampler grid_sampler = good(wide);
        (grid_sampler.*tensor).sizes[i] += 1;
        EXPECT_THAT(grid_sampler.reason(), testing::AnyOf(HasSubstr(", not ["), HasSubstr("n is"), HasSubstr("spans"),
                                                          HasSubstr("not contiguous")))
            << i;
        for (const int64_t size : {int64_t{0}, int64_t{-1}, int64_t{std::numeric_limits<int32_t>::min()}}) {
          (grid_sampler.*tensor).sizes[i] = size;
          EXPECT_THAT(grid_sampler.reason(), HasSubstr("not positive"));
        }
      }
    }
    GridSampler grid_sampler = good();
    (grid_sampler.*tensor).data = 0;
    EXPECT_THAT(grid_sampler.reason(), HasSubstr("null pointer"));
    for (const int32_t dims_told :
         {0, 3, 9 - static_cast<int32_t>(dims()), 25, -1, std::numeric_limits<int32_t>::max()}) {
      grid_sampler = good();
      (grid_sampler.*tensor).dims = dims_told;
      EXPECT_THAT(grid_sampler.reason(), HasSubstr("dimensions, not " + std::to_string(dims())));
    }
  }
  // Coordinates of the other kernel, in a grid and its gradient that agree.
  GridSampler coordinates = good();
  for (const auto tensor : {&GridSampler::grid, &GridSampler::grad_grid}) {
    (coordinates.*tensor).sizes.back() = 5 - axes();
    (coordinates.*tensor).strides = row_major((coordinates.*tensor).sizes);
  }
  EXPECT_THAT(coordinates.reason(), HasSubstr("grid is [2,"));
  GridSampler grid_sampler = good();
  for (const int64_t n : {int64_t{0}, grid_sampler.n - 1, grid_sampler.n + 1, -grid_sampler.n}) {
    grid_sampler.n = n;
    EXPECT_THAT(grid_sampler.reason(), HasSubstr(axes() == 2 ? "not N*H*W of" : "not N*D*H*W of"));
  }
  grid_sampler = good();
  grid_sampler.span -= 1;
  EXPECT_THAT(grid_sampler.reason(), HasSubstr(axes() == 2 ? "spans 119" : "spans 959"));
}

TEST_P(GridSamplerOf, OverflowIsRefused) {
  GridSampler large = good(true);
  large.input.sizes[dims() - 2] = large.input.sizes[dims() - 1] = int64_t{1} << 40;
  EXPECT_THAT(large.reason(), HasSubstr("too large"));
  large = good(true);
  large.input.strides[0] = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(large.reason(), HasSubstr("too large"));
  large = good(true);
  large.input.strides[1] = int64_t{1} << 62;  // twice this overflows to a negative number
  EXPECT_THAT(large.reason(), HasSubstr("too large"));
  large.input.strides[0] = large.input.strides[1] = int64_t{1} << 61;  // each fits, their sum in bytes does not
  EXPECT_THAT(large.reason(), HasSubstr("too large"));
}

TEST_P(GridSamplerOf, OtherLayoutsAreRefused) {
  const Launch launched = good().launch(good().symbol());
  for (size_t i = 0; i < launched.parameters.size(); ++i) {
    Launch launch = launched;
    launch.parameters[i].size += 8;
    EXPECT_THAT(reason(decode(launch, nullptr)), HasSubstr("not the 11")) << i;
    launch = launched;
    launch.parameters[i].offset += 4;
    EXPECT_THAT(reason(decode(launch, nullptr)), HasSubstr("not the 11")) << i;
    launch = launched;
    launch.parameters.resize(i);
    EXPECT_THAT(reason(decode(launch, nullptr)), testing::AnyOf(HasSubstr("not the 11"), HasSubstr("unknown size")));
  }
  for (size_t size = 0; size < launched.bytes.size(); size += 51) {
    Launch launch = launched;
    launch.bytes.resize(size);
    EXPECT_THAT(reason(decode(launch, nullptr)), HasSubstr("not the 11"));
  }
  // The wide layout under the narrow name, and vice versa; the tensors of the other kernel.
  EXPECT_THAT(reason(decode(good(true).launch(good().symbol()), nullptr)), HasSubstr("not the 11"));
  EXPECT_THAT(reason(decode(good().launch(good(true).symbol()), nullptr)), HasSubstr("not the 11"));
  const GridSampler grid_sampler(5 - axes());
  EXPECT_THAT(reason(decode(grid_sampler.launch(good().symbol()), nullptr)), HasSubstr("dimensions, not"));
}

TEST_P(GridSamplerOf, OtherNamesAreRefused) {
  const auto refusal = [&](const std::string& kernel) { return reason(decode(good().launch(kernel), nullptr)); };
  const std::string whole = good().symbol(),
                    older = "_ZN2at6native12_GLOBAL__N_131grid_sampler_" + std::to_string(axes()) +
                            "d_backward_kernelIfiEEvT0_NS_4cuda6detail10TensorInfoIT_S3_EES7_S7_S7_S7_"
                            "NS0_6detail24GridSamplerInterpolationENS8_18GridSamplerPaddingEb";
  EXPECT_THAT(refusal(mangled_sampler(axes(), "6__half", 'i')), HasSubstr("element type"));
  EXPECT_THAT(refusal(mangled_sampler(axes(), "f", 'j')), HasSubstr("index type"));
  EXPECT_THAT(refusal(whole + "b"), HasSubstr("other parameters"));
  // The layout before input_requires_grad and span existed.
  EXPECT_THAT(refusal(older), HasSubstr("other parameters"));
  // PyTorch before the inputs were const.
  EXPECT_EQ(refusal(older + "S3_b"), "not refused");
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(refusal(whole.substr(0, size)), "not refused") << size;
  }
  // Neither the forward kernel nor one of four dimensions.
  EXPECT_EQ(adapter_for("_ZN2at6native12_GLOBAL__N_122grid_sampler_3d_kernelIfiEEvT0_"), nullptr);
  EXPECT_EQ(adapter_for("_ZN2at6native12_GLOBAL__N_131grid_sampler_4d_backward_kernelIfiEEvT0_"), nullptr);
}

}  // namespace
}  // namespace msda::adapters
