// From an invocation to the expressions of its operator, checked.
#include <fmt/format.h>

#include "replay/base/errors.h"
#include "replay/own/bound_expressions.h"

namespace msda::replay {

std::shared_ptr<const analysis::OwnDefinition> ExpressionOperator::bind(const capture::Invocation& invocation,
                                                                        const std::string& where,
                                                                        const GetOwnTensor& input,
                                                                        const GetOwnTensor& output) const {
  std::vector<OutputAxes> outputs;
  for (const adapters::OutputSpec& spec : op().outputs) outputs.push_back({spec.tensor, spec.index});
  const analysis::Coordinates sizes = recorded_sizes(spec_, outputs, dimensions(), invocation, where, output);
  const size_t names = names_.index(op().indices.size()) + 2 * std::max<size_t>(1, adapters::kMostCoordinates);
  const std::vector<size_t> present = inputs_of(invocation);
  auto bound = std::make_shared<BoundExpressions>(*this, recorded_values(spec_, names, invocation, where), present,
                                                  recorded_inputs(spec_, present, invocation, where, input), sizes,
                                                  fmt::format("{}: operator {}", where, name()));
  if (const auto fault = bound->fault(0)) throw BadInput(fmt::format("{}: operator {}: {}", where, name(), *fault));
  return bound;
}

}  // namespace msda::replay
