// The backward pass of interpolate on a GPU, of a checked call.
#pragma once

#include "kernels/checked/interpolate.h"
#include "kernels/cuda/common/call.h"

namespace msda::kernels::cuda {

// `grad_output`: contiguous, of type `dtype`. Throws CudaError or std::bad_alloc.
void interpolate_backward(const CheckedInterpolate& checked, const Input& grad_output, msda_dtype dtype, bool float64,
                          Result grad_input, Work& work);

}  // namespace msda::kernels::cuda
