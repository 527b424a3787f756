// Calls of msda_backward of our own C ABI, on the CPU: the recorder's msda_backward takes them, records them, and calls
// the real one.
#include <string_view>

#include "kernels/msda.h"
#include "recorder/preload/launch/abi_calls.h"
#include "recorder/preload/hooks/interpose.h"
#include "recorder/preload/session/recording.h"

namespace msda::record {
namespace {

using Backward = decltype(&msda_backward);
RealFunction<Backward> real_backward;

// Empty for a call that makes no sense or is not asked for.
std::optional<Ticket> begin_call(const msda_call* call, const msda_tensor* grad_output, const Wanted& to) {
  if (call == nullptr || grad_output == nullptr || !wanted("msda_backward")) return std::nullopt;
  const auto facts = facts_of("msda_backward", *call);
  if (!facts) return std::nullopt;
  Copies inputs;
  inputs.add("value", &call->value);
  inputs.add("spatial_shapes", &call->spatial_shapes);
  if (call->level_start_index.rank > 0) inputs.add("level_start_index", &call->level_start_index);
  inputs.add("sampling_locations", &call->sampling_locations);
  inputs.add("attention_weights", &call->attention_weights);
  inputs.add("grad_output", grad_output);
  if (!inputs.ok()) return std::nullopt;
  // It overwrites its outputs: what they held before decides nothing.
  return begin(*facts, inputs.tensors(), in_words(to));
}

}  // namespace

void* substitute_cpu_call(const char* name, void* found) noexcept {
  if (std::string_view(name) != "msda_backward") return nullptr;
  return real_backward.substitute(&msda_backward, found);
}

}  // namespace msda::record

extern "C" MSDA_API msda_status msda_backward(const msda_call* call, const msda_tensor* grad_output,
                                              const msda_options* options, const msda_tensor* grad_value,
                                              const msda_tensor* grad_sampling_locations,
                                              const msda_tensor* grad_attention_weights) {
  using namespace msda::record;
  const Backward real = real_backward.get("msda_backward");
  if (real == nullptr) return MSDA_INTERNAL_ERROR;
  std::optional<Ticket> ticket;
  try {
    ticket = begin_call(call, grad_output, {grad_value, grad_sampling_locations, grad_attention_weights});
  } catch (...) {  // no memory for a copy
  }
  const msda_status status =
      real(call, grad_output, options, grad_value, grad_sampling_locations, grad_attention_weights);
  if (ticket && status == MSDA_OK) {
    try {
      Copies outputs;
      outputs.add("grad_value", grad_value);
      outputs.add("grad_sampling_locations", grad_sampling_locations);
      outputs.add("grad_attention_weights", grad_attention_weights);
      end(*ticket, outputs.tensors());
    } catch (...) {
    }
  }
  return status;
}
