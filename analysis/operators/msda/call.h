// One backward call as the analysis sees it: sizes, conventions, inputs, and the place of a gradient's element in it.
#pragma once

#include <string>
#include <vector>

#include "analysis/tensor.h"
#include "kernels/msda.h"

namespace msda::analysis {

// The conventions, which decide where a location lands.
struct Conventions {
  msda_dialect dialect = MSDA_DEFORMABLE_DETR;
  msda_padding padding = MSDA_PADDING_ZEROS;
  bool align_corners = false;
};

struct LevelSize {
  int32_t height, width;
  int64_t start;
};

// Inputs that msda_backward() has accepted, contiguous.
struct Call {
  int64_t B = 0, S = 0, M = 0, D = 0, L = 0, Q = 0, P = 0;
  Conventions conventions;
  std::vector<LevelSize> levels;
  Tensor spatial_shapes;  // as given, of the same levels
  Tensor value, sampling_locations, attention_weights, grad_output;

  // The type in which kernels compute for these inputs.
  msda_dtype arithmetic() const;
};

// The call as the C ABI takes it, with any conventions. The tensors are views of the same memory.
struct AbiCall {
  msda_call call;
  msda_tensor grad_output;
};
AbiCall abi_call(const Call& call, const Conventions& conventions);
// The same for `count` queries of one batch from q on.
AbiCall abi_queries(const Call& call, const Conventions& conventions, int64_t b, int64_t q, int64_t count);
msda_tensor abi_tensor(const Tensor& tensor);

enum class Gradient { kValue, kSamplingLocations, kAttentionWeights };
inline constexpr Gradient kGradients[] = {Gradient::kValue, Gradient::kSamplingLocations, Gradient::kAttentionWeights};
const char* name_of(Gradient gradient);  // "grad_value", ...

// One sample, and the places of its numbers.
struct SampleId {
  int64_t b, q, m, l, p;

  int64_t flat(const Call& call) const { return (((b * call.Q + q) * call.M + m) * call.L + l) * call.P + p; }
  double location(const Call& call, int axis) const { return call.sampling_locations.at(2 * flat(call) + axis); }
  double attention(const Call& call) const { return call.attention_weights.at(flat(call)); }
  int64_t grad_output_row(const Call& call) const { return ((b * call.Q + q) * call.M + m) * call.D; }
};

// The sample of element `flat` of grad_attention_weights.
SampleId sample_of_weight(const Call& call, int64_t flat);

// Element [b, s, m, d] of value and of grad_value.
inline int64_t value_element(const Call& call, int64_t b, int64_t s, int64_t m, int64_t d) {
  return ((b * call.S + s) * call.M + m) * call.D + d;
}

// Side of a level along an axis: 0 is x, 1 is y.
inline int32_t side_of(const LevelSize& level, int axis) { return axis == 0 ? level.width : level.height; }

}  // namespace msda::analysis
