#include "replay/own/expression_operator.h"

#include <algorithm>

#include "replay/own/bound_expressions.h"

namespace msda::replay {

using adapters::AddendSpec;
using adapters::Expression;
using adapters::OutputSpec;

ExpressionOperator::ExpressionOperator(adapters::UserSpec spec) : DescribedOperator(std::move(spec)), names_(spec_) {
  extents_.resize(op().indices.size());
  for (const adapters::StageSpec& stage : op().stages) {
    look_at(stage);
    look_at(*stage.value);
  }
  for (const OutputSpec& output : op().outputs) {
    look_at(static_cast<const adapters::SumSpec&>(output));
    for (const auto& coordinate : output.coordinates) {
      look_at(coordinate.location);
      look_at(coordinate.size);
      look_at(coordinate.value);
    }
    look_at(output.start);
    look_at(output.addends);
    look_at(output.loss);
  }
  if (op().loss) {
    look_at(static_cast<const adapters::SumSpec&>(*op().loss));
    look_at(op().loss->addends);
  }
  for (const OutputSpec& output : op().outputs) {
    outputs_.push_back({output.tensor, output.index, output.over, output.channels,
                        static_cast<int64_t>(output.addends.size()), begins_with_itself(output)});
  }
  for (const auto& index : op().indices) add_dimension(index.name);
  describe_gradients();
  find_cuts();
  for (const auto& [tensor, indices] : indices_of_) {
    if (tensor >= spec_.tensors.size()) continue;
    inputs_.push_back(tensor);
    std::vector<int>& axes = axes_[tensor];
    for (const auto& index : indices) axes.push_back(index ? static_cast<int>(*index) : -1);
  }
}

bool ExpressionOperator::has_stages() const {
  const auto has_coordinates = [](const OutputSpec& output) { return !output.coordinates.empty(); };
  return !op().stages.empty() || std::ranges::any_of(op().outputs, has_coordinates);
}

bool ExpressionOperator::takes(const capture::Invocation& invocation) const {
  const capture::CallFacts& facts = invocation.facts;
  if (const auto adapter = facts.texts.find("adapter"); adapter != facts.texts.end()) {
    return adapter->second == spec_.name;
  }
  const auto has_input = [&](size_t number) { return find(invocation.inputs, spec_.tensors[number].name) != nullptr; };
  const auto has_fact = [&](size_t fact) {
    const std::string& name = spec_.scalars[fact].name;
    return facts.integers.contains(name) || facts.reals.contains(name);
  };
  const auto has_text = [&](const auto& text) {
    const auto found = facts.texts.find(text.first);
    return found != facts.texts.end() && found->second == text.second;
  };
  const auto has_output = [&](const OutputSpec& output) {
    return find(invocation.outputs, spec_.tensors[output.tensor].name) != nullptr;
  };
  return !spec_.facts.empty() && std::ranges::all_of(inputs_of(invocation), has_input) &&
         std::ranges::all_of(spec_.facts, has_fact) && std::ranges::all_of(spec_.texts, has_text) &&
         std::ranges::any_of(op().outputs, has_output);
}

void ExpressionOperator::look_at(const std::vector<AddendSpec>& sum) {
  for (const AddendSpec& addend : sum) {
    for (const Expression& input : addend.inputs) look_at(input);
    for (const auto& weight : addend.weights) look_at(weight.factor);
  }
}

void ExpressionOperator::look_at(const adapters::SumSpec& sum) {
  for (const auto& [condition, is_real] : sum.where) {
    look_at(condition.left());
    look_at(condition.right());
  }
}

// Takes down which index each tensor's dimension has.
void ExpressionOperator::look_at(const Expression& expression) {
  const auto index_of = [&](size_t name) -> std::optional<size_t> {
    const bool is_index = name >= names_.first && name < names_.index(op().indices.size());
    return is_index ? std::optional(name - names_.first) : std::nullopt;
  };
  for (const size_t name : expression.loose_names()) {
    if (const auto index = index_of(name)) loose_.insert(*index);
  }
  for (const Expression::Reference& reference : expression.references()) {
    if (reference.tensor >= spec_.tensors.size()) {
      look_at_stage(op().stages[reference.tensor - spec_.tensors.size()], reference);
      continue;
    }
    const auto [known, is_new] = indices_of_.try_emplace(reference.tensor, reference.plain.size());
    for (size_t i = 0; i < reference.plain.size(); ++i) {
      const auto index = reference.plain[i] ? index_of(*reference.plain[i]) : std::nullopt;
      if (!is_new && known->second[i] != index) mixed_.insert({reference.tensor, i});
      known->second[i] = index;
      if (index) extents_[*index].push_back({reference.tensor, i});
    }
  }
}

// A stage loses what its own indices lose, which is what else it is read by, or nothing.
void ExpressionOperator::look_at_stage(const adapters::StageSpec& stage, const Expression::Reference& reference) {
  for (size_t i = 0; i < reference.plain.size(); ++i) {
    const size_t own = stage.index[i];
    if (reference.plain[i] == names_.index(own)) continue;
    loose_.insert(own);
    const auto& plain = reference.plain[i];
    if (plain && *plain >= names_.first && *plain < names_.index(op().indices.size()))
      loose_.insert(*plain - names_.first);
  }
}

// An index may lose some of its values if it does nothing but name rows of tensors that nothing else names.
void ExpressionOperator::find_cuts() {
  for (const auto& [tensor, dimension] : mixed_) indices_of_[tensor][dimension] = std::nullopt;
  for (const OutputSpec& output : op().outputs) {
    const auto axes = indices_of_.find(output.tensor);
    for (size_t i = 0; axes != indices_of_.end() && i < output.index.size(); ++i) {
      if (axes->second[i] != output.index[i]) axes->second[i] = std::nullopt;
    }
  }
  for (size_t index = 0; index < op().indices.size(); ++index) {
    if (op().indices[index].size || loose_.contains(index) || extents_[index].empty()) continue;
    const bool alone = std::ranges::all_of(
        extents_[index], [&](const Extent& at) { return indices_of_[at.tensor][at.dimension] == index; });
    if (alone) cuts_.push_back(index);
  }
}

bool ExpressionOperator::begins_with_itself(const OutputSpec& output) const {
  return std::ranges::any_of(output.start, [&](const AddendSpec& addend) {
    return std::ranges::any_of(
        addend.inputs, [&](const Expression& input) { return input.references().back().tensor == output.tensor; });
  });
}

size_t ExpressionOperator::name_count() const {
  return names_.index(op().indices.size()) + 2 * std::max<size_t>(1, adapters::kMostCoordinates);
}

std::shared_ptr<const OwnCall> ExpressionOperator::new_call(NamedValues values, std::vector<size_t> present,
                                                            std::vector<analysis::Tensor> tensors,
                                                            const analysis::Coordinates& sizes,
                                                            std::string where) const {
  return std::make_shared<BoundExpressions>(*this, std::move(values), std::move(present), std::move(tensors), sizes,
                                            std::move(where));
}

}  // namespace msda::replay
