// Determines from a launch's results the conventions that its parameters do not show.
//
// If a kernel's padding is compiled in, or its image does not show the element type, its calls are recorded with
// assumed conventions. Before a call is written, the operator is run in float64 on the recorded inputs under each of
// the possible conventions; those that give the recorded outputs are the kernel's. If none does, the tensors were
// misread, and the call is not written.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/msda.h"

namespace msda::record {

struct Conventions {
  msda_padding padding;
  bool align_corners;
  msda_dtype float_type = MSDA_FLOAT32;  // the type of all floating-point tensors
  // Other conventions that give the recorded outputs as well: padding, and whether align_corners.
  std::vector<std::pair<msda_padding, bool>> others = {};

  bool are_only_ones() const { return others.empty(); }
  // Returns all of them, in words of a capture: "zeros align_corners, border align_corners".
  std::string all() const;
};

// Takes tensors by name: value, spatial_shapes, sampling_locations, attention_weights, grad_output, and the recorded
// grad_sampling_locations and grad_attention_weights. Returns nothing if no conventions of the dialect explain the
// outputs. If several do, as zeros and border do for a call whose samples all lie inside, returns the first, with the
// others. Tensors assumed to be float16 may turn out to be bfloat16.
std::optional<Conventions> confirm(msda_dialect dialect, const std::map<std::string, msda_tensor>& tensors);

}  // namespace msda::record
