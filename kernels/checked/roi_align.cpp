#include "kernels/checked/roi_align.h"

#include <fmt/format.h>

#include <cmath>

namespace msda::kernels {

CheckedRoiAlign check_boxes(const msda_roi_align_call& call, const msda_tensor& grad_input) {
  constexpr int32_t kMostPoints = 1 << 10, kMostBins = 1 << 12;
  check_rank_and_sizes("grad_input", grad_input, 4);
  check_rank_and_sizes("grad_output", call.grad_output, 4);
  const int64_t *of_input = grad_input.shape, *of_output = call.grad_output.shape;
  check_exact_shape("boxes", call.boxes, {of_output[0], 5});
  check_float("boxes", call.boxes);
  check_float("grad_output", call.grad_output);
  check_result("grad_input", grad_input, shape_of(grad_input));
  if (!std::isfinite(call.spatial_scale)) {
    throw InvalidArgument(fmt::format("spatial_scale is {}", call.spatial_scale));
  }
  if (call.sampling_ratio > kMostPoints) {
    throw InvalidArgument(fmt::format("sampling_ratio is {}; at most {}", call.sampling_ratio, kMostPoints));
  }
  CheckedRoiAlign checked{};
  for (int axis = 0; axis < 2; ++axis) {
    const int64_t side = of_input[3 - axis], bins = of_output[3 - axis];
    if (side < 1 || side > kMaxLevelSide) {
      throw InvalidArgument(
          fmt::format("grad_input has a side of {} pixels; sides go from 1 to {}", side, kMaxLevelSide));
    }
    if (bins < 1 || bins > kMostBins) {
      throw InvalidArgument(fmt::format("grad_output has {} bins along a side; 1 to {}", bins, kMostBins));
    }
    checked.sides[axis] = static_cast<int32_t>(side);
    checked.bins[axis] = static_cast<int32_t>(bins);
  }
  checked.N = of_input[0];
  checked.C = of_input[1];
  checked.K = of_output[0];
  checked.spatial_scale = call.spatial_scale;
  checked.sampling_ratio = call.sampling_ratio > 0 ? call.sampling_ratio : 0;
  checked.aligned = call.aligned != 0;
  checked.float64_inputs = call.boxes.dtype == MSDA_FLOAT64 || call.grad_output.dtype == MSDA_FLOAT64;
  return checked;
}

CheckedRoiAlign check_roi_align(const msda_roi_align_call& call, const msda_tensor& grad_input) {
  const CheckedRoiAlign checked = check_boxes(call, grad_input);
  check_exact_shape("grad_output", call.grad_output, {checked.K, checked.C, checked.bins[1], checked.bins[0]});
  return checked;
}

}  // namespace msda::kernels
