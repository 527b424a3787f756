// The samples of deform_conv2d's backward pass on a GPU, of a checked call.
#pragma once

#include "kernels/checked/deform_conv2d.h"
#include "kernels/cuda/common/call.h"

namespace msda::kernels::cuda {

// Writes the sums over channels, the columns, and what the scatter sum needs: `grid` and, with a mask, `masked`, both
// of the arithmetic's type. Throws CudaError or std::bad_alloc.
void deform_samples(const CheckedDeform& checked, const msda_deform_conv2d_call& call, const DeformResults& results,
                    bool float64, void* grid, void* masked, Work& work);

}  // namespace msda::kernels::cuda
