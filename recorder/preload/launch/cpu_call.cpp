// Records calls of msda_backward of our own C ABI, on the CPU.
#include <optional>
#include <string_view>
#include <utility>

#include "kernels/msda.h"
#include "recorder/preload/launch/abi_call.h"
#include "recorder/preload/session/recording.h"

namespace msda::record {
namespace {

// Returns nothing for an invalid call or one that is not selected.
std::optional<HostCall> begin_call(const msda_call* call, const msda_tensor* grad_output, const msda_options* options,
                                   const WantedOutputs& to) {
  if (call == nullptr || grad_output == nullptr || !recording().wants("msda_backward")) return std::nullopt;
  const auto facts = facts_of("msda_backward", *call, options, /*has_seed=*/true);
  if (!facts) return std::nullopt;
  Copies inputs;
  inputs.add("value", &call->value);
  inputs.add("spatial_shapes", &call->spatial_shapes);
  if (call->level_start_index.rank > 0) inputs.add("level_start_index", &call->level_start_index);
  inputs.add("sampling_locations", &call->sampling_locations);
  inputs.add("attention_weights", &call->attention_weights);
  inputs.add("grad_output", grad_output);
  if (!inputs.ok()) return std::nullopt;
  // The function overwrites its outputs, so what they held before does not matter.
  return recording().begin_call(*facts, inputs.tensors(), describe_outputs(to));
}

}  // namespace

msda_status record_cpu_call(decltype(msda_backward)* real, const msda_call* call, const msda_tensor* grad_output,
                            const msda_options* options, const msda_tensor* grad_value,
                            const msda_tensor* grad_sampling_locations, const msda_tensor* grad_attention_weights) {
  std::optional<HostCall> recorded;
  try {
    const WantedOutputs to{grad_value, grad_sampling_locations, grad_attention_weights};
    recorded = begin_call(call, grad_output, options, to);
  } catch (...) {  // no memory for a copy
  }
  const msda_status status =
      real(call, grad_output, options, grad_value, grad_sampling_locations, grad_attention_weights);
  if (recorded && status == MSDA_OK) {
    try {
      Copies outputs;
      outputs.add("grad_value", grad_value);
      outputs.add("grad_sampling_locations", grad_sampling_locations);
      outputs.add("grad_attention_weights", grad_attention_weights);
      recording().end_call(*std::move(recorded), outputs.tensors());
    } catch (...) {
    }
  }
  return status;
}

}  // namespace msda::record
