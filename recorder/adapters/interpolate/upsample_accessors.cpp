// PyTorch's kernels of interpolate's backward pass that take tensor accessors:
//
//     upsample_bicubic2d_backward_out_frame<T, A>(int n, A rheight, A rwidth, bool align_corners,
//                                                 PackedTensorAccessor64<T, 4> grad_input,
//                                                 PackedTensorAccessor64<const T, 4> grad_output)
//     upsample_trilinear3d_backward_out_frame<T, A>(int n, A rdepth, A rheight, A rwidth, bool align_corners,
//                                                   PackedTensorAccessor64<T, 5> grad_input,
//                                                   PackedTensorAccessor64<const T, 5> grad_output, T* grad_input)
//
// with A float, or double for double. A thread handles an output pixel of all batches and channels. Where both images
// have the same size, they copy. The second one adds to row-major memory, whatever the accessor's strides are. After
// aten/src/ATen/native/cuda/UpSampleBicubic2d.cu and UpSampleTrilinear3d.cu.
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "recorder/adapters/interpolate/upsample_call.h"
#include "recorder/adapters/tensor_info.h"

namespace msda::adapters {
namespace {

template <size_t kAxesCount>
class Accessors final : public Adapter {
 public:
  Accessors(std::string_view name, std::string_view identifier, const char* mode)
      : name_(name), identifier_(identifier), mode_(mode) {}

  std::string_view name() const override { return name_; }
  bool matches(std::string_view symbol) const override { return symbol.find(identifier_) != symbol.npos; }

  Decoded decode(const Launch& launch, const ReadDevice&) const override {
    Mangled name = symbol_after(launch.kernel, identifier_);
    const auto signature = take_upsample_types(name);
    if (!signature) return Refusal{"element types that are not known"};
    bool known = name.take("EEviT0_");
    for (size_t i = 1; i < kAxesCount; ++i) known = known && !name.take_seen().empty();
    if (!known || !name.take("b") || !name.take_past("27GenericPackedTensorAccessorI")) {
      return Refusal{"other parameters than the known kernels of this name have"};
    }
    const uint64_t real = signature->wide ? 8 : 4;
    constexpr Slot kAccessor{sizeof(Accessor), alignof(Accessor)};
    std::vector<Slot> layout(1 + kAxesCount, Slot(real));
    layout.front() = Slot(4);
    layout.insert(layout.end(), {Slot(1), kAccessor, kAccessor});
    if (kIsTrilinear) layout.emplace_back(8);
    if (!has_layout(launch, layout)) {
      return Refusal{describe_layout(launch) + ", not the " + std::to_string(layout.size()) + " that its name says"};
    }
    return signature->wide ? call_of<double>(launch, signature->type) : call_of<float>(launch, signature->type);
  }

 private:
  using Accessor = PackedAccessor<kAxesCount + 2>;
  static constexpr bool kIsTrilinear = kAxesCount == 3;
  static constexpr size_t kAligned = 1 + kAxesCount, kGradInput = kAligned + 1, kGradOutput = kAligned + 2;

  static DeviceTensor tensor_of(const Accessor& accessor, const char* name, msda_dtype type) {
    const auto &sizes = accessor.sizes, &strides = accessor.strides;
    return {{name, type, {sizes.begin(), sizes.end()}, {strides.begin(), strides.end()}}, accessor.data};
  }

  template <class Real>
  Decoded call_of(const Launch& launch, msda_dtype type) const {
    const auto aligned = parameter<uint8_t>(launch, kAligned);
    if (aligned > 1) return Refusal{"a bool that is neither 0 nor 1"};
    Decoded decoded = upsample_call(mode_, tensor_of(parameter<Accessor>(launch, kGradInput), "grad_input", type),
                                    tensor_of(parameter<Accessor>(launch, kGradOutput), "grad_output", type));
    Call* const call = std::get_if<Call>(&decoded);
    if (call == nullptr) return decoded;
    DeviceTensor &grad_output = call->inputs.front(), &grad_input = call->outputs.front();
    for (DeviceTensor* tensor : {&grad_output, &grad_input}) drop_row_major_strides(*tensor);
    if (grad_output.shape[0] != grad_input.shape[0] || grad_output.shape[1] != grad_input.shape[1]) {
      return Refusal{"grad_output and grad_input have different batches or channels"};
    }
    call->facts.flags["align_corners"] = aligned;
    call->pointers = {{launch.parameters[kGradInput].offset, "outputs/grad_input"},
                      {launch.parameters[kGradOutput].offset, "inputs/grad_output"}};
    if (kIsTrilinear) {
      if (!grad_input.strides.empty() || parameter<uint64_t>(launch, kGradOutput + 1) != grad_input.address) {
        return Refusal{"grad_input is not contiguous"};
      }
      call->pointers.push_back({launch.parameters[kGradOutput + 1].offset, "outputs/grad_input"});
    }
    const bool copies = std::equal(grad_input.shape.begin(), grad_input.shape.end(), grad_output.shape.begin());
    for (size_t i = 0; i < kAxesCount; ++i) {  // the first dimension first
      const Real ratio = parameter<Real>(launch, 1 + i);
      const auto of_sizes = static_cast<Real>(grad_input.shape[2 + i]) / static_cast<Real>(grad_output.shape[2 + i]);
      if (auto refusal = add_scale(*call, kAxesCount - 1 - i, 1 / static_cast<double>(ratio),
                                   aligned == 1 || copies || ratio == of_sizes)) {
        return *std::move(refusal);
      }
    }
    return decoded;
  }

  std::string_view name_, identifier_;
  const char* mode_;
};

}  // namespace

void add_upsample_accessors(Adapters& all) {
  all.push_back(
      std::make_unique<const Accessors<2>>("upsample_bicubic2d", "37upsample_bicubic2d_backward_out_frame", "bicubic"));
  all.push_back(std::make_unique<const Accessors<3>>("upsample_trilinear3d",
                                                     "39upsample_trilinear3d_backward_out_frame", "trilinear"));
}

}  // namespace msda::adapters
