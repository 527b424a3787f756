// From the C structures of separable maps to checked sizes, or an error that names what is wrong.
#pragma once

#include "kernels/checked/call.h"
#include "kernels/separable_axis.h"

namespace msda::kernels {

// Sizes of a call whose tensors have been checked against one another.
struct CheckedSeparable {
  int64_t planes;          // all dimensions before the sides
  SeparableSizes axes[3];  // x, y, z; sides of one where there are fewer
  bool float64_inputs;

  int64_t inputs() const { return int64_t{axes[0].in} * axes[1].in * axes[2].in; }
  int64_t outputs() const { return int64_t{axes[0].out} * axes[1].out * axes[2].out; }
};

// Throws InvalidArgument.
CheckedSeparable check_separable(const msda_separable_call& call, const msda_tensor& grad_input);

}  // namespace msda::kernels
