#include "analysis/model/defined_call.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "analysis/model/evaluate.h"
#include "analysis/numbers/by_chance.h"
#include "analysis/numbers/rounding.h"

namespace msda::analysis {
namespace {

void divide(Element& element, double divisor, const Precision& precision) {
  if (divisor == 1) return;
  element.value /= divisor;
  element.cancelled /= divisor;
  element.from_coordinates /= divisor;
  const double last = 2 * precision.unit * std::abs(element.value) + precision.tiny;
  element.from_rounding = element.from_rounding / divisor + last;
  element.certain = element.certain / divisor + last;
}

// The inputs of a term multiplied, and what any product of some of them may grow to.
struct InputProduct {
  double value = 1, growth = 1;

  InputProduct(const DefinedCall& call, const Term& term, const Narrowing* narrowing) {
    for (const Term::Input& input : term.inputs) {
      const double x = call.number(input);
      value *= narrowing == nullptr ? x : narrowing->round(kGradOutput, x);
      growth *= at_least_1(x);
    }
  }
};

}  // namespace

Element DefinedCall::element(const ElementId& id, const Place& place, const Precisions& precisions,
                             const Narrowing* narrowing, Cache& cache) const {
  const Precision& precision = precisions.rest;
  Element element;
  // Rounding is linear in the addends: that of what the coordinates' errors change comes on top.
  SumBound sum, changes;
  terms(id, place, precisions, cache, [&](const Term& term) {
    const auto [product, growth] = InputProduct(*this, term, narrowing);
    const double sign = term.sign();
    if (term.may_split && !std::isfinite(product)) {
      element.may_be_nan = true;
      // If rounding decides whether the term is added, its NaN is no bound.
      if (sign == 0) {
        if (std::isinf(product) && term.error > 0) {
          element.partials.add(weights_change_sign() ? 0 : product, INFINITY);
        }
        return;
      }
    }
    Uncertain weight{term.weight, term.error};
    if (narrowing != nullptr) weight = narrowing->round(kInterpolationWeights, weight);
    Uncertain addend{weight.value * product, weight.error == 0 || product == 0 ? 0 : weight.error * std::abs(product)};
    if (narrowing != nullptr) addend = narrowing->round(kAddends, addend);
    sum.add(addend.value, 0, growth * at_least_1(term.weight));
    if (addend.error > 0) changes.add(addend.error, 0, 1);
    const double reach = term.inputs.size() == 1 && !std::isnan(product) ? std::abs(product) : growth;
    element.partials.add(std::isinf(product) ? sign * product : addend.sign(),
                         std::max({1.0, term.error, std::abs(term.weight) + term.error}) * reach);
  });
  if (const auto before = held(id.flat)) {
    sum.add(*before, 0, at_least_1(*before));
    element.partials.add(*before, std::abs(*before));
  }
  element.take_sum(sum, precision);
  element.cancelled = sum.magnitude();
  element.from_coordinates = changes.sum() + changes.bound(precision);
  divide(element, divisor(id.flat, place), precision);
  return element;
}

Addends DefinedCall::addends(const ElementId& id, Cache& cache) const {
  const msda_dtype type = arithmetic();
  Addends addends;
  addends.scale = 1 / divisor(id.flat, {});
  if (const auto before = held(id.flat)) addends.values.push_back(*before);
  computed_terms(id, cache, [&](const Term& term) {
    double product = rounded_to(term.computed, type);
    for (size_t i = 0; i < term.inputs.size(); ++i) {
      // Times 1 is exact, and so is a sign: the order of the products is that of the inputs.
      const double exact = product * number(term.inputs[i]);
      product = i == 0 && std::abs(product) == 1 ? exact : rounded_to(exact, type);
    }
    addends.values.push_back(rounded_to(product, type));
  });
  return addends;
}

std::vector<Mistake> DefinedCall::mistakes(const ElementId& id, const Place& place, const Element& exact,
                                           const Precision& precision, Cache& cache) const {
  struct Lost {
    int64_t number;
    double value;
  };
  const double divided = divisor(id.flat, {});
  std::vector<Mistake> mistakes = first_mistakes(id, exact);
  const auto before = held(id.flat);
  if (before) {
    mistakes.push_back({"what it held before were left out", exact.value - *before / divided});
    mistakes.push_back({"nothing were added to what it held before", *before});
    mistakes.push_back({"what it held before were added twice", exact.value + *before / divided});
  }
  std::vector<Lost> parts;
  double unweighted = before.value_or(0);
  bool any_weight = false;
  terms(id, place, {precision, precision}, cache, [&](const Term& term) {
    const double product = InputProduct(*this, term, nullptr).value;
    if (parts.empty() || parts.back().number != term.number) parts.push_back({term.number, 0});
    parts.back().value += term.weight * product / divided;
    unweighted += product;
    any_weight = any_weight || term.weight != 1;
  });
  SpreadOfAddends spread;
  for (const Lost& part : parts) spread.add(part.value);
  if (!spread.leaves_it_to_chance(exact.bound())) {
    for (const Lost& part : parts) {
      const std::string text = text_of_term(id.gradient, part.number) + " were";
      mistakes.push_back({text + " missing", exact.value - part.value});
      mistakes.push_back({text + " added twice", exact.value + part.value});
    }
  }
  if (any_weight) mistakes.push_back({"the weights were not multiplied in", unweighted});
  mistakes.push_back({"everything were added twice", 2 * exact.value - before.value_or(0) / divided});
  std::ranges::move(last_mistakes(id, cache), std::back_inserter(mistakes));
  return mistakes;
}

}  // namespace msda::analysis
