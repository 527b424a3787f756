#include "replay/calls/load_operator.h"

#include <algorithm>

#include "kernels/operator_rows.h"
#include "replay/base/errors.h"
#include "replay/calls/operator_row.h"
#include "replay/own/own_call.h"
#include "replay/own/own_operator.h"

namespace msda::replay {

#define MSDA_DECLARE(name) extern const OperatorLoader loader_of_##name;
MSDA_OPERATORS(MSDA_DECLARE)
#undef MSDA_DECLARE

const OperatorLoader* loader_of(const std::string& operator_name) {
#define MSDA_RETURN(name) \
  if (operator_name == #name) return &loader_of_##name;
  MSDA_OPERATORS(MSDA_RETURN)
#undef MSDA_RETURN
  return nullptr;
}

std::string operator_of(const capture::Invocation& invocation) {
  if (const OwnOperator* own = own_operator_of(invocation)) return own->name();
  const auto rows = operator_rows();
  const auto found = std::ranges::find_if(rows, [&](const OperatorRow& row) { return row.marks(invocation); });
  return found == rows.end() ? "" : found->name;
}

std::shared_ptr<const analysis::Call> call_of(const CallSource& source) {
  if (const OwnOperator* own = own_operator_of(source.invocation)) {
    const auto input = [&](const std::string& name) { return source.input(name.c_str()); };
    const auto result = [&](const std::string& name) { return source.recorded(name.c_str()); };
    return own->bind(source.invocation, source.where, input, result);
  }
  const OperatorLoader* loader = loader_of(operator_of(source.invocation));
  if (loader == nullptr) throw BadInput(source.where + ": no operator that is known has such a call");
  return loader->load(source);
}

}  // namespace msda::replay
