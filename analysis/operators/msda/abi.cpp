#include "analysis/model/abi.h"

#include "analysis/operators/msda/call.h"
#include "kernels/names.h"

namespace msda::analysis {

AbiCall abi_call(const MsdaCall& call) {
  AbiCall abi{};
  abi.call.dialect = call.conventions.dialect;
  abi.call.padding = call.conventions.padding;
  abi.call.align_corners = call.conventions.align_corners;
  abi.call.value = abi_tensor(call.image);
  abi.call.spatial_shapes = abi_tensor(call.spatial_shapes);
  abi.call.sampling_locations = abi_tensor(call.locations);
  abi.call.attention_weights = abi_tensor(call.factors);
  abi.grad_output = abi_tensor(call.grad_output);
  return abi;
}

AbiCall abi_queries(const MsdaCall& call, int64_t b, int64_t q, int64_t count) {
  AbiCall abi = abi_call(call);
  for (msda_tensor* tensor :
       {&abi.call.value, &abi.call.sampling_locations, &abi.call.attention_weights, &abi.grad_output}) {
    keep_part(*tensor, 0, b, 1);
    if (tensor != &abi.call.value) keep_part(*tensor, 1, q, count);
  }
  return abi;
}

std::span<const char* const> MsdaCall::float64_stages() const { return kernels::kStageNames; }

void MsdaCall::run_kernels(const msda_options& options, std::span<const Tensor> results) const {
  const AbiCall abi = abi_call(*this);
  const msda_tensor of_value = abi_tensor(results[0]), of_locations = abi_tensor(results[1]),
                    of_weights = abi_tensor(results[2]);
  throw_unless_ok(msda_backward(&abi.call, &abi.grad_output, &options, &of_value, &of_locations, &of_weights));
}

}  // namespace msda::analysis
