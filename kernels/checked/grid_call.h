// From grid_sample's C structures to checked sizes, or an error that names what is wrong.
#pragma once

#include "kernels/checked/call.h"
#include "kernels/cpu/grid_table.h"
#include "kernels/grid_sample.h"

namespace msda::kernels {

// Sizes and conventions of a call whose tensors have been checked against one another. Every product of sizes that the
// kernels form fits in int64.
struct CheckedGridCall : cpu::GridConventions {
  int64_t N, C, pixels, samples;
  int axes;
  int32_t sides[3];
  bool float64_inputs;
};

// Throws InvalidArgument.
CheckedGridCall check_grid_call(const msda_grid_sample_call& call, const msda_tensor& grad_output);

inline constexpr uint32_t kAllGridStages = (1u << MSDA_GRID_STAGE_COUNT) - 1;

// Returns a view of a tensor [N,C,...] as [N,...,C].
msda_tensor channels_last(const msda_tensor& tensor);

}  // namespace msda::kernels
