// From scatter_add's C structures to checked sizes, or an error that names what is wrong.
#pragma once

#include "kernels/checked/call.h"
#include "kernels/scatter_sum.h"

namespace msda::kernels {

struct CheckedScatter : ScatterSizes {
  msda_tensor index;  // as row_of takes it
  bool float64_inputs;
};

// Throws InvalidArgument.
CheckedScatter check_scatter(const msda_scatter_add_call& call, const msda_tensor& sum);

// Returns the options of an operator that has the modes deterministic and float64. Throws InvalidArgument.
msda_options plain_options(const char* operator_name, const msda_options* options);

}  // namespace msda::kernels
