#include "analysis/operators/scatter_add/call.h"

#include <fmt/format.h>

#include <utility>

namespace msda::analysis {
namespace {

Index with_size(const Index& shape, int64_t dim, int64_t size) {
  Index changed = shape;
  changed[static_cast<size_t>(dim)] = size;
  return changed;
}

}  // namespace

void ScatterAddCall::take_sizes() {
  outer_ = inner_ = 1;
  for (size_t i = 0; i < values.shape.size(); ++i) {
    if (i < static_cast<size_t>(dim)) outer_ *= values.shape[i];
    if (i > static_cast<size_t>(dim)) inner_ *= values.shape[i];
  }
  rows_ = values.shape[static_cast<size_t>(dim)];
  by_rows_ = index.shape.size() == 1;
  const auto layout = [&](int64_t rows) {
    return by_rows_ ? PlaceLayout{outer_, rows, 1, 1, inner_} : PlaceLayout{1, outer_ * rows * inner_, 1, 1, 1};
  };
  ScatterNames names{by_rows_ ? "source row" : "source element", {""}, {}, nullptr};
  if (by_frequency) names.weights = {"share"};
  set_layouts(layout(rows_), layout(dim_size), std::move(names));
  auto counts = std::make_shared<std::vector<int64_t>>(static_cast<size_t>(to_.places()));
  for (int64_t source = 0; index && source < from_.places(); ++source) {
    if (const int64_t target = target_of(source); target >= 0) ++(*counts)[static_cast<size_t>(target)];
  }
  counts_ = std::move(counts);
}

int64_t ScatterAddCall::named_target(int64_t source) const {
  auto row = static_cast<int64_t>(index.at(source));
  if (wraps && row < 0) row += dim_size;
  return by_rows_ ? row : (source / inner_ / rows_ * dim_size + row) * inner_ + source % inner_;
}

int64_t ScatterAddCall::target_of(int64_t source) const {
  if (padding && static_cast<int64_t>(index.at(source)) == *padding) return -1;
  return named_target(source);
}

Index ScatterAddCall::shape_of(Gradient) const { return with_size(values.shape, dim, dim_size); }

std::vector<NamedTensor> ScatterAddCall::inputs() const {
  std::vector<NamedTensor> all{{"source", values}};
  if (self) all.push_back({"self", self});
  return all;
}

std::vector<NamedTensor> ScatterAddCall::all_inputs() const {
  std::vector<NamedTensor> all{{"index", index}};
  for (const NamedTensor& input : inputs()) all.push_back(input);
  return all;
}

void ScatterAddCall::send(int64_t sample, const FactorArithmetic& by, const VisitContribution& visit) const {
  const int64_t target = target_of(sample);
  if (target < 0) return;
  Contribution contribution{target, sample};
  if (by_frequency) contribution.factors[0] = rounded_to(1 / static_cast<double>(count(target)), by.type);
  visit(contribution);
}

void ScatterAddCall::send_exactly(int64_t from_place, const Precision&, int, const VisitExact& visit) const {
  const int64_t target = target_of(from_place);
  if (target >= 0) visit({target, by_frequency ? 1 / static_cast<double>(count(target)) : 1});
}

std::optional<double> ScatterAddCall::held(int64_t flat) const {
  if (!self || !keeps_self(to_.at(flat).place)) return std::nullopt;
  return self.at(flat);
}

bool ScatterAddCall::visit_inputs(const ElementId& id, const Place& place, const Precision& precision, Cache& cache,
                                  const VisitInput& visit) const {
  if (held(id.flat) && visit("self", self, id.flat)) return true;
  return ScatterCall::visit_inputs(id, place, precision, cache, visit);
}

double ScatterAddCall::addends_in(int64_t target) const {
  const int64_t addends = mean ? count(target) + (include_self ? 1 : 0) : 1;
  return addends > 1 ? static_cast<double>(addends) : 1;
}

double ScatterAddCall::divisor(int64_t flat, const Place& place) const {
  if (!place.empty() && place[0].region != 0) return most_counted();
  return addends_in(to_.at(flat).place);
}

Axes ScatterAddCall::axes(const ElementId& id) const {
  const bool narrow = arithmetic_of(values.dtype) != values.dtype;
  const double addends = divisor(id.flat, {});
  if (!narrow || addends <= most_counted()) return {};
  return {{addends, 0, values.dtype}};
}

Landings ScatterAddCall::landings(const Axis&, const Precision& precision) const {
  Landing all{}, stopped{};
  stopped.region = 1;
  if (precision.bits > Precision::of(values.dtype).bits) return {all};
  return {all, stopped};
}

std::vector<Evaluation> ScatterAddCall::evaluations(const Axis& axis, msda_dtype) const {
  const Landings both = landings(axis, Precision::of(values.dtype));
  return {{fmt::format("divided by the {:g} addends", axis.location), axis.location, both[0]},
          {fmt::format("divided by {:g}, at which a count of its {:g} addends stops in {}", most_counted(),
                       axis.location, msda_dtype_name(values.dtype)),
           most_counted(), both[1], /*stops=*/true}};
}

std::vector<Cut> ScatterAddCall::cuts() const {
  // A shape has as many dimensions as there are symbols.
  static constexpr const char *kNames[] = {"dimension 0", "dimension 1", "dimension 2", "dimension 3",
                                           "dimension 4", "dimension 5", "dimension 6", "dimension 7"},
                              *kSymbols[] = {"D0", "D1", "D2", "D3", "D4", "D5", "D6", "D7"};
  std::vector<Cut> all;
  for (size_t i = 0; i < values.shape.size(); ++i) {
    const bool along = i == static_cast<size_t>(dim);
    all.push_back({along ? "source row" : kNames[i], along ? "R" : kSymbols[i], values.shape[i]});
  }
  return all;
}

std::vector<int> ScatterAddCall::cuts_of(std::string_view tensor) const {
  const auto along = static_cast<int>(dim);
  if (tensor == "index" && by_rows_) return {along};
  std::vector<int> all;
  for (int i = 0; i < static_cast<int>(values.shape.size()); ++i) {
    const bool has_source_rows = tensor == "index" || tensor == "source";
    all.push_back(i == along && !has_source_rows ? -1 : i);
  }
  return all;
}

std::shared_ptr<const Call> ScatterAddCall::with_tensors(std::vector<Tensor> tensors) const {
  auto call = std::make_shared<ScatterAddCall>(*this);
  call->index = tensors[0];
  call->values = tensors[1];
  if (tensors.size() > 2) call->self = tensors[2];
  call->take_sizes();
  return call;
}

}  // namespace msda::analysis
