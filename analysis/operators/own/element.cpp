// The elements of an operator of the user's own: exact values with bounds, and their addends.
#include <algorithm>
#include <cmath>

#include "analysis/model/evaluate.h"
#include "analysis/numbers/rounding.h"
#include "analysis/operators/own/call.h"

namespace msda::analysis {
namespace {

// Returns how far the coordinates' errors may move the weight of each of an element's terms: weights change evenly
// between the ends of these errors, so that one of the ends is the farthest.
std::vector<double> errors_of_weights(const OwnDefinition& is, const ElementId& id, const Place& place,
                                      const OwnCells& cells, const Precision& precision) {
  std::vector<double> weights, errors;
  is.terms(id.gradient.place(), id.flat, cells, precision,
           [&](const OwnTerm& term) { weights.push_back(term.weight); });
  errors.resize(weights.size());
  const bool anywhere = std::ranges::any_of(place, [](const Landing& at) { return !std::isfinite(at.error); });
  if (anywhere) {
    std::ranges::fill(errors, INFINITY);
    return errors;
  }
  for (unsigned ends = 0; ends < 1u << place.size(); ++ends) {
    OwnCells moved = cells;
    for (size_t axis = 0; axis < place.size(); ++axis) {
      moved[axis].fraction += (ends >> axis & 1) != 0 ? place[axis].error : -place[axis].error;
    }
    size_t i = 0;
    is.terms(id.gradient.place(), id.flat, moved, precision, [&](const OwnTerm& term) {
      errors[i] = std::max(errors[i], std::abs(term.weight - weights[i]));
      ++i;
    });
  }
  return errors;
}

}  // namespace

Element OwnCall::element(const ElementId& id, const Place& place, const Precisions& precisions,
                         const Narrowing* narrowing, Cache&) const {
  const Precision& precision = precisions.rest;
  const OwnCells cells = cells_of(place);
  const auto errors =
      place.empty() ? std::vector<double>{} : errors_of_weights(*definition_, id, place, cells, precision);
  const auto& tensors = definition_->inputs();
  Element element;
  // Rounding is linear in the addends: that of what the coordinates' errors change comes on top.
  SumBound sum, changes;
  size_t number = 0;
  definition_->terms(id.gradient.place(), id.flat, cells, precision, [&](const OwnTerm& term) {
    double product = 1, growth = at_least_1(term.weight);
    for (const OwnTerm::Input& input : term.inputs) {
      const double x = tensors[input.tensor].tensor.at(input.flat);
      product *= narrowing == nullptr ? x : narrowing->round(kGradOutput, x);
      growth *= at_least_1(x);
    }
    const double error = term.error + (errors.empty() ? 0 : errors[number++]);
    Uncertain addend{term.weight * product, error == 0 || product == 0 ? 0 : error * std::abs(product)};
    if (narrowing != nullptr) addend = narrowing->round(kAddends, addend);
    sum.add(addend.value, 0, growth);
    if (addend.error > 0) changes.add(addend.error, 0, 1);
    element.partials.add(std::isinf(product) ? Uncertain{term.weight, error}.sign() * product : addend.sign(),
                         growth + addend.error);
  });
  element.take_sum(sum, precision);
  element.cancelled = sum.magnitude();
  element.from_coordinates = changes.sum() + changes.bound(precision);
  return element;
}

std::vector<OwnCall::NumberedAddend> OwnCall::addends_in(const ElementId& id, msda_dtype type) const {
  const auto& tensors = definition_->inputs();
  std::vector<NumberedAddend> all;
  const auto visit = [&](const OwnTerm& term) {
    double product = rounded_to(term.computed, type);
    for (size_t i = 0; i < term.inputs.size(); ++i) {
      const double x = tensors[term.inputs[i].tensor].tensor.at(term.inputs[i].flat);
      // Times 1 is exact, and so is a sign: the order of the products is that of the inputs.
      product = i == 0 && std::abs(product) == 1 ? product * x : rounded_to(product * x, type);
    }
    all.push_back({term.number, rounded_to(product, type)});
  };
  definition_->terms(id.gradient.place(), id.flat, cells_of(computed_place(id, type)), Precision::of(type), visit);
  return all;
}

Addends OwnCall::addends(const ElementId& id, Cache&) const {
  Addends addends;
  for (const NumberedAddend& addend : addends_in(id, arithmetic())) addends.values.push_back(addend.value);
  return addends;
}

bool OwnCall::visit_inputs(const ElementId& id, const Place& place, const Precision&, Cache&,
                           const VisitInput& visit) const {
  const auto& tensors = definition_->inputs();
  // Reading cannot be left early, so that what comes after the first hit is passed over.
  bool found = false;
  definition_->reads(id.gradient.place(), id.flat, cells_of(place.empty() ? exact_place(id) : place),
                     [&](const OwnTerm::Input& input) {
                       if (!found) found = visit(tensors[input.tensor].name, tensors[input.tensor].tensor, input.flat);
                     });
  return found;
}

}  // namespace msda::analysis
