// From interpolate's C structures to checked sizes, or an error that names what is wrong.
#pragma once

#include "kernels/checked/call.h"
#include "kernels/resize.h"

namespace msda::kernels {

// Sizes of a call whose tensors have been checked against one another.
struct CheckedInterpolate {
  int64_t planes;      // N * C
  ResizeAxis axes[3];  // x, y, z; sides of one pixel where there are fewer
  bool float64_inputs;

  int64_t pixels() const { return int64_t{axes[0].in} * axes[1].in * axes[2].in; }
  int64_t outputs() const { return int64_t{axes[0].out} * axes[1].out * axes[2].out; }
};

// Throws InvalidArgument.
CheckedInterpolate check_interpolate(const msda_interpolate_call& call, const msda_tensor& grad_input);

}  // namespace msda::kernels
