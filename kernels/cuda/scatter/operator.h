// scatter_add on a GPU, of a checked call.
#pragma once

#include "kernels/checked/scatter.h"
#include "kernels/cuda/common/call.h"

namespace msda::kernels::cuda {

// `source`: contiguous, of type `dtype`. Throws CudaError or std::bad_alloc.
void scatter_add(const CheckedScatter& checked, const Input& source, msda_dtype dtype, bool float64,
                 const msda_tensor& sum, Work& work);

}  // namespace msda::kernels::cuda
