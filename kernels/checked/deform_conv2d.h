// From deform_conv2d's C structures to checked sizes, or an error that names what is wrong.
#pragma once

#include "kernels/checked/call.h"
#include "kernels/deform_sample.h"
#include "kernels/grid_sample.h"

namespace msda::kernels {

struct CheckedDeform : DeformSizes {
  msda_dtype dtype;
};

struct DeformResults {
  const msda_tensor *grad_input, *grad_offset, *grad_mask, *columns;
};

// Throws InvalidArgument.
CheckedDeform check_deform(const msda_deform_conv2d_call* call, const DeformResults& results);

// grad_input as grid_sample's: a sum over samples that each read four pixels.
struct DeformScatter {
  msda_grid_sample_call call;
  msda_tensor grad_output, grad_input;
};
// grid: [N, groups, samples, 2], of float32 or float64; grad_columns: masked, of type `dtype`.
DeformScatter scatter_of(const CheckedDeform& checked, const msda_deform_conv2d_call& call, const msda_tensor& result,
                         void* grid, bool float64, const void* grad_columns, msda_dtype dtype);

// Throws the last error unless the status is MSDA_OK.
void check_scattered(msda_status status);

}  // namespace msda::kernels
