#include "analysis/operators/scatter/call.h"

#include <fmt/format.h>

#include <cmath>

#include "analysis/model/evaluate.h"
#include "analysis/operators/scatter/table.h"

namespace msda::analysis {

void ScatterCall::set_layouts(const PlaceLayout& from, const PlaceLayout& to, ScatterNames names) {
  from_ = from;
  to_ = to;
  names_ = std::move(names);
  tables_ = std::make_shared<ScatterTables>();
}

void ScatterCall::terms(const ElementId& id, const Place& place, const Precisions& precisions, Cache&,
                        const VisitTerm& visit) const {
  const auto at = to_.at(id.flat);
  const int64_t channel = from_.of_channel(at.channel);
  Term term;
  term.inputs.push_back({});
  term.may_split = !names_.weights.empty();
  const Precision precision = coordinate_precision(precisions.coordinates);
  for (const ScatterTable::Entry& entry : tables_->exact(*this, precision, way_of(place)).entries(at.place)) {
    term.inputs[0].flat = entry.first + channel;
    term.weight = entry.weight;
    term.error = entry.error;
    term.is_signed = entry.is_signed;
    term.number = entry.source;
    visit(term);
  }
}

void ScatterCall::computed_terms(const ElementId& id, Cache&, const VisitTerm& visit) const {
  const auto at = to_.at(id.flat);
  Term term;
  term.inputs.push_back({});
  for (const ScatterTable::Entry& entry : tables_->computed(*this).entries(at.place)) {
    term.inputs[0].flat = entry.first + from_.of_channel(at.channel);
    term.computed = entry.weight;
    term.number = entry.source;
    visit(term);
  }
}

std::string ScatterCall::text_of_term(Gradient, int64_t number) const {
  return fmt::format("the contribution of {} {}", names_.source, number);
}

std::vector<Mistake> ScatterCall::last_mistakes(const ElementId& id, Cache& cache) const {
  const auto at = to_.at(id.flat);
  std::vector<Mistake> all;
  for (const int64_t neighbour : {at.place - 1, at.place + 1}) {
    if (neighbour < 0 || neighbour >= to_.places()) continue;
    all.push_back({"it were that of " + target_text(neighbour),
                   float64_value(*this, {id.gradient, to_.flat({neighbour, at.channel}), {}}, cache)});
  }
  return all;
}

Loss ScatterCall::loss_at(const ElementId& id, double x) const {
  const auto at = to_.at(id.flat);
  const double divided = divisor(id.flat, {});
  Loss loss;
  const auto add = [&](double factor) {
    const long double addend = static_cast<long double>(factor) * x / divided;
    loss.value += addend;
    loss.magnitude += std::abs(addend);
  };
  const int64_t channel = from_.of_channel(at.channel);
  for (const auto& entry : tables_->exact(*this, coordinate_precision(Precision::of(MSDA_FLOAT64))).entries(at.place)) {
    add(entry.weight * source().at(entry.first + channel));
  }
  if (const auto before = held(id.flat)) add(*before);
  return loss;
}

bool ScatterCall::visit_inputs(const ElementId& id, const Place& place, const Precision& precision, Cache&,
                               const VisitInput& visit) const {
  const auto at = to_.at(id.flat);
  const ScatterTable& table = tables_->exact(*this, coordinate_precision(precision), way_of(place));
  const NamedTensor numbers = inputs().front();
  for (const ScatterTable::Entry& entry : table.entries(at.place)) {
    if (visit(numbers.name, numbers.tensor, from_.flat({entry.source, at.channel}))) return true;
  }
  return false;
}

const char* ScatterCall::name_of(Step step) const {
  if (step == kGradOutput) return inputs().front().name;
  return step == kInterpolationWeights ? "weights" : Call::name_of(step);
}

}  // namespace msda::analysis
