// The elements of a scattered gradient, exact and with bounds, and their addends.
#include <algorithm>
#include <cmath>

#include "analysis/model/evaluate.h"
#include "analysis/numbers/rounding.h"
#include "analysis/operators/scatter/table.h"

namespace msda::analysis {
namespace {

double given(const Narrowing* narrowing, double x) {
  return narrowing == nullptr ? x : narrowing->round(kGradOutput, x);
}

// Returns a contribution, rounded as a narrowing has it.
Uncertain term_of(const Narrowing* narrowing, const ScatterTable::Entry& entry, double number) {
  Uncertain weight{entry.weight, entry.error};
  if (narrowing != nullptr) weight = narrowing->round(kInterpolationWeights, weight);
  const Uncertain term{weight.value * number, weight.error * std::abs(number)};
  return narrowing == nullptr ? term : narrowing->round(kAddends, term);
}

void divide(Element& element, double divisor, const Precision& precision) {
  if (divisor == 1) return;
  element.value /= divisor;
  element.cancelled /= divisor;
  element.from_coordinates /= divisor;
  const double last = 2 * precision.unit * std::abs(element.value) + precision.tiny;
  element.from_rounding = element.from_rounding / divisor + last;
  element.certain = element.certain / divisor + last;
}

}  // namespace

std::unique_ptr<Cache> ScatterCall::new_cache() const { return std::make_unique<ScatterCache>(*this); }

Element ScatterCall::element(const ElementId& id, const Place& place, const Precisions& precisions,
                             const Narrowing* narrowing, Cache& cache) const {
  const Precision& precision = precisions.rest;
  const auto at = to().at(id.flat);
  const ScatterTable& table =
      static_cast<ScatterCache&>(cache).exact(coordinate_precision(precisions.coordinates), way_of(place));
  const Tensor& numbers = source();
  const int64_t channel = from().of_channel(at.channel);
  Element element;
  // Rounding is linear in the addends: that of what the coordinates' errors change comes on top.
  SumBound sum, changes;
  for (const ScatterTable::Entry& entry : table.entries(at.place)) {
    const double number = given(narrowing, numbers.at(entry.first + channel));
    // If rounding decides whether this source comes here, its NaN is no bound.
    const double sign = entry.sign();
    // Kernels may add a source several times here, with weights that are 0 or cancel.
    if (!std::isfinite(number) && !names().weights.empty()) element.may_be_nan = true;
    if (!std::isfinite(number) && sign == 0) {
      if (std::isinf(number) && entry.error > 0) element.partials.add(weights_change_sign_ ? 0 : number, INFINITY);
      continue;
    }
    const Uncertain term = term_of(narrowing, entry, number);
    sum.add(term.value, 0, at_least_1(number));
    if (term.error > 0) changes.add(term.error, 0, 1);
    element.partials.add(std::isinf(number) ? sign * number : term.sign(),
                         std::max(1.0, std::abs(entry.weight) + entry.error) * std::abs(number));
  }
  if (const auto before = held(id.flat)) {
    sum.add(*before, 0, at_least_1(*before));
    element.partials.add(*before, std::abs(*before));
  }
  element.take_sum(sum, precision);
  element.cancelled = sum.magnitude();
  element.from_coordinates = changes.sum() + changes.bound(precision);
  divide(element, divisor(at.place), precision);
  return element;
}

double ScatterCall::exact_value(int64_t flat, Cache& cache) const {
  return float64_value(*this, {gradient(), flat, {}}, cache);
}

Addends ScatterCall::addends(const ElementId& id, Cache& cache) const {
  const auto at = to().at(id.flat);
  const Tensor& numbers = source();
  const int64_t channel = from().of_channel(at.channel);
  const msda_dtype type = static_cast<ScatterCache&>(cache).arithmetic();
  const auto entries = static_cast<ScatterCache&>(cache).computed().entries(at.place);
  Addends addends;
  addends.scale = 1 / divisor(at.place);
  addends.values.reserve(entries.size() + 1);
  if (const auto before = held(id.flat)) addends.values.push_back(*before);
  for (const ScatterTable::Entry& entry : entries) {
    addends.values.push_back(rounded_to(entry.weight * numbers.at(entry.first + channel), type));
  }
  return addends;
}

Loss ScatterCall::loss_at(const ElementId& id, double x) const {
  const auto at = to().at(id.flat);
  const Tensor& numbers = source();
  Loss loss;
  const auto add = [&](double factor) {
    const long double addend = static_cast<long double>(factor) * x / divisor(at.place);
    loss.value += addend;
    loss.magnitude += std::abs(addend);
  };
  for (int64_t from_place = 0; from_place < from().places(); ++from_place) {
    send_exactly(from_place, Precision::of(MSDA_FLOAT64), 0, [&](const ExactContribution& contribution) {
      if (contribution.target == at.place) add(contribution.weight * numbers.at(from().flat({from_place, at.channel})));
    });
  }
  if (const auto before = held(id.flat)) add(*before);
  return loss;
}

}  // namespace msda::analysis
