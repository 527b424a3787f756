// The sum whose derivatives an operator's outputs are, for gradcheck.
#include <algorithm>
#include <cmath>

#include "replay/own/bound_expressions.h"

namespace msda::replay {

using analysis::Term;

namespace {

constexpr long double kMostLossPoints = 1 << 24;  // 16 bytes each for an output

}  // namespace

bool BoundExpressions::has_forward() const {
  if (!op_.op().loss) return std::ranges::all_of(op_.op().outputs, &adapters::OutputSpec::has_loss);
  long double points = static_cast<long double>(op_.op().loss->addends.size());
  for (const size_t index : op_.op().loss->over) points *= static_cast<long double>(sizes_[index]);
  bool fits = points <= kMostLossPoints;
  for (size_t i = 0; i < op_.op().outputs.size(); ++i) {
    fits = fits && inputs_[loss_input(i)].tensor.shape == shape_of(gradients()[i]);
  }
  return fits;
}

size_t BoundExpressions::loss_input(size_t output) const {
  const std::string name = std::string(gradients()[output].name()).substr(std::string_view("grad_").size());
  const auto found = std::ranges::find(op_.spec().tensors, name, &adapters::TensorSpec::name);
  return input_of_[static_cast<size_t>(found - op_.spec().tensors.begin())];
}

const BoundExpressions::LossTerms& BoundExpressions::loss_terms(size_t output) const {
  const std::lock_guard lock(loss_mutex_);
  const auto [known, is_new] = loss_terms_.try_emplace(output);
  if (!is_new) return known->second;
  const adapters::OutputSpec& loss = *op_.op().loss;
  const size_t wanted = loss_input(output);
  const auto precision = analysis::Precision::of(MSDA_FLOAT64);
  const auto count = static_cast<int64_t>(loss.addends.size());
  Evaluation evaluation(*this);
  for (int64_t point = 0; point < points_in(loss); ++point) {
    set_point(loss, point, evaluation);
    const bool holds = std::ranges::all_of(loss.where, [&](const adapters::WhereSpec& where) {
      const auto found = evaluation.holds(where, precision);
      const auto* known_to = std::get_if<Evaluation::Holds>(&found);
      return known_to != nullptr && known_to->exactly;
    });
    for (int64_t a = 0; holds && a < count; ++a) {
      for (const auto& factor : loss.addends[static_cast<size_t>(a)].inputs) {
        const auto found = evaluation.input(factor);
        const auto* input = std::get_if<Term::Input>(&found);
        if (input != nullptr && input->tensor == wanted) known->second.emplace_back(input->flat, point * count + a);
      }
    }
  }
  std::ranges::sort(known->second);
  return known->second;
}

std::optional<size_t> BoundExpressions::moved_axis(const analysis::ElementId& id) const {
  const size_t output = id.gradient.place();
  if (op_.op().outputs[output].loss.empty()) return std::nullopt;
  Evaluation evaluation(*this);
  set_element(op_.op().outputs[output], id.flat, evaluation);
  const auto& coordinates = op_.op().outputs[output].coordinates;
  for (size_t i = 0; i < coordinates.size(); ++i) {
    const auto found = evaluation.input(coordinates[i].location);
    const auto* input = std::get_if<Term::Input>(&found);
    if (input != nullptr && input->tensor == loss_input(output) && input->flat == id.flat) return i;
  }
  return std::nullopt;
}

// Sums up what the output says of its loss, with the input's element at x.
analysis::Loss BoundExpressions::loss_of_output(const analysis::ElementId& id, double x) const {
  const size_t output = id.gradient.place();
  const adapters::OutputSpec& spec = op_.op().outputs[output];
  const auto precision = analysis::Precision::of(MSDA_FLOAT64);
  const auto moved = moved_axis(id);
  analysis::Axes located = axes(id);
  if (moved) located[*moved].location = x;
  OwnCells cells;
  for (const analysis::Axis& axis : located) {
    const double at = coordinate(axis, precision).exact, cell = std::floor(at);
    const bool is_known = std::abs(cell) < 0x1p30;
    cells.push_back({is_known ? static_cast<int32_t>(cell) : -2, is_known ? at - cell : NAN});
  }
  analysis::Loss result;
  look({output, id.flat, cells, precision, Faults::kLeaveOut, nullptr, !spec.has_linear_loss}, [&](const Term& term) {
    long double value = static_cast<long double>(term.weight) * (spec.has_linear_loss ? x : 1);
    for (const Term::Input& input : term.inputs) value *= inputs_[input.tensor].tensor.at(input.flat);
    result.value += value;
    result.magnitude += std::abs(value);
  });
  return result;
}

analysis::Loss BoundExpressions::loss_at(const analysis::ElementId& id, double x) const {
  if (!op_.op().loss) return loss_of_output(id, x);
  const size_t output = id.gradient.place();
  const adapters::OutputSpec& loss = *op_.op().loss;
  const size_t wanted = loss_input(output);
  const auto precision = analysis::Precision::of(MSDA_FLOAT64);
  const auto count = static_cast<int64_t>(loss.addends.size());
  const LossTerms& all = loss_terms(output);
  Evaluation evaluation(*this);
  Term term;
  analysis::Loss result;
  const auto first = std::ranges::lower_bound(all, std::pair<int64_t, int64_t>(id.flat, 0));
  for (auto entry = first; entry != all.end() && entry->first == id.flat; ++entry) {
    set_point(loss, entry->second / count, evaluation);
    const auto& addend = loss.addends[static_cast<size_t>(entry->second % count)];
    const Look look{output, id.flat, {}, precision, Faults::kLeaveOut};
    long double value = read(addend, look, evaluation, term) ? NAN : static_cast<long double>(term.weight);
    for (const Term::Input& input : term.inputs) {
      value *= input.tensor == wanted ? x : inputs_[input.tensor].tensor.at(input.flat);
    }
    result.value += value;
    result.magnitude += std::abs(value);
  }
  return result;
}

}  // namespace msda::replay
