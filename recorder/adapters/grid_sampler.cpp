// PyTorch's grid_sampler_2d_backward_kernel, which deformable attention written with grid_sample runs once a level. It
// is another operator's backward, so its tensors keep their own names:
//
//     kernel<T, index_t>(index_t n, TensorInfo grad_output, input, grid, grad_input, grad_grid, int interpolation,
//                        int padding, bool align_corners, index_t span, bool input_requires_grad)
//
// with n = N*H_out*W_out threads, and span the elements of grad_input, which is not touched unless
// input_requires_grad. After PyTorch's aten/src/ATen/native/cuda/GridSampler.cu, and cuda/detail/TensorInfo.cuh for the
// structs that it passes by value.
#include <array>
#include <string>
#include <string_view>

#include "recorder/adapters/decode.h"
#include "recorder/adapters/made_once.h"
#include "recorder/adapters/mangled.h"

namespace msda::adapters {
namespace {

constexpr std::string_view kIdentifier = "31grid_sampler_2d_backward_kernel";  // an identifier follows its length
constexpr std::array kInterpolations{"bilinear", "nearest", "bicubic"};
constexpr std::array kPaddings{"zeros", "border", "reflection"};

// at::cuda::detail::TensorInfo. Only the first `dims` sizes and strides are set.
template <class Index>
struct TensorInfo {
  uint64_t data;
  Index sizes[25], strides[25];
  int32_t dims;
};
static_assert(sizeof(TensorInfo<int32_t>) == 216 && sizeof(TensorInfo<int64_t>) == 416);

// Where each parameter stands in the list.
enum At : size_t {
  kN,
  kGradOutput,
  kInput,
  kGrid,
  kGradInput,
  kGradGrid,
  kInterpolation,
  kPadding,
  kAlignCorners,
  kSpan,
  kInputRequiresGrad
};

struct Signature {
  msda_dtype type;
  bool wide;  // index_t is int64
};

std::variant<Signature, Refusal> signature_of(std::string_view kernel) {
  const size_t at = kernel.find(kIdentifier);
  Mangled name(at == kernel.npos ? "" : kernel.substr(at + kIdentifier.size()));
  if (!kernel.starts_with("_Z") || !name.take("I")) return Refusal{"no kernel template of this name"};
  const auto type = name.take_element_type();
  if (!type) return Refusal{"an element type that is not known"};
  const bool wide = name.take("l");
  if (!wide && !name.take("i")) return Refusal{"an index type that is not known"};
  // The name need only tell the types; the launch tells the number and sizes of the parameters.
  const Refusal unknown_signature{"other parameters than the known kernels of this name have"};
  if (!name.take("EEvT0_NS_4cuda6detail10TensorInfoI") || !name.take_past("24GridSamplerInterpolation") ||
      !name.take_past("18GridSamplerPaddingEb") || name.take_seen().empty() || !name.take("b") || !name.empty()) {
    return unknown_signature;
  }
  return Signature{*type, wide};
}

// The tensor; without strides if it is row-major. Refused unless it has four dimensions and is valid.
template <class T>
std::variant<DeviceTensor, Refusal> tensor_of(const Launch& launch, size_t index, const char* name, msda_dtype type) {
  const auto info = parameter<TensorInfo<T>>(launch, index);
  if (info.dims != 4) return Refusal{std::string(name) + " has " + std::to_string(info.dims) + " dimensions, not 4"};
  DeviceTensor tensor{name, type, {info.sizes, info.sizes + 4}, info.data, {info.strides, info.strides + 4}};
  if (auto fault = fault_of(tensor)) return *std::move(fault);
  int64_t row_major = 1;
  bool contiguous = true;
  for (size_t i = 4; i-- > 0;) {
    contiguous = contiguous && (tensor.shape[i] == 1 || tensor.strides[i] == row_major);
    row_major *= tensor.shape[i];
  }
  if (contiguous) tensor.strides.clear();
  return tensor;
}

std::string format_shape(const std::vector<int64_t>& shape) {
  std::string words;
  for (const int64_t size : shape) words += (words.empty() ? "" : ",") + std::to_string(size);
  return "[" + words + "]";
}

template <class T>
Decoded decode_as(const Launch& launch, msda_dtype type) {
  constexpr Slot kTensor{sizeof(TensorInfo<T>), alignof(TensorInfo<T>)};
  constexpr std::array kLayout{Slot(sizeof(T)), kTensor, kTensor, kTensor,         kTensor, kTensor,
                               Slot(4),         Slot(4), Slot(1), Slot(sizeof(T)), Slot(1)};
  if (!has_layout(launch, kLayout)) return Refusal{describe_layout(launch) + ", not the 11 that its name tells"};

  const auto flag = [&](size_t index) { return parameter<uint8_t>(launch, index); };
  const auto interpolation = parameter<int32_t>(launch, kInterpolation), padding = parameter<int32_t>(launch, kPadding);
  if (interpolation < 0 || interpolation > 2 || padding < 0 || padding > 2) {
    return Refusal{"interpolation " + std::to_string(interpolation) + " or padding " + std::to_string(padding) +
                   " is not known"};
  }
  if (flag(kAlignCorners) > 1 || flag(kInputRequiresGrad) > 1) return Refusal{"a bool that is neither 0 nor 1"};
  Call call{.dialect = std::nullopt,
            .padding = std::nullopt,
            .align_corners = std::nullopt,
            .inputs = {},
            .outputs = {},
            .texts = {{"interpolation", kInterpolations[interpolation]}, {"padding_mode", kPaddings[padding]}},
            .integers = {{"align_corners", flag(kAlignCorners)}}};

  struct Wanted {
    size_t index;
    const char* name;
    std::vector<DeviceTensor>* group;
  };
  std::vector<Wanted> wanted{
      {kGradOutput, "grad_output", &call.inputs}, {kInput, "input", &call.inputs}, {kGrid, "grid", &call.inputs}};
  if (flag(kInputRequiresGrad)) wanted.push_back({kGradInput, "grad_input", &call.outputs});
  wanted.push_back({kGradGrid, "grad_grid", &call.outputs});
  for (const auto& [index, name, group] : wanted) {
    auto tensor = tensor_of<T>(launch, index, name, type);
    if (auto* refusal = std::get_if<Refusal>(&tensor)) return *std::move(refusal);
    group->push_back(std::get<DeviceTensor>(std::move(tensor)));
  }

  const auto& input = call.inputs[1].shape;
  const auto& grid = call.inputs[2].shape;
  const std::vector<int64_t> grid_as{input[0], grid[1], grid[2], 2},
      grad_output_as{input[0], input[1], grid[1], grid[2]};
  for (const auto& [tensor, shape] : {std::pair{&call.inputs[2], &grid_as},
                                      {&call.inputs[0], &grad_output_as},
                                      {&call.outputs.back(), &grid_as},
                                      {&call.outputs.front(), flag(kInputRequiresGrad) ? &input : &grid_as}}) {
    if (tensor->shape != *shape) {
      return Refusal{tensor->name + " is " + format_shape(tensor->shape) + ", not " + format_shape(*shape)};
    }
  }
  // The kernel writes the pair of thread i at i times this stride and ignores the other strides.
  if (!call.outputs.back().strides.empty() || parameter<TensorInfo<T>>(launch, kGradGrid).strides[2] != 2) {
    return Refusal{"grad_grid is not contiguous"};
  }
  call.outputs.back().written_over = true;
  call.pointers = pointers_at(launch, {{kGradOutput, "inputs/grad_output"},
                                       {kInput, "inputs/input"},
                                       {kGrid, "inputs/grid"},
                                       {kGradInput, flag(kInputRequiresGrad) ? "outputs/grad_input" : ""},
                                       {kGradGrid, "outputs/grad_grid"}});
  const std::array threads{grid[0], grid[1], grid[2]};
  if (const int64_t n = parameter<T>(launch, kN); n != product(threads)) {
    return Refusal{"n is " + std::to_string(n) + ", not N*H*W of grid " + format_shape(grid)};
  }
  const int64_t span = parameter<T>(launch, kSpan);
  if (flag(kInputRequiresGrad) && span != product(input)) {
    return Refusal{"grad_input spans " + std::to_string(span) + " elements, not those of " + format_shape(input)};
  }
  return call;
}

class GridSampler2d final : public Adapter {
 public:
  std::string_view name() const override { return "grid_sampler_2d"; }

  bool matches(std::string_view kernel) const override { return kernel.find(kIdentifier) != kernel.npos; }

  Decoded decode(const Launch& launch, const ReadDevice&) const override {
    const auto parsed = signature_of(launch.kernel);
    if (const auto* refusal = std::get_if<Refusal>(&parsed)) return *refusal;
    const auto& [type, wide] = std::get<Signature>(parsed);
    return wide ? decode_as<int64_t>(launch, type) : decode_as<int32_t>(launch, type);
  }

  // Its threads loop over n independently.
  std::variant<LaunchShape, Refusal> with_block(const Launch& launch, uint32_t threads) const override {
    const bool wide = std::get<Signature>(signature_of(launch.kernel)).wide;
    return shape_of_loop(wide ? parameter<int64_t>(launch, kN) : parameter<int32_t>(launch, kN), threads, 0);
  }
};

}  // namespace

const Adapter& grid_sampler_2d() {
  static constinit MadeOnce<const GridSampler2d> adapter;
  return adapter.get();
}

}  // namespace msda::adapters
