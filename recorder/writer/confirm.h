// Conventions that a launch's parameters do not tell, told by its results.
//
// A kernel with its padding compiled in, or with the element type nowhere in its image, is recorded on a supposition.
// Before the call goes into a capture, the supposition is held against the call's own outputs: the operator is run in
// float64 on the recorded inputs under each of the conventions, and those that give the recorded outputs are the
// kernel's. If none does, the tensors are not what they were taken for, and the call is not written.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "kernels/msda.h"

namespace msda::record {

struct Conventions {
  msda_padding padding;
  bool align_corners;
  bool only_ones;                        // no other conventions give the recorded outputs as well
  msda_dtype float_type = MSDA_FLOAT32;  // of all floating-point tensors
};

// By name: value, spatial_shapes, sampling_locations, attention_weights, grad_output, and the recorded
// grad_sampling_locations and grad_attention_weights. Empty if no conventions of the dialect explain the outputs. Where
// several do, as zeros and border do for a call whose samples all lie inside, the first is returned, and only_ones is
// false. Tensors said to be float16 may turn out to be bfloat16.
std::optional<Conventions> confirm(msda_dialect dialect, const std::map<std::string, msda_tensor>& tensors);

}  // namespace msda::record
