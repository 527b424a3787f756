#include "replay/own/evaluation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "replay/own/bound_expressions.h"

namespace msda::replay {

using adapters::Expression;
using adapters::Refusal;
using analysis::Bounded;

namespace {

std::string outside(std::string_view name, const analysis::Index& shape, std::span<const int64_t> at) {
  return fmt::format("reads {}[{}], and its shape is {}", name, fmt::join(at, ","), shape);
}

std::optional<int64_t> place_in(const analysis::Index& shape, std::span<const int64_t> at) {
  int64_t flat = 0;
  for (size_t i = 0; i < at.size(); ++i) {
    if (at[i] < 0 || at[i] >= shape[i]) return std::nullopt;
    flat = flat * shape[i] + at[i];
  }
  return flat;
}

std::string absent(const BoundExpressions& bound, size_t tensor) {
  return fmt::format("reads {}, which the call does not have", bound.tensor_name(tensor));
}

}  // namespace

Evaluation::Evaluation(const BoundExpressions& bound)
    : bound_(bound),
      values_(bound.scalars()),
      named_([this](size_t name) -> Expression::Value {
        if (!values_.integers[name]) return Refusal{"a number that it names was not recorded, or is no integer"};
        return *values_.integers[name];
      }),
      elements_([this](size_t tensor, std::span<const int64_t> at) { return element(tensor, at); }) {}

Expression::Value Evaluation::element(size_t tensor, std::span<const int64_t> at) const {
  if (!bound_.has(tensor)) return Refusal{absent(bound_, tensor)};
  const analysis::NamedTensor& input = bound_.input(bound_.input_of(tensor));
  const auto flat = place_in(input.tensor.shape, at);
  if (!flat) return Refusal{outside(input.name, input.tensor.shape, at)};
  if (input.tensor.dtype == MSDA_INT32) return int64_t{static_cast<const int32_t*>(input.tensor.data)[*flat]};
  return static_cast<const int64_t*>(input.tensor.data)[*flat];
}

Evaluation::Result<int64_t> Evaluation::integer(const Expression& expression) const {
  auto value = expression.value(named_, elements_);
  if (auto* refusal = std::get_if<Refusal>(&value)) return std::move(refusal->reason);
  return std::get<int64_t>(value);
}

Evaluation::Result<analysis::Term::Input> Evaluation::input(const Expression& expression) const {
  if (auto refusal = expression.place(named_, elements_, at_)) return std::move(refusal->reason);
  const size_t tensor = expression.references().back().tensor;
  if (!bound_.has(tensor)) return absent(bound_, tensor);
  const size_t number = bound_.input_of(tensor);
  const analysis::NamedTensor& input = bound_.input(number);
  const auto flat = place_in(input.tensor.shape, {at_.data(), at_.size()});
  if (!flat) return outside(input.name, input.tensor.shape, {at_.data(), at_.size()});
  return analysis::Term::Input{number, *flat};
}

template <class Real, class Make, class OfStage>
Evaluation::Result<Real> Evaluation::real(const Expression& expression, const Make& make,
                                          const OfStage& of_stage) const {
  Real result{};
  std::string fault;
  const auto element_of = [&](size_t tensor, std::span<const int64_t> at) {
    const bool is_stage = tensor >= bound_.first_stage();
    if (!is_stage && !bound_.has(tensor)) {
      if (fault.empty()) fault = absent(bound_, tensor);
      return make(0.0);
    }
    const size_t number = is_stage ? tensor - bound_.first_stage() : bound_.input_of(tensor);
    const analysis::Index& shape = is_stage ? bound_.stage(number).shape : bound_.input(number).tensor.shape;
    const auto flat = place_in(shape, at);
    if (!flat) {
      if (fault.empty()) fault = outside(is_stage ? bound_.stage_name(number) : bound_.input(number).name, shape, at);
      return make(0.0);
    }
    if (reads_ != nullptr) (is_stage ? reads_->stages : reads_->inputs).push_back({number, *flat});
    if (is_stage) return of_stage(bound_.stage(number), static_cast<size_t>(*flat));
    const analysis::Tensor& input = bound_.input(number).tensor;
    if (kernels::is_float(input.dtype)) return make(input.at(*flat));
    return make(static_cast<double>(std::get<int64_t>(element(tensor, at))));
  };
  auto refusal = expression.real(
      result, named_, elements_, make, [&](size_t name) { return make(values_.reals[name]); }, element_of);
  if (refusal) return std::move(refusal->reason);
  if (!fault.empty()) return fault;
  return result;
}

Evaluation::Result<Bounded> Evaluation::bounded(const Expression& expression,
                                                const analysis::Precision& precision) const {
  const bool is_float64 = precision.bits == analysis::Precision::of(MSDA_FLOAT64).bits;
  return real<Bounded>(
      expression, [&](double x) { return Bounded(x, precision); },
      [&](const StageValues& stage, size_t flat) {
        return Bounded(stage.value[flat], is_float64 ? stage.float64_error[flat] : stage.error[flat], precision);
      });
}

Evaluation::Result<double> Evaluation::computed(const Expression& expression, msda_dtype type) const {
  auto result = real<Rounded>(
      expression,
      [&](double x) {
        return Rounded{x, type};
      },
      [&](const StageValues& stage, size_t flat) {
        return Rounded{stage.computed[flat], type};
      });
  if (auto* fault = std::get_if<std::string>(&result)) return std::move(*fault);
  return std::get<Rounded>(result).value;
}

Evaluation::Result<Evaluation::Holds> Evaluation::holds(const adapters::WhereSpec& where,
                                                        const analysis::Precision& precision) const {
  if (!where.is_real) {
    auto holds = where.condition.holds(named_, elements_);
    if (auto* refusal = std::get_if<Refusal>(&holds)) return std::move(refusal->reason);
    return Holds{std::get<bool>(holds), true};
  }
  auto left = bounded(where.condition.left(), precision), right = bounded(where.condition.right(), precision);
  for (auto* side : {&left, &right}) {
    if (auto* fault = std::get_if<std::string>(side)) return std::move(*fault);
  }
  const auto &a = std::get<Bounded>(left), &b = std::get<Bounded>(right);
  const double apart = a.value() - b.value(), error = a.error() + b.error();
  const bool exactly = where.condition.holds_for(apart);
  const bool surely = std::isnan(apart) || std::abs(apart) > error || error == 0;
  return Holds{exactly, surely};
}

}  // namespace msda::replay
