// PyTorch's kernels of interpolate's backward pass that take plain pointers:
//
//     upsample_bilinear2d_backward_out_frame<T, A>(size_t nc, int height1, int width1, int height2, int width2,
//                                                  A rheight, A rwidth, bool align_corners, T* grad_input,
//                                                  const T* grad_output)
//     upsample_bilinear2d_backward_nhwc_out_frame<T, A>(int height1, int width1, int height2, int width2, A rheight,
//                                                       A rwidth, bool align_corners, T* grad_input,
//                                                       const T* grad_output, int channels, size_t elements2,
//                                                       size_t elements1)
//     upsample_nearest{1,2,3}d_backward_out_frame<T, A, index>(const T* grad_output, size_t n, size_t c, size_t out...,
//                                                              size_t in..., T* grad_input, float scale...)
//
// with A float, or double for double: 1 are the sizes of grad_input, 2 those of grad_output, rheight and rwidth the
// ratios of the coordinates, and `scale` the inverse ratio. `index` is a function, whose name distinguishes nearest
// from nearest-exact. Both tensors are contiguous, those of nhwc channels last. After
// aten/src/ATen/native/cuda/UpSampleBilinear2d.cu and UpSampleNearest*.cu.
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "recorder/adapters/interpolate/upsample_call.h"
#include "recorder/adapters/mangled.h"

namespace msda::adapters {
namespace {

class Bilinear2d final : public Adapter {
 public:
  Bilinear2d(bool channels_last, std::string_view name, std::string_view identifier)
      : channels_last_(channels_last), name_(name), identifier_(identifier) {}

  std::string_view name() const override { return name_; }
  bool matches(std::string_view symbol) const override { return symbol.find(identifier_) != symbol.npos; }

  Decoded decode(const Launch& launch, const ReadDevice&) const override {
    Mangled name = symbol_after(launch.kernel, identifier_);
    const auto signature = take_upsample_types(name);
    if (!signature) return Refusal{"element types that are not known"};
    if (!name.take(channels_last_ ? "EEviiiiT0_" : "EEvmiiiiT0_") || name.take_seen().empty() || !name.take("bPT_PK") ||
        name.take_seen().empty() || (channels_last_ && !name.take("imm")) || !name.empty()) {
      return Refusal{"other parameters than the known kernels of this name have"};
    }
    const uint64_t real = signature->wide ? 8 : 4;
    std::vector<Slot> layout{Slot(4), Slot(4), Slot(4), Slot(4), Slot(real), Slot(real), Slot(1), Slot(8), Slot(8)};
    if (channels_last_) layout.insert(layout.end(), {Slot(4), Slot(8), Slot(8)});
    if (!channels_last_) layout.insert(layout.begin(), Slot(8));
    if (!has_layout(launch, layout)) {
      return Refusal{describe_layout(launch) + ", not the " + std::to_string(layout.size()) + " that its name says"};
    }
    return signature->wide ? call_of<double>(launch, signature->type) : call_of<float>(launch, signature->type);
  }

  // The threads of the kernel for contiguous tensors loop over the elements of grad_output independently.
  std::variant<LaunchShape, Refusal> with_block(const Launch& launch, uint32_t threads) const override {
    if (channels_last_) return Adapter::with_block(launch, threads);
    const auto n = product(std::array{parameter<int64_t>(launch, 0), integer(launch, 3), integer(launch, 4)});
    if (!n) return Refusal{"sizes that are not positive"};
    return shape_of_loop(*n, threads, 0);
  }

 private:
  static int64_t integer(const Launch& launch, size_t at) { return parameter<int32_t>(launch, at); }

  // A tensor of these sides. Without channels last, batches and channels are one number to the kernel.
  std::optional<DeviceTensor> tensor(const Launch& launch, const char* name, msda_dtype type,
                                     const std::array<int64_t, 2>& sides, size_t pointer, size_t elements) const {
    const auto address = parameter<uint64_t>(launch, pointer);
    if (!channels_last_) {
      return DeviceTensor{{name, type, {1, parameter<int64_t>(launch, 0), sides[0], sides[1]}}, address};
    }
    const int64_t channels = integer(launch, 9), all = parameter<int64_t>(launch, elements);
    const auto image = product(std::array{channels, sides[0], sides[1]});
    if (!image || all <= 0 || all % *image != 0) return std::nullopt;
    DeviceTensor tensor{{name, type, {all / *image, channels, sides[0], sides[1]}}, address};
    tensor.strides = {*image, 1, sides[1] * channels, channels};
    return tensor;
  }

  template <class Real>
  Decoded call_of(const Launch& launch, msda_dtype type) const {
    const size_t first = channels_last_ ? 0 : 1;
    const std::array in{integer(launch, first), integer(launch, first + 1)},
        out{integer(launch, first + 2), integer(launch, first + 3)};
    const auto aligned = parameter<uint8_t>(launch, first + 6);
    if (aligned > 1) return Refusal{"a bool that is neither 0 nor 1"};
    auto grad_input = tensor(launch, "grad_input", type, in, first + 7, 11),
         grad_output = tensor(launch, "grad_output", type, out, first + 8, 10);
    if (!grad_input || !grad_output || grad_input->shape[0] != grad_output->shape[0]) {
      return Refusal{"numbers of elements that contradict the sizes"};
    }
    Decoded decoded = upsample_call("bilinear", *std::move(grad_input), *std::move(grad_output));
    Call* const call = std::get_if<Call>(&decoded);
    if (call == nullptr) return decoded;
    call->facts.flags["align_corners"] = aligned;
    call->pointers = {{launch.parameters[first + 7].offset, "outputs/grad_input"},
                      {launch.parameters[first + 8].offset, "inputs/grad_output"}};
    for (size_t i = 0; i < 2; ++i) {  // rows, columns
      const Real ratio = parameter<Real>(launch, first + 4 + i), size1 = static_cast<Real>(in[i]),
                 size2 = static_cast<Real>(out[i]);
      const bool from_sizes = aligned == 1 || ratio == size1 / size2;
      if (auto refusal = add_scale(*call, 1 - i, 1 / static_cast<double>(ratio), from_sizes))
        return *std::move(refusal);
    }
    return decoded;
  }

  bool channels_last_;
  std::string_view name_, identifier_;
};

class Nearest final : public Adapter {
 public:
  Nearest(size_t axes, std::string_view name, std::string_view identifier)
      : axes_(axes), name_(name), identifier_(identifier) {}

  std::string_view name() const override { return name_; }
  bool matches(std::string_view symbol) const override { return symbol.find(identifier_) != symbol.npos; }

  Decoded decode(const Launch& launch, const ReadDevice&) const override {
    Mangled name = symbol_after(launch.kernel, identifier_);
    auto signature = take_upsample_types(name);
    if (!signature) return Refusal{"element types that are not known"};
    const bool plain = launch.kernel.find("40nearest_neighbor_bw_compute_source_index") != std::string::npos;
    signature->exact = launch.kernel.find("46nearest_neighbor_exact_bw_compute_source_index") != std::string::npos;
    const std::string sizes(2 + 2 * axes_, 'm'), scales(axes_, 'f');
    if (plain == signature->exact || !name.take_past("EvPKT_") || !name.take(sizes + "P") || name.take_seen().empty() ||
        !name.take(scales) || !name.empty()) {
      return Refusal{"other parameters than the known kernels of this name have"};
    }
    std::vector<Slot> layout(1 + 2 + 2 * axes_ + 1, Slot(8));
    layout.resize(layout.size() + axes_, Slot(4));
    if (!has_layout(launch, layout)) {
      return Refusal{describe_layout(launch) + ", not the " + std::to_string(layout.size()) + " that its name says"};
    }
    return call_of(launch, *signature);
  }

 private:
  Decoded call_of(const Launch& launch, const UpsampleSignature& signature) const {
    const size_t grad_input = 3 + 2 * axes_;
    const auto sizes_from = [&](size_t first, size_t count) {
      std::vector<int64_t> sizes;
      for (size_t i = 0; i < count; ++i) sizes.push_back(parameter<int64_t>(launch, first + i));
      return sizes;
    };
    const std::vector<int64_t> out = sizes_from(3, axes_), in = sizes_from(3 + axes_, axes_);
    const auto tensor = [&](const char* name, const std::vector<int64_t>& sides, size_t at) {
      std::vector<int64_t> shape = sizes_from(1, 2);
      shape.insert(shape.end(), sides.begin(), sides.end());
      return DeviceTensor{{name, signature.type, shape}, parameter<uint64_t>(launch, at)};
    };
    Decoded decoded = upsample_call(signature.exact ? "nearest-exact" : "nearest", tensor("grad_input", in, grad_input),
                                    tensor("grad_output", out, 0));
    Call* const call = std::get_if<Call>(&decoded);
    if (call == nullptr) return decoded;
    call->outputs.front().written_over = true;
    call->pointers = {{launch.parameters[0].offset, "inputs/grad_output"},
                      {launch.parameters[grad_input].offset, "outputs/grad_input"}};
    for (size_t i = 0; i < axes_; ++i) {
      const auto scale = parameter<float>(launch, grad_input + 1 + i);
      const bool from_sizes = scale == static_cast<float>(out[i]) / static_cast<float>(in[i]);
      if (auto refusal = add_scale(*call, axes_ - 1 - i, static_cast<double>(scale), from_sizes))
        return *std::move(refusal);
    }
    return decoded;
  }

  size_t axes_;
  std::string_view name_, identifier_;
};

}  // namespace

void add_upsample(Adapters& all) {
  all.push_back(
      std::make_unique<const Bilinear2d>(false, "upsample_bilinear2d", "38upsample_bilinear2d_backward_out_frame"));
  all.push_back(std::make_unique<const Bilinear2d>(true, "upsample_bilinear2d_nhwc",
                                                   "43upsample_bilinear2d_backward_nhwc_out_frame"));
  all.push_back(std::make_unique<const Nearest>(1, "upsample_nearest1d", "37upsample_nearest1d_backward_out_frame"));
  all.push_back(std::make_unique<const Nearest>(2, "upsample_nearest2d", "37upsample_nearest2d_backward_out_frame"));
  all.push_back(std::make_unique<const Nearest>(3, "upsample_nearest3d", "37upsample_nearest3d_backward_out_frame"));
}

}  // namespace msda::adapters
