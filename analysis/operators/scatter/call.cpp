#include "analysis/operators/scatter/call.h"

#include <algorithm>

#include "analysis/operators/scatter/table.h"

namespace msda::analysis {

msda_dtype ScatterCall::arithmetic() const {
  for (const NamedTensor& input : inputs()) {
    if (input.tensor.dtype == MSDA_FLOAT64) return MSDA_FLOAT64;
  }
  return MSDA_FLOAT32;
}

std::vector<int64_t> ScatterCall::some_of_family(Gradient, int64_t, int64_t most) const {
  const int64_t all = to().elements(), count = std::min(all, most);
  std::vector<int64_t> elements;
  for (int64_t i = 0; i < count; ++i) elements.push_back(i * all / count);
  return elements;
}

bool ScatterCall::visit_inputs(const Conventions&, const ElementId& id, const Place& place, const Precision& precision,
                               Cache& cache, const VisitInput& visit) const {
  const auto at = to().at(id.flat);
  const ScatterTable& table = static_cast<ScatterCache&>(cache).get(coordinate_precision(precision), way_of(place));
  const NamedTensor numbers = inputs().front();
  for (const ScatterTable::Entry& entry : table.exact(at.place)) {
    if (visit(numbers.name, numbers.tensor, from().flat({entry.source, at.channel}))) return true;
  }
  return false;
}

bool ScatterCall::visit_stages(const Conventions& side_conventions, const ElementId& id, const Precision&, Cache& cache,
                               const VisitStage& visit) const {
  const Addends all = addends(side_conventions, id, cache);
  if (visit("addends", all.values)) return true;
  double sum = 0;
  for (const double addend : all.values) sum = rounded_to(sum + addend, arithmetic());
  return visit(id.gradient.name(), {rounded_to(sum * all.scale, arithmetic())});
}

const char* ScatterCall::name_of(Step step) const {
  switch (step) {
    case kGradOutput:
      return inputs().front().name;
    case kLocations:
      return "coordinates";
    case kInterpolationWeights:
      return "weights";
    case kAddends:
      return "addends";
    case kSums:
      return "sums";
    case kResult:
      return "result";
    default:
      return "?";  // steps that these operators lack
  }
}

std::vector<NamedConventions> ScatterCall::conventions_to_show(const Conventions*) const {
  return {{"deterministic", conventions}};
}

std::vector<Arithmetic> ScatterCall::arithmetics() const {
  return {{"float64", conventions, MSDA_MODE_FLOAT64}, {"deterministic", conventions, MSDA_MODE_DETERMINISTIC}};
}

}  // namespace msda::analysis
