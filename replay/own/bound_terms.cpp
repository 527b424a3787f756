// The terms of one element of an operator's output, as its expressions have them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstring>

#include "kernels/walk.h"
#include "replay/own/bound_expressions.h"
#include "replay/own/looked_at.h"

namespace msda::replay {

using adapters::AddendSpec;
using adapters::Expression;
using adapters::OutputSpec;
using adapters::Refusal;
using analysis::Tensor;

// Evaluates the expressions of one element, in one thread.
class TermLooker {
 public:
  TermLooker(const BoundExpressions& bound, size_t output, int64_t flat)
      : bound_(bound),
        of_(bound.op_.op().outputs[output]),
        output_(output),
        values_(bound.scalars_),
        named_([this](size_t name) -> Expression::Value {
          if (!values_.integers[name]) return Refusal{"a number that it names was not recorded, or is no integer"};
          return *values_.integers[name];
        }),
        elements_([this](size_t tensor, std::span<const int64_t> at) { return bound_.element(tensor, at); }) {
    const analysis::Index at = kernels::index_of(bound.shape_of(output), flat);
    for (size_t i = 0; i < at.size(); ++i) values_.set(bound.op_.names().index(of_.index[i]), at[i]);
  }

  void set(const analysis::OwnCells& cells) {
    const size_t first = bound_.op_.names().index(bound_.op_.op().indices.size());
    for (size_t i = 0; i < cells.size(); ++i) {
      values_.set(first + 2 * i, cells[i].cell);
      values_.reals[first + 2 * i + 1] = cells[i].fraction;
    }
  }

  // Calls visit(number, addend) for what the conditions let through; stops at the first fault that visit returns.
  template <class Visit>
  std::optional<std::string> points(const Visit& visit) {
    for (size_t i = 0; i < of_.start.size(); ++i) {
      if (auto fault = visit(-1 - static_cast<int64_t>(i), of_.start[i])) return fault;
    }
    const auto* joined = bound_.joins_[output_].get();
    int64_t first = 0, end = bound_.domain_of(output_);
    if (joined != nullptr) {
      const auto key = static_cast<size_t>(*values_.integers[bound_.op_.names().index(of_.index[joined->axis])]);
      first = joined->begin[key];
      end = joined->begin[key + 1];
    }
    for (int64_t i = first; i < end; ++i) {
      const int64_t point = joined != nullptr ? joined->points[static_cast<size_t>(i)] : i;
      bound_.set_point(output_, point, values_);
      const auto holds = conditions(joined != nullptr ? std::optional(joined->condition) : std::nullopt);
      if (const auto* refusal = std::get_if<Refusal>(&holds)) return refusal->reason;
      if (!std::get<bool>(holds)) continue;
      const auto count = static_cast<int64_t>(of_.addends.size());
      for (int64_t a = 0; a < count; ++a) {
        if (auto fault = visit(point * count + a, of_.addends[static_cast<size_t>(a)])) return fault;
      }
    }
    return std::nullopt;
  }

  std::optional<std::string> read(const AddendSpec& addend, analysis::OwnTerm& term) {
    term.inputs.clear();
    term.weight = addend.negative ? -1 : 1;
    for (const Expression& input : addend.inputs) {
      if (const auto refusal = input.place(named_, elements_, at_)) return refusal->reason;
      const size_t number = bound_.input_of_[input.references().back().tensor];
      const auto flat = bound_.place_in(bound_.inputs_[number].tensor, at_);
      if (!flat) return outside(bound_.inputs_[number], at_);
      term.inputs.push_back({number, *flat});
    }
    for (const auto& weight : addend.weights) {
      double factor = 0;
      std::string fault;
      const auto refusal = weight.factor.real(
          factor, named_, elements_, [](double x) { return x; }, [this](size_t name) { return values_.reals[name]; },
          [&](size_t tensor, std::span<const int64_t> at) {
            const auto value = bound_.element(tensor, at);
            if (const auto* wrong = std::get_if<Refusal>(&value)) fault = wrong->reason;
            return fault.empty() ? static_cast<double>(std::get<int64_t>(value)) : 0.0;
          });
      if (refusal) return refusal->reason;
      if (!fault.empty()) return fault;
      term.weight = weight.divides ? term.weight / factor : term.weight * factor;
      if (!std::isfinite(term.weight)) return fmt::format("{} is {}", weight.factor.text(), factor);
    }
    return std::nullopt;
  }

  // Finds the element of a coordinate's location. Returns what is wrong with it, or nothing.
  std::optional<std::string> location(size_t coordinate, analysis::Axis& axis) {
    const auto& spec = of_.coordinates[coordinate];
    if (const auto refusal = spec.location.place(named_, elements_, at_)) return refusal->reason;
    const auto& input = bound_.inputs_[bound_.input_of_[spec.location.references().back().tensor]];
    const auto flat = bound_.place_in(input.tensor, at_);
    if (!flat) return outside(input, at_);
    const auto size = spec.size.value(named_, elements_);
    if (const auto* refusal = std::get_if<Refusal>(&size)) return refusal->reason;
    const int64_t cells = std::get<int64_t>(size);
    if (cells < 1 || cells > int64_t{1} << 30) {
      return fmt::format("the size of coordinate {} is {}; it must be from 1 to 2^30", spec.name, cells);
    }
    axis = {input.tensor.at(*flat), static_cast<int32_t>(cells), input.tensor.dtype,
            static_cast<int>(output_ * adapters::kMostCoordinates + coordinate)};
    return std::nullopt;
  }

  static std::string outside(const analysis::NamedTensor& input, std::span<const int64_t> at) {
    return fmt::format("reads {}[{}], and its shape is {}", input.name, fmt::join(at, ","), input.tensor.shape);
  }

 private:
  std::variant<bool, Refusal> conditions(std::optional<size_t> known) {
    for (size_t i = 0; i < of_.where.size(); ++i) {
      if (i == known) continue;
      auto holds = of_.where[i].holds(named_, elements_);
      if (!std::holds_alternative<bool>(holds) || !std::get<bool>(holds)) return holds;
    }
    return true;
  }

  const BoundExpressions& bound_;
  const OutputSpec& of_;
  size_t output_;
  NamedValues values_;
  const Expression::Values named_;
  const Expression::Elements elements_;
  std::vector<int64_t> at_;
};

std::optional<int64_t> BoundExpressions::place_in(const Tensor& tensor, std::span<const int64_t> at) const {
  int64_t flat = 0;
  for (size_t i = 0; i < at.size(); ++i) {
    if (at[i] < 0 || at[i] >= tensor.shape[i]) return std::nullopt;
    flat = flat * tensor.shape[i] + at[i];
  }
  return flat;
}

Expression::Value BoundExpressions::element(size_t tensor, std::span<const int64_t> at) const {
  const analysis::NamedTensor& input = inputs_[input_of_[tensor]];
  const auto flat = place_in(input.tensor, at);
  if (!flat) return Refusal{TermLooker::outside(input, at)};
  if (input.tensor.dtype == MSDA_INT32) return int64_t{static_cast<const int32_t*>(input.tensor.data)[*flat]};
  return static_cast<const int64_t*>(input.tensor.data)[*flat];
}

analysis::Axes BoundExpressions::axes(size_t output, int64_t flat) const {
  analysis::Axes all;
  const size_t count = op_.op().outputs[output].coordinates.size();
  if (count == 0) return all;
  TermLooker looker(*this, output, flat);
  for (size_t i = 0; i < count; ++i) {
    analysis::Axis axis{NAN, 1, MSDA_FLOAT64, static_cast<int>(output * adapters::kMostCoordinates + i)};
    looker.location(i, axis);
    all.push_back(axis);
  }
  return all;
}

std::optional<std::string> BoundExpressions::look(size_t output, int64_t flat, const analysis::OwnCells& cells,
                                                  Faults faults, const analysis::VisitTerm& visit) const {
  TermLooker looker(*this, output, flat);
  looker.set(cells);
  analysis::OwnTerm term;
  return looker.points([&](int64_t number, const AddendSpec& addend) -> std::optional<std::string> {
    auto fault = looker.read(addend, term);
    if (fault) return faults == Faults::kReport ? fault : std::nullopt;
    term.number = number;
    visit(term);
    return std::nullopt;
  });
}

std::optional<std::string> BoundExpressions::fault_of(size_t output, int64_t flat) const {
  TermLooker looker(*this, output, flat);
  analysis::Axis axis{};
  for (size_t i = 0; i < op_.op().outputs[output].coordinates.size(); ++i) {
    if (auto fault = looker.location(i, axis)) return fault;
  }
  for (const analysis::OwnCells& cells : reachable_cells(*this, output, flat)) {
    if (auto fault = look(output, flat, cells, Faults::kReport, [](const analysis::OwnTerm&) {})) return fault;
  }
  return std::nullopt;
}

std::optional<std::string> BoundExpressions::fault(int threads) const {
  return first_fault(*this, threads, [this](size_t output, int64_t flat) { return fault_of(output, flat); });
}

}  // namespace msda::replay
