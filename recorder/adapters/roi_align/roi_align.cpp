// torchvision's roi_align_backward_kernel_impl:
//
//     kernel<T>(int nthreads, const T* grad_output, T spatial_scale, int channels, int height, int width,
//               int pooled_height, int pooled_width, int sampling_ratio, bool aligned, T* grad_input, const T* rois,
//               int n_stride, int c_stride, int h_stride, int w_stride, int memory_span)
//
// with nthreads = K*C*pooled_height*pooled_width elements of grad_output, which has the strides, and memory_span those
// of grad_input. After torchvision's csrc/ops/cuda/roi_align_kernel.cu.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kernels/storage.h"
#include "recorder/adapters/decode.h"
#include "recorder/adapters/mangled.h"

namespace msda::adapters {
namespace {

constexpr std::string_view kRoiAlignKernel = "30roi_align_backward_kernel_impl";

struct RoiAt {
  enum : size_t {
    kThreads,
    kGradOutput,
    kSpatialScale,
    kChannels,
    kHeight,
    kWidth,
    kPooledHeight,
    kPooledWidth,
    kSamplingRatio,
    kAligned,
    kGradInput,
    kRois,
    kStrides,  // four of them
    kMemorySpan = kStrides + 4
  };
};

std::variant<msda_dtype, Refusal> roi_align_type(std::string_view symbol) {
  const size_t at = symbol.find(kRoiAlignKernel);
  Mangled name(at == symbol.npos ? "" : symbol.substr(at + kRoiAlignKernel.size()));
  if (!symbol.starts_with("_Z") || !name.take("I")) return Refusal{"no kernel template of this name"};
  const auto type = name.take_element_type();
  if (!type) return Refusal{"an element type that is not known"};
  if (!name.take("EEviPKT_") || name.take_seen().empty() || !name.take("iiiiiibP") || name.take_seen().empty() ||
      name.take_seen().empty() || !name.take("iiiii") || !name.empty()) {
    return Refusal{"other parameters than the known kernels of this name have"};
  }
  return *type;
}

double scale_of(const Launch& launch, msda_dtype type) {
  switch (type) {
    case MSDA_FLOAT16:
      return kernels::widen(parameter<kernels::Float16>(launch, RoiAt::kSpatialScale));
    case MSDA_BFLOAT16:
      return kernels::widen(parameter<kernels::BFloat16>(launch, RoiAt::kSpatialScale));
    case MSDA_FLOAT64:
      return parameter<double>(launch, RoiAt::kSpatialScale);
    default:
      return static_cast<double>(parameter<float>(launch, RoiAt::kSpatialScale));
  }
}

int64_t integer(const Launch& launch, size_t at) { return parameter<int32_t>(launch, at); }

class RoiAlign final : public Adapter {
 public:
  std::string_view name() const override { return "roi_align"; }
  bool matches(std::string_view symbol) const override { return symbol.find(kRoiAlignKernel) != symbol.npos; }

  Decoded decode(const Launch& launch, const ReadDevice&) const override {
    const auto parsed = roi_align_type(launch.kernel);
    if (const auto* refusal = std::get_if<Refusal>(&parsed)) return *refusal;
    const msda_dtype type = std::get<msda_dtype>(parsed);
    const auto real = static_cast<uint64_t>(kernels::bytes_of(type));
    const std::array layout{Slot(4), Slot(8), Slot(real), Slot(4), Slot(4), Slot(4), Slot(4), Slot(4), Slot(4),
                            Slot(1), Slot(8), Slot(8),    Slot(4), Slot(4), Slot(4), Slot(4), Slot(4)};
    if (!has_layout(launch, layout)) return Refusal{describe_layout(launch) + ", not the 17 that its name says"};
    return call_of(launch, type);
  }

  // Its threads loop over the elements of grad_output independently.
  std::variant<LaunchShape, Refusal> with_block(const Launch& launch, uint32_t threads) const override {
    return shape_of_loop(integer(launch, RoiAt::kThreads), threads, 0);
  }

 private:
  static Decoded call_of(const Launch& launch, msda_dtype type) {
    const int64_t channels = integer(launch, RoiAt::kChannels), height = integer(launch, RoiAt::kHeight),
                  width = integer(launch, RoiAt::kWidth), rows = integer(launch, RoiAt::kPooledHeight),
                  columns = integer(launch, RoiAt::kPooledWidth), ratio = integer(launch, RoiAt::kSamplingRatio);
    const auto aligned = parameter<uint8_t>(launch, RoiAt::kAligned);
    const double scale = scale_of(launch, type);
    if (aligned > 1) return Refusal{"a bool that is neither 0 nor 1"};
    if (!std::isfinite(scale)) return Refusal{"a spatial_scale that is not finite"};
    const auto of_box = product(std::array{channels, rows, columns}),
               of_image = product(std::array{channels, height, width});
    const int64_t threads = integer(launch, RoiAt::kThreads), span = integer(launch, RoiAt::kMemorySpan);
    if (!of_box || !of_image || threads <= 0 || threads % *of_box != 0 || span <= 0 || span % *of_image != 0) {
      return Refusal{std::to_string(threads) + " elements of grad_output and " + std::to_string(span) +
                     " of grad_input, which the other sizes do not divide"};
    }
    const int64_t boxes = threads / *of_box, batches = span / *of_image;
    std::vector<int64_t> strides;
    for (size_t i = 0; i < 4; ++i) strides.push_back(integer(launch, RoiAt::kStrides + i));
    if (strides == std::vector<int64_t>{*of_box, rows * columns, columns, 1}) strides.clear();
    Call call{.inputs = {{{"grad_output", type, {boxes, channels, rows, columns}, strides},
                          parameter<uint64_t>(launch, RoiAt::kGradOutput)},
                         {{"boxes", type, {boxes, 5}}, parameter<uint64_t>(launch, RoiAt::kRois)}},
              .outputs = {{{"grad_input", type, {batches, channels, height, width}},
                           parameter<uint64_t>(launch, RoiAt::kGradInput)}},
              .pointers = pointers_at(launch, {{RoiAt::kGradOutput, "inputs/grad_output"},
                                               {RoiAt::kGradInput, "outputs/grad_input"},
                                               {RoiAt::kRois, "inputs/boxes"}}),
              .facts = {.integers = {{"sampling_ratio", std::max<int64_t>(ratio, 0)},
                                     {"input_batch", batches},
                                     {"input_height", height},
                                     {"input_width", width}},
                        .reals = {{"spatial_scale", scale}},
                        .flags = {{"aligned", aligned}}}};
    return checked(std::move(call));
  }
};

}  // namespace

void add_roi_align(Adapters& all) { all.push_back(std::make_unique<const RoiAlign>()); }

}  // namespace msda::adapters
