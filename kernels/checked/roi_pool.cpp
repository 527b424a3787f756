#include "kernels/checked/roi_pool.h"

#include <fmt/format.h>

#include "kernels/checked/roi_align.h"

namespace msda::kernels {

CheckedRoiPool check_roi_pool(const msda_roi_pool_call& call, const msda_tensor& grad_input) {
  if (call.pooling < MSDA_ROI_MAX || call.pooling > MSDA_ROI_PS_ALIGN) {
    throw InvalidArgument(fmt::format("no such pooling: {}", static_cast<int>(call.pooling)));
  }
  const CheckedRoiAlign boxes =
      check_boxes({call.spatial_scale, call.sampling_ratio, 1, call.boxes, call.grad_output}, grad_input);
  const int64_t each = call.pooling == MSDA_ROI_MAX ? 1 : boxes.bins_of_box();
  if (boxes.C % each != 0) {
    throw InvalidArgument(
        fmt::format("grad_input has {} channels, which {} bins do not divide: a position-sensitive bin reads a channel "
                    "of its own",
                    boxes.C, each));
  }
  const std::vector<int64_t> shape = {boxes.K, boxes.C / each, boxes.bins[1], boxes.bins[0]};
  check_exact_shape("grad_output", call.grad_output, shape);
  check_exact_shape("indices", call.indices, shape);
  if (call.indices.dtype != MSDA_INT32 || (elements_of(shape) > 0 && !is_contiguous(call.indices))) {
    throw InvalidArgument("indices must be contiguous, and of type int32");
  }
  CheckedRoiPool checked{};
  static_cast<RoiSizes&>(checked) = boxes;
  checked.pooling = call.pooling;
  checked.float64_inputs = boxes.float64_inputs;
  return checked;
}

}  // namespace msda::kernels
