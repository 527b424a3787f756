// The backward pass of ROIAlign on a GPU, of a checked call.
#pragma once

#include "kernels/checked/roi_align.h"
#include "kernels/cuda/common/call.h"

namespace msda::kernels::cuda {

inline constexpr int kMostRoiBins = 32;  // along each axis

// The inputs: contiguous, of type `dtype`. Throws CudaError or std::bad_alloc.
void roi_align_backward(const CheckedRoiAlign& checked, const Input& boxes, const Input& grad_output, msda_dtype dtype,
                        bool float64, Result grad_input, Work& work);

}  // namespace msda::kernels::cuda
