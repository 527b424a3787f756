// PyTorch's grid_sampler_2d_backward_kernel, which attention written with grid_sample runs once a level, and
// grid_sampler_3d_backward_kernel, its twin for volumes. They are another operator's backward, so their tensors keep
// their own names:
//
//     kernel<T, index_t>(index_t n, TensorInfo grad_output, input, grid, grad_input, grad_grid, int interpolation,
//                        int padding, bool align_corners, index_t span, bool input_requires_grad)
//
// with n = N*(D_out*)H_out*W_out threads, and span the elements of grad_input, which is not touched unless
// input_requires_grad. After PyTorch's aten/src/ATen/native/cuda/GridSampler.cu, and cuda/detail/TensorInfo.cuh for the
// structs that it passes by value.
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "recorder/adapters/decode.h"
#include "recorder/adapters/mangled.h"
#include "recorder/adapters/tensor_info.h"

namespace msda::adapters {
namespace {

// What differs between the two kernels.
struct Kernel {
  std::string_view adapter, identifier;  // an identifier follows its length
  size_t axes;                           // of the input's pixels: x and y, and z
  const char* threads;                   // what n counts
  int32_t interpolations;                // it has so many of kInterpolations: there is no tricubic one

  size_t dims() const { return axes + 2; }  // of every tensor
};
constexpr Kernel k2d{"grid_sampler_2d", "31grid_sampler_2d_backward_kernel", 2, "N*H*W", 3};
constexpr Kernel k3d{"grid_sampler_3d", "31grid_sampler_3d_backward_kernel", 3, "N*D*H*W", 2};
constexpr std::array kInterpolations{"bilinear", "nearest", "bicubic"};
constexpr std::array kPaddings{"zeros", "border", "reflection"};

// Where each parameter stands in the list.
struct GridAt {
  enum : size_t {
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
};

struct GridSignature {
  msda_dtype type;
  bool wide;  // index_t is int64
};

std::variant<GridSignature, Refusal> grid_signature(const Kernel& kernel, std::string_view symbol) {
  const size_t at = symbol.find(kernel.identifier);
  Mangled name(at == symbol.npos ? "" : symbol.substr(at + kernel.identifier.size()));
  if (!symbol.starts_with("_Z") || !name.take("I")) return Refusal{"no kernel template of this name"};
  const auto type = name.take_element_type();
  if (!type) return Refusal{"an element type that is not known"};
  const bool wide = name.take("l");
  if (!wide && !name.take("i")) return Refusal{"an index type that is not known"};
  // The name need only give the types; the launch gives the number and sizes of the parameters.
  const Refusal unknown_signature{"other parameters than the known kernels of this name have"};
  if (!name.take("EEvT0_NS_4cuda6detail10TensorInfoI") || !name.take_past("24GridSamplerInterpolation") ||
      !name.take_past("18GridSamplerPaddingEb") || name.take_seen().empty() || !name.take("b") || !name.empty()) {
    return unknown_signature;
  }
  return GridSignature{*type, wide};
}

// Returns the tensor; without strides if it is row-major. Refused unless it has the kernel's dimensions and is valid.
template <class T>
std::variant<DeviceTensor, Refusal> grid_tensor(const Kernel& kernel, const Launch& launch, size_t index,
                                                const char* name, msda_dtype type) {
  const auto info = parameter<TensorInfo<T>>(launch, index);
  const size_t dims = kernel.dims();
  if (info.dims != static_cast<int32_t>(dims)) {
    return Refusal{std::string(name) + " has " + std::to_string(info.dims) + " dimensions, not " +
                   std::to_string(dims)};
  }
  DeviceTensor tensor{{name, type, {info.sizes, info.sizes + dims}, {info.strides, info.strides + dims}}, info.data};
  if (auto fault = fault_of(tensor)) return *std::move(fault);
  drop_row_major_strides(tensor);
  return tensor;
}

std::string format_shape(const std::vector<int64_t>& shape) {
  std::string words;
  for (const int64_t size : shape) words += (words.empty() ? "" : ",") + std::to_string(size);
  return "[" + words + "]";
}

uint8_t flag(const Launch& launch, size_t at) { return parameter<uint8_t>(launch, at); }

// Returns the call without its tensors.
Decoded modes_of(const Kernel& kernel, const Launch& launch) {
  const auto interpolation = parameter<int32_t>(launch, GridAt::kInterpolation),
             padding = parameter<int32_t>(launch, GridAt::kPadding);
  if (interpolation < 0 || interpolation >= kernel.interpolations || padding < 0 || padding > 2) {
    return Refusal{"interpolation " + std::to_string(interpolation) + " or padding " + std::to_string(padding) +
                   " is not known"};
  }
  if (flag(launch, GridAt::kAlignCorners) > 1 || flag(launch, GridAt::kInputRequiresGrad) > 1) {
    return Refusal{"a bool that is neither 0 nor 1"};
  }
  return Call{
      .facts = {.texts = {{"interpolation", kInterpolations[interpolation]}, {"padding_mode", kPaddings[padding]}},
                .flags = {{"align_corners", flag(launch, GridAt::kAlignCorners)}}}};
}

// Fills in the tensors, grad_input only if it is computed.
template <class T>
std::optional<Refusal> take_tensors(const Kernel& kernel, const Launch& launch, msda_dtype type, Call& call) {
  struct Wanted {
    size_t index;
    const char* name;
    std::vector<DeviceTensor>* group;
  };
  const bool input_requires_grad = flag(launch, GridAt::kInputRequiresGrad) == 1;
  std::vector<Wanted> wanted{{GridAt::kGradOutput, "grad_output", &call.inputs},
                             {GridAt::kInput, "input", &call.inputs},
                             {GridAt::kGrid, "grid", &call.inputs}};
  if (input_requires_grad) wanted.push_back({GridAt::kGradInput, "grad_input", &call.outputs});
  wanted.push_back({GridAt::kGradGrid, "grad_grid", &call.outputs});
  for (const auto& [index, name, group] : wanted) {
    auto tensor = grid_tensor<T>(kernel, launch, index, name, type);
    if (auto* refusal = std::get_if<Refusal>(&tensor)) return std::move(*refusal);
    group->push_back(std::get<DeviceTensor>(std::move(tensor)));
  }
  call.outputs.back().written_over = true;
  call.pointers = pointers_at(launch, {{GridAt::kGradOutput, "inputs/grad_output"},
                                       {GridAt::kInput, "inputs/input"},
                                       {GridAt::kGrid, "inputs/grid"},
                                       {GridAt::kGradInput, input_requires_grad ? "outputs/grad_input" : ""},
                                       {GridAt::kGradGrid, "outputs/grad_grid"}});
  return std::nullopt;
}

// Returns why the sizes contradict each other, those of the tensors, n and span.
template <class T>
std::optional<Refusal> contradiction(const Kernel& kernel, const Launch& launch, const Call& call) {
  const bool input_requires_grad = flag(launch, GridAt::kInputRequiresGrad) == 1;
  const auto& input = call.inputs[1].shape;
  const auto& grid = call.inputs[2].shape;
  const std::vector<int64_t> samples(grid.begin() + 1, grid.end() - 1);  // [(D,)H,W] of one batch
  std::vector<int64_t> grid_as{input[0]}, grad_output_as{input[0], input[1]};
  grid_as.insert(grid_as.end(), samples.begin(), samples.end());
  grid_as.push_back(static_cast<int64_t>(kernel.axes));
  grad_output_as.insert(grad_output_as.end(), samples.begin(), samples.end());
  using Expected = std::pair<const DeviceTensor*, const std::vector<int64_t>*>;
  for (const auto& [tensor, shape] : {Expected{&call.inputs[2], &grid_as},
                                      {&call.inputs[0], &grad_output_as},
                                      {&call.outputs.back(), &grid_as},
                                      {&call.outputs.front(), input_requires_grad ? &input : &grid_as}}) {
    if (tensor->shape != *shape) {
      return Refusal{tensor->name + " is " + format_shape(tensor->shape) + ", not " + format_shape(*shape)};
    }
  }
  // The kernel writes the coordinates of thread i at i times this stride and ignores the other strides.
  const auto stride = parameter<TensorInfo<T>>(launch, GridAt::kGradGrid).strides[kernel.axes];
  if (!call.outputs.back().strides.empty() || stride != static_cast<T>(kernel.axes)) {
    return Refusal{"grad_grid is not contiguous"};
  }
  if (const int64_t n = parameter<T>(launch, GridAt::kN); n != product(std::span(grid).first(grid.size() - 1))) {
    return Refusal{"n is " + std::to_string(n) + ", not " + kernel.threads + " of grid " + format_shape(grid)};
  }
  const int64_t span = parameter<T>(launch, GridAt::kSpan);
  if (input_requires_grad && span != product(input)) {
    return Refusal{"grad_input spans " + std::to_string(span) + " elements, not those of " + format_shape(input)};
  }
  return std::nullopt;
}

template <class T>
Decoded decode_as(const Kernel& kernel, const Launch& launch, msda_dtype type) {
  constexpr Slot kTensor{sizeof(TensorInfo<T>), alignof(TensorInfo<T>)};
  constexpr std::array kLayout{Slot(sizeof(T)), kTensor, kTensor, kTensor,         kTensor, kTensor,
                               Slot(4),         Slot(4), Slot(1), Slot(sizeof(T)), Slot(1)};
  if (!has_layout(launch, kLayout)) return Refusal{describe_layout(launch) + ", not the 11 that its name says"};
  Decoded decoded = modes_of(kernel, launch);
  if (auto* const call = std::get_if<Call>(&decoded)) {
    auto refusal = take_tensors<T>(kernel, launch, type, *call);
    if (!refusal) refusal = contradiction<T>(kernel, launch, *call);
    if (refusal) return *std::move(refusal);
  }
  return decoded;
}

class GridSampler final : public Adapter {
 public:
  explicit GridSampler(const Kernel& kernel) : kernel_(kernel) {}

  std::string_view name() const override { return kernel_.adapter; }

  bool matches(std::string_view symbol) const override { return symbol.find(kernel_.identifier) != symbol.npos; }

  Decoded decode(const Launch& launch, const ReadDevice&) const override {
    const auto parsed = grid_signature(kernel_, launch.kernel);
    if (const auto* refusal = std::get_if<Refusal>(&parsed)) return *refusal;
    const auto& [type, wide] = std::get<GridSignature>(parsed);
    return wide ? decode_as<int64_t>(kernel_, launch, type) : decode_as<int32_t>(kernel_, launch, type);
  }

  // Its threads loop over n independently.
  std::variant<LaunchShape, Refusal> with_block(const Launch& launch, uint32_t threads) const override {
    const bool wide = std::get<GridSignature>(grid_signature(kernel_, launch.kernel)).wide;
    return shape_of_loop(wide ? parameter<int64_t>(launch, GridAt::kN) : parameter<int32_t>(launch, GridAt::kN),
                         threads, 0);
  }

 private:
  const Kernel& kernel_;
};

}  // namespace

void add_grid_sampler(Adapters& all) {
  for (const Kernel* kernel : {&k2d, &k3d}) all.push_back(std::make_unique<const GridSampler>(*kernel));
}

}  // namespace msda::adapters
