// The backward pass of a separable map on a GPU, of a checked call.
#pragma once

#include "kernels/checked/separable.h"
#include "kernels/cuda/common/call.h"

namespace msda::kernels::cuda {

// Both tensors are row-major: [outers, z, y, x, inner].
struct SeparableLayout {
  int64_t outers, inner;
};

// `grad_output`: of type `dtype`. Throws CudaError, Unavailable or std::bad_alloc.
void separable_backward(const CheckedSeparable& checked, SeparableLayout layout, const Input& grad_output,
                        msda_dtype dtype, Result grad_input, Work& work);

}  // namespace msda::kernels::cuda
