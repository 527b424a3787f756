#include <fmt/format.h>

#include "analysis/model/abi.h"
#include "analysis/operators/msda/call.h"
#include "kernels/names.h"
#include "replay/base/errors.h"
#include "replay/calls/load_operator.h"
#include "replay/calls/operator_row.h"

namespace msda::replay {
namespace {

msda_dialect dialect_from(const std::string& name, const std::string& where) {
  check_dialect(name, where);
  return kernels::dialect_named(name).value();
}

msda_padding padding_from(const std::string& name, const std::string& where) {
  if (const auto padding = kernels::padding_named(name)) return *padding;
  throw BadInput(fmt::format("{}: unknown padding_mode \"{}\"; there are zeros and border", where, name));
}

std::shared_ptr<const analysis::Call> load_msda(const CallSource& source) {
  const auto& [invocation, where, input, recorded, before, reference] = source;
  auto call = std::make_shared<analysis::MsdaCall>();
  call->conventions = {dialect_from(invocation.facts.dialect, where),
                       padding_from(invocation.facts.padding_mode, where), invocation.facts.align_corners};
  call->image = input("value");
  call->spatial_shapes = input("spatial_shapes");
  call->locations = input("sampling_locations");
  call->factors = input("attention_weights");
  call->grad_output = input("grad_output");

  // A call without results only checks the shapes against each other.
  analysis::AbiCall abi = abi_call(*call);
  if (find(invocation.inputs, "level_start_index") != nullptr) {
    abi.call.level_start_index = abi_tensor(input("level_start_index"));
  }
  if (msda_backward(&abi.call, &abi.grad_output, nullptr, nullptr, nullptr, nullptr) != MSDA_OK) {
    throw BadInput(fmt::format("{}: {}", where, msda_last_error()));
  }
  call->take_sizes();
  return call;
}

}  // namespace

extern const OperatorLoader loader_of_msda{load_msda};

}  // namespace msda::replay
