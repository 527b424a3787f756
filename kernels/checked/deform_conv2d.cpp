#include "kernels/checked/deform_conv2d.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "kernels/guarded.h"
#include "kernels/names.h"

namespace msda::kernels {
namespace {

constexpr int64_t kMost = std::numeric_limits<int32_t>::max();

void check_deform_conventions(const msda_deform_conv2d_call& call) {
  for (int i = 0; i < 2; ++i) {
    if (call.kernel[i] < 1 || call.stride[i] < 1 || call.padding[i] < 0 || call.dilation[i] < 1) {
      throw InvalidArgument(
          fmt::format("kernel {}, stride {}, padding {} and dilation {}: padding is at least 0, the others 1",
                      call.kernel[i], call.stride[i], call.padding[i], call.dilation[i]));
    }
  }
  if (call.groups < 1) throw InvalidArgument(fmt::format("groups is {}", call.groups));
}

void check_tensor(const char* name, const msda_tensor* tensor, const std::vector<int64_t>& shape, msda_dtype dtype) {
  if (tensor == nullptr) throw InvalidArgument(fmt::format("{} is a null pointer", name));
  check_exact_shape(name, *tensor, shape);
  if (tensor->dtype == dtype && is_float(dtype) && (elements_of(shape) == 0 || is_contiguous(*tensor))) return;
  throw InvalidArgument(fmt::format("{} must be contiguous, and of input's type, a floating-point one", name));
}

// Returns a contiguous tensor.
msda_tensor laid_out(const void* data, msda_dtype dtype, const std::vector<int64_t>& shape) {
  msda_tensor tensor{};
  tensor.data = const_cast<void*>(data);
  tensor.dtype = dtype;
  tensor.rank = static_cast<int32_t>(shape.size());
  int64_t step = 1;
  for (size_t i = shape.size(); i-- > 0; step *= shape[i]) {
    tensor.shape[i] = shape[i];
    tensor.stride[i] = step;
  }
  return tensor;
}

}  // namespace

CheckedDeform check_deform(const msda_deform_conv2d_call* call, const DeformResults& results) {
  if (call == nullptr) throw InvalidArgument("call is a null pointer");
  check_deform_conventions(*call);
  check_rank_and_sizes("input", call->input, 4);
  check_rank_and_sizes("offset", call->offset, 4);
  CheckedDeform checked{};
  checked.dtype = call->input.dtype;
  checked.N = call->input.shape[0];
  checked.C = call->input.shape[1];
  checked.groups = call->groups;
  checked.has_mask = call->mask.rank != 0;
  if (checked.C % call->groups != 0) {
    throw InvalidArgument(fmt::format("input has {} channels, which {} groups do not divide", checked.C, call->groups));
  }
  for (int i = 0; i < 2; ++i) {
    const int64_t side = call->input.shape[2 + i], out = call->offset.shape[2 + i];
    if (side < 1 || side > kMaxLevelSide || out > kMaxLevelSide) {
      throw InvalidArgument(
          fmt::format("sides of {} and {} pixels; an image's go from 1 to {}", side, out, kMaxLevelSide));
    }
    checked.kernel[i] = call->kernel[i];
    checked.stride[i] = call->stride[i];
    checked.padding[i] = call->padding[i];
    checked.dilation[i] = call->dilation[i];
    checked.sides[i] = static_cast<int32_t>(side);
    checked.out[i] = static_cast<int32_t>(out);
  }
  if (checked.places() > kMost || checked.taps() > kMost / std::max<int64_t>(checked.places(), 1) / call->groups) {
    throw InvalidArgument("offset has more samples than can be counted");
  }
  const int64_t of_kernel = checked.groups * checked.taps();
  const std::vector<int64_t> offset{checked.N, 2 * of_kernel, checked.out[0], checked.out[1]},
      mask{checked.N, of_kernel, checked.out[0], checked.out[1]},
      columns{checked.N, checked.C, checked.taps(), checked.places()};
  check_tensor("input", &call->input, shape_of(call->input), checked.dtype);
  check_tensor("offset", &call->offset, offset, checked.dtype);
  check_tensor("grad_columns", &call->grad_columns, columns, checked.dtype);
  check_tensor("grad_input", results.grad_input, shape_of(call->input), checked.dtype);
  check_tensor("grad_offset", results.grad_offset, offset, checked.dtype);
  check_tensor("columns", results.columns, columns, checked.dtype);
  if (checked.has_mask) {
    check_tensor("mask", &call->mask, mask, checked.dtype);
    check_tensor("grad_mask", results.grad_mask, mask, checked.dtype);
  }
  return checked;
}

DeformScatter scatter_of(const CheckedDeform& checked, const msda_deform_conv2d_call& call, const msda_tensor& result,
                         void* grid, bool float64, const void* grad_columns, msda_dtype dtype) {
  const int64_t N = checked.N * checked.groups, C = checked.channels();
  const std::vector<int64_t> image{N, C, checked.sides[0], checked.sides[1]};
  DeformScatter scatter{};
  scatter.call.interpolation = MSDA_BILINEAR;
  scatter.call.padding = MSDA_GRID_PIXELS;
  scatter.call.input = laid_out(call.input.data, checked.dtype, image);
  scatter.call.grid = laid_out(grid, float64 ? MSDA_FLOAT64 : MSDA_FLOAT32, {N, checked.taps(), checked.places(), 2});
  scatter.grad_output = laid_out(grad_columns, dtype, {N, C, checked.taps(), checked.places()});
  scatter.grad_input = laid_out(result.data, checked.dtype, image);
  return scatter;
}

void check_scattered(msda_status status) {
  const std::string why = last_error();
  if (status == MSDA_INVALID_ARGUMENT) throw InvalidArgument(why);
  if (status == MSDA_UNAVAILABLE) throw Unavailable(why);
  if (status == MSDA_OUT_OF_MEMORY) throw std::bad_alloc();
  if (status != MSDA_OK) throw CudaError(why);
}

}  // namespace msda::kernels
