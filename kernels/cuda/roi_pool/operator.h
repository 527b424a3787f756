// The backward passes of roi_pool, ps_roi_pool and ps_roi_align on a GPU, of a checked call.
#pragma once

#include "kernels/checked/roi_pool.h"
#include "kernels/cuda/common/call.h"

namespace msda::kernels::cuda {

// The inputs: contiguous, of type `dtype`. Throws CudaError or std::bad_alloc.
void roi_pool_backward(const CheckedRoiPool& checked, const Input& boxes, const Input& grad_output,
                       const int32_t* indices, msda_dtype dtype, bool float64, Result grad_input, Work& work);

}  // namespace msda::kernels::cuda
