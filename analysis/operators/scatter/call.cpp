#include "analysis/operators/scatter/call.h"

#include <algorithm>

#include "analysis/operators/scatter/table.h"

namespace msda::analysis {

bool ScatterCall::visit_inputs(const ElementId& id, const Place& place, const Precision& precision, Cache& cache,
                               const VisitInput& visit) const {
  const auto at = to().at(id.flat);
  const ScatterTable& table = static_cast<ScatterCache&>(cache).exact(coordinate_precision(precision), way_of(place));
  const NamedTensor numbers = inputs().front();
  for (const ScatterTable::Entry& entry : table.entries(at.place)) {
    if (visit(numbers.name, numbers.tensor, from().flat({entry.source, at.channel}))) return true;
  }
  return false;
}

const char* ScatterCall::name_of(Step step) const {
  if (step == kGradOutput) return inputs().front().name;
  return step == kInterpolationWeights ? "weights" : Call::name_of(step);
}

}  // namespace msda::analysis
