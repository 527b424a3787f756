// The backward pass of max pooling on a GPU, of a checked call.
#pragma once

#include "kernels/cuda/common/call.h"
#include "kernels/max_pool.h"

namespace msda::kernels::cuda {

// Takes at least one pixel. `grad_output`: contiguous, of type `dtype`. Throws CudaError.
void max_pool_backward(const msda_max_pool_call& call, const Input& grad_output, msda_dtype dtype, bool float64,
                       Result grad_input, Work& work);

}  // namespace msda::kernels::cuda
