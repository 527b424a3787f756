// From ROIAlign's C structures to checked sizes, or an error that names what is wrong.
#pragma once

#include "kernels/checked/call.h"
#include "kernels/roi_axis.h"

namespace msda::kernels {

struct CheckedRoiAlign : RoiSizes {
  bool float64_inputs;
};

// Checks all but how many channels there are. Throws InvalidArgument.
CheckedRoiAlign check_boxes(const msda_roi_align_call& call, const msda_tensor& grad_input);
// Throws InvalidArgument.
CheckedRoiAlign check_roi_align(const msda_roi_align_call& call, const msda_tensor& grad_input);

}  // namespace msda::kernels
