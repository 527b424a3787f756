// From the C structures of roi_pool to checked sizes, or an error that names what is wrong.
#pragma once

#include "kernels/checked/call.h"
#include "kernels/roi_bins.h"

namespace msda::kernels {

struct CheckedRoiPool : RoiPoolSizes {
  bool float64_inputs;
};

// Throws InvalidArgument.
CheckedRoiPool check_roi_pool(const msda_roi_pool_call& call, const msda_tensor& grad_input);

}  // namespace msda::kernels
