// The terms of one element of an operator's output, and of its intermediate tensors, as its expressions have them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <boost/container/small_vector.hpp>
#include <cmath>
#include <mutex>

#include "analysis/numbers/rounding.h"
#include "kernels/parallel.h"
#include "kernels/walk.h"
#include "replay/base/errors.h"
#include "replay/own/bound_expressions.h"

namespace msda::replay {

using adapters::AddendSpec;
using adapters::Expression;
using adapters::OutputSpec;
using analysis::Bounded;
using analysis::Precision;
using analysis::Term;

void BoundExpressions::set_element(const adapters::SumSpec& sum, int64_t flat, Evaluation& evaluation) const {
  const analysis::Index at = kernels::index_of(shape_of_sum(sum), flat);
  for (size_t i = 0; i < at.size(); ++i) evaluation.set(name_of_index(sum.index[i]), at[i]);
}

template <class Visit>
std::optional<std::string> BoundExpressions::points(size_t number, int64_t flat, const Precision& precision,
                                                    Evaluation& evaluation, const Visit& visit) const {
  const adapters::SumSpec& of_sum = sum(number);
  set_element(of_sum, flat, evaluation);
  const PointTable* table = tables_[number].get();
  int64_t first = 0, end = points_in(of_sum);
  if (table != nullptr) {
    const size_t key = table->key(kernels::index_of(shape_of_sum(of_sum), flat));
    first = table->begin[key];
    end = table->begin[key + 1];
  }
  struct Known {
    int64_t block = -1;
    Evaluation::Holds holds{};
  };
  boost::container::small_vector<Known, 8> known(of_sum.where.size());
  for (int64_t i = first; i < end; ++i) {
    const int64_t point = table != nullptr ? table->points[static_cast<size_t>(i)] : i;
    set_point(of_sum, point, evaluation);
    Evaluation::Holds all{true, true};
    int64_t alike = end;  // so many points in a row, of which this is one, have the same in the conditions so far
    for (size_t c = 0; c < of_sum.where.size() && (all.exactly || !all.surely); ++c) {
      if (table != nullptr && table->decided[c]) continue;
      const int64_t block = point / blocks_[number][c];
      alike = std::min(alike, blocks_[number][c]);
      if (known[c].block != block) {
        auto holds = evaluation.holds(of_sum.where[c], precision);
        if (auto* fault = std::get_if<std::string>(&holds)) return std::move(*fault);
        known[c] = {block, std::get<Evaluation::Holds>(holds)};
      }
      const auto [exactly, surely] = known[c].holds;
      // Surely not, whatever the others are; or in doubt as long as any is.
      if (!exactly && surely) all = {false, true};
      if (!exactly && !surely) all = {false, false};
      if (exactly && !surely && all.exactly) all.surely = false;
      if (!all.exactly && all.surely) break;
    }
    if (!all.exactly && all.surely) {
      if (table == nullptr) i += alike - 1 - point % alike;
      continue;
    }
    if (auto fault = visit(point, all)) return fault;
  }
  return std::nullopt;
}

// Computes the product of an addend's weights, and finds its inputs.
std::optional<std::string> BoundExpressions::read(const AddendSpec& addend, const Look& look, Evaluation& evaluation,
                                                  Term& term) const {
  term.inputs.clear();
  term.weight = term.computed = addend.negative ? -1 : 1;
  term.error = 0;
  for (const Expression& input : addend.inputs) {
    if (!has(input.references().back().tensor)) continue;
    auto found = evaluation.input(input);
    if (auto* fault = std::get_if<std::string>(&found)) return std::move(*fault);
    term.inputs.push_back(std::get<Term::Input>(found));
  }
  const auto rounds = [](const adapters::WeightSpec& weight) { return weight.is_rounded; };
  const bool is_rounded = std::ranges::any_of(addend.weights, rounds);
  // Exact weights are numbers of float64, which kernels round once.
  Bounded product = is_rounded ? Bounded(term.weight, look.precision) : Bounded(term.weight);
  Rounded computed{term.weight, is_rounded ? arithmetic() : MSDA_FLOAT64};
  for (const auto& weight : addend.weights) {
    const auto exact = Precision::of(MSDA_FLOAT64);
    auto found = evaluation.bounded(weight.factor, is_rounded ? look.precision : exact);
    if (auto* fault = std::get_if<std::string>(&found)) return std::move(*fault);
    const Bounded& factor = std::get<Bounded>(found);
    if (!is_rounded) {
      term.weight = weight.divides ? term.weight / factor.value() : term.weight * factor.value();
      if (!std::isfinite(term.weight)) return fmt::format("{} is {}", weight.factor.text(), factor.value());
      continue;
    }
    product = weight.divides ? product / factor : product * factor;
    const Rounded rounded{std::get<double>(evaluation.computed(weight.factor, computed.type)), computed.type};
    computed = weight.divides ? computed / rounded : computed * rounded;
  }
  if (is_rounded) {
    term.weight = product.value();
    term.error = std::isnan(product.error()) ? INFINITY : product.error();
  }
  term.computed = is_rounded ? computed.value : term.weight;
  return std::nullopt;
}

std::optional<std::string> BoundExpressions::look(const Look& look, const analysis::VisitTerm& visit) const {
  const OutputSpec& spec = op_.op().outputs[look.output];
  Evaluation evaluation(*this);
  evaluation.take_down(look.reads);
  const size_t first = name_of_index(op_.op().indices.size());
  for (size_t i = 0; i < look.cells.size(); ++i) {
    evaluation.set(first + 2 * i, look.cells[i].cell);
    evaluation.set_real(first + 2 * i + 1, look.cells[i].fraction);
  }
  Term term;
  const auto visit_addend = [&](int64_t number, const AddendSpec& addend,
                                const Evaluation::Holds& holds) -> std::optional<std::string> {
    auto fault = read(addend, look, evaluation, term);
    if (fault) return look.faults == Faults::kReport ? fault : std::nullopt;
    term.number = number;
    if (!holds.surely) term.error += std::abs(term.weight);
    if (!holds.exactly) term.weight = term.computed = 0;
    visit(term);
    return std::nullopt;
  };
  set_element(spec, look.flat, evaluation);
  for (size_t i = 0; i < spec.start.size() && !look.of_loss; ++i) {
    if (auto fault = visit_addend(-1 - static_cast<int64_t>(i), spec.start[i], {true, true})) return fault;
  }
  const auto& addends = look.of_loss ? spec.loss : spec.addends;
  const auto count = static_cast<int64_t>(addends.size());
  return points(op_.op().stages.size() + look.output, look.flat, look.precision, evaluation,
                [&](int64_t point, const Evaluation::Holds& holds) -> std::optional<std::string> {
                  for (int64_t a = 0; a < count; ++a) {
                    auto fault = visit_addend(point * count + a, addends[static_cast<size_t>(a)], holds);
                    if (fault) return fault;
                  }
                  return std::nullopt;
                });
}

void BoundExpressions::evaluate_stage(size_t number) {
  const adapters::StageSpec& spec = op_.op().stages[number];
  StageValues& stage = stages_[number];
  stage.shape = shape_of_sum(spec);
  const int64_t elements = kernels::elements_of(stage.shape);
  for (auto* numbers : {&stage.value, &stage.error, &stage.float64_error, &stage.computed}) {
    numbers->assign(static_cast<size_t>(elements), 0);
  }
  const msda_dtype type = arithmetic();
  std::mutex mutex;
  kernels::parallel_for(elements, kernels::thread_count(0, elements), [&](int64_t flat, int) {
    const auto at = static_cast<size_t>(flat);
    double computed = 0;
    std::optional<std::string> fault;
    // Returns the error of the sum, whose value it sets.
    const auto error_in = [&](const Precision& precision) {
      Evaluation evaluation(*this);
      analysis::SumBound sum;
      double errors = 0;
      bool is_sum = false;
      computed = stage.value[at] = 0;
      fault = points(number, flat, precision, evaluation,
                     [&](int64_t, const Evaluation::Holds& holds) -> std::optional<std::string> {
                       auto value = evaluation.bounded(*spec.value, precision);
                       if (auto* wrong = std::get_if<std::string>(&value)) return std::move(*wrong);
                       const Bounded& addend = std::get<Bounded>(value);
                       errors += addend.error() + (holds.surely ? 0 : std::abs(addend.value()));
                       if (!holds.exactly) return std::nullopt;
                       is_sum = is_sum || sum.terms() > 0;
                       sum.add(addend.value(), 0, 1);
                       stage.value[at] += addend.value();
                       computed = analysis::rounded_to(
                           computed + std::get<double>(evaluation.computed(*spec.value, type)), type);
                       return std::nullopt;
                     });
      const double error =
          errors + (is_sum ? sum.bound(precision) + 4 * precision.unit * errors * static_cast<double>(sum.terms()) : 0);
      return std::isnan(error) ? INFINITY : error;
    };
    stage.error[at] = error_in(Precision::of(type));
    stage.float64_error[at] = type == MSDA_FLOAT64 ? stage.error[at] : error_in(Precision::of(MSDA_FLOAT64));
    stage.computed[at] = computed;
    if (!fault) return;
    const std::lock_guard lock(mutex);
    if (stage_fault_.empty()) stage_fault_ = fmt::format("{}: {}", spec.name, *fault);
  });
}

void BoundExpressions::reads(size_t output, int64_t flat, const OwnCells& cells, const VisitRead& visit) const {
  const auto precision = Precision::of(arithmetic());
  Evaluation::Reads reads;
  look({output, flat, cells, precision, Faults::kLeaveOut, &reads}, [&](const Term& term) {
    for (const Term::Input& input : term.inputs) visit(input);
  });
  for (const Term::Input& input : reads.inputs) visit(input);
  for (const auto& [stage, at] : reads.stages) read_stage(stage, at, visit);
  Evaluation evaluation(*this);
  set_element(op_.op().outputs[output], flat, evaluation);
  for (const auto& coordinate : op_.op().outputs[output].coordinates) {
    const auto found = evaluation.input(coordinate.location);
    if (const auto* input = std::get_if<Term::Input>(&found)) visit(*input);
  }
}

void BoundExpressions::read_stage(size_t number, int64_t flat, const VisitRead& visit) const {
  const auto precision = Precision::of(arithmetic());
  Evaluation::Reads reads;
  Evaluation evaluation(*this);
  evaluation.take_down(&reads);
  points(number, flat, precision, evaluation, [&](int64_t, const Evaluation::Holds&) -> std::optional<std::string> {
    evaluation.bounded(*op_.op().stages[number].value, precision);
    return std::nullopt;
  });
  for (const Term::Input& input : reads.inputs) visit(input);
  for (const auto& [stage, at] : reads.stages) read_stage(stage, at, visit);
}

std::vector<OwnStageElement> BoundExpressions::stages_read(const analysis::ElementId& id) const {
  constexpr size_t kMost = 1000;
  const auto precision = Precision::of(arithmetic());
  Evaluation::Reads reads;
  const OwnCells cells = cells_of(exact_place(id));
  look({id.gradient.place(), id.flat, cells, precision, Faults::kLeaveOut, &reads}, [](const Term&) {});
  std::vector<std::pair<size_t, int64_t>> places;
  for (const auto& [stage, at] : reads.stages) places.emplace_back(stage, at);
  std::ranges::sort(places);
  places.erase(std::unique(places.begin(), places.end()), places.end());
  if (places.size() > kMost) places.resize(kMost);
  std::vector<OwnStageElement> elements;
  const analysis::Axes located = axes(id);
  for (size_t i = 0; i < located.size(); ++i) {
    const double exact = coordinate(located[i], Precision::of(MSDA_FLOAT64)).exact;
    elements.push_back({op_.op().outputs[id.gradient.place()].coordinates[i].name,
                        fmt::format("of {:.9g}, of {}", located[i].location, located[i].size), exact,
                        computed(located[i], arithmetic())});
  }
  for (const auto& [stage, at] : places) {
    const analysis::Index index = kernels::index_of(stages_[stage].shape, at);
    std::string place;
    for (size_t i = 0; i < index.size(); ++i) {
      const std::string& name = op_.op().indices[op_.op().stages[stage].index[i]].name;
      place += fmt::format("{}{} {}", i == 0 ? "" : ", ", name, index[i]);
    }
    const auto flat_of_stage = static_cast<size_t>(at);
    elements.push_back(
        {stage_name(stage), place, stages_[stage].value[flat_of_stage], stages_[stage].computed[flat_of_stage]});
  }
  return elements;
}

// Finds the element of a coordinate's location. Returns what is wrong with it, or nothing.
std::optional<std::string> BoundExpressions::location(size_t output, size_t coordinate, const Evaluation& evaluation,
                                                      analysis::Axis& axis) const {
  const auto& spec = op_.op().outputs[output].coordinates[coordinate];
  auto found = evaluation.input(spec.location);
  if (auto* fault = std::get_if<std::string>(&found)) return std::move(*fault);
  auto size = evaluation.integer(spec.size);
  if (auto* fault = std::get_if<std::string>(&size)) return std::move(*fault);
  const int64_t cells = std::get<int64_t>(size);
  if (cells < 1 || cells > int64_t{1} << 30) {
    return fmt::format("the size of coordinate {} is {}; it must be from 1 to 2^30", spec.name, cells);
  }
  const auto [number, flat] = std::get<Term::Input>(found);
  const analysis::Tensor& tensor = inputs_[number].tensor;
  axis = {tensor.at(flat), static_cast<int32_t>(cells), tensor.dtype,
          static_cast<int>(output * adapters::kMostCoordinates + coordinate), axis.flat};
  return std::nullopt;
}

analysis::Axes BoundExpressions::axes(const analysis::ElementId& id) const {
  const size_t output = id.gradient.place();
  analysis::Axes all;
  const size_t count = op_.op().outputs[output].coordinates.size();
  if (count == 0) return all;
  Evaluation evaluation(*this);
  set_element(op_.op().outputs[output], id.flat, evaluation);
  for (size_t i = 0; i < count; ++i) {
    analysis::Axis axis{NAN, 1, MSDA_FLOAT64, static_cast<int>(output * adapters::kMostCoordinates + i), id.flat};
    location(output, i, evaluation, axis);
    all.push_back(axis);
  }
  return all;
}

std::optional<std::string> BoundExpressions::fault_of(size_t output, int64_t flat) const {
  Evaluation evaluation(*this);
  set_element(op_.op().outputs[output], flat, evaluation);
  const auto precision = Precision::of(arithmetic());
  for (size_t i = 0; i < op_.op().outputs[output].coordinates.size(); ++i) {
    analysis::Axis axis{.location = NAN, .size = 1, .stored = MSDA_FLOAT64, .flat = flat};
    if (auto fault = location(output, i, evaluation, axis)) return fault;
    auto value = evaluation.bounded(set_coordinate(axis, evaluation), precision);
    if (auto* fault = std::get_if<std::string>(&value)) return std::move(*fault);
  }
  for (const OwnCells& cells : reachable_cells(output, flat)) {
    if (auto fault = look({output, flat, cells, precision, Faults::kReport}, [](const Term&) {})) return fault;
  }
  return std::nullopt;
}

// Names the first element with a fault, whatever the number of threads.
void BoundExpressions::check() const {
  if (!stage_fault_.empty()) throw BadInput(fmt::format("{}: {}", where_, stage_fault_));
  for (const analysis::Gradient gradient : gradients()) {
    const analysis::Tensor shape{nullptr, MSDA_FLOAT32, shape_of(gradient)};
    const int64_t elements = shape.elements();
    std::atomic<int64_t> first = elements;
    std::string found;
    std::mutex mutex;
    kernels::parallel_for_each(elements, 256, 0, [&](int64_t flat) {
      if (flat > first) return;
      const auto fault = fault_of(gradient.place(), flat);
      if (!fault) return;
      const std::lock_guard lock(mutex);
      if (flat >= first) return;
      first = flat;
      found = *fault;
    });
    if (first == elements) continue;
    throw BadInput(
        fmt::format("{}: {}[{}]: {}", where_, gradient.name(), fmt::join(shape.index_of(first), ","), found));
  }
}

}  // namespace msda::replay
