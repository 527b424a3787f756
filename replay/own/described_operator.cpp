#include "replay/own/described_operator.h"

#include <fmt/format.h>

namespace msda::replay {

void DescribedOperator::describe_gradients() {
  for (const OwnOutput& output : outputs_) {
    const auto place = static_cast<int>(described_gradients_.size());
    gradients_.emplace_back(described_gradients_.emplace_back(
        analysis::Gradient::Description{spec_.tensors[output.tensor].name.c_str(), place, true}));
  }
}

void DescribedOperator::add_dimension(const std::string& name) {
  const auto place = static_cast<int>(described_dimensions_.size());
  dimensions_.emplace_back(
      described_dimensions_.emplace_back(analysis::Dimension::Description{name.c_str(), place, false, false}));
}

std::vector<size_t> DescribedOperator::inputs_of(const capture::Invocation& invocation) const {
  std::vector<size_t> present;
  for (const size_t number : inputs_) {
    const adapters::TensorSpec& tensor = spec_.tensors[number];
    if (!tensor.present_if || find(invocation.inputs, tensor.name) != nullptr) present.push_back(number);
  }
  return present;
}

std::shared_ptr<const OwnCall> DescribedOperator::bind(const capture::Invocation& invocation, const std::string& where,
                                                       const GetOwnTensor& input, const GetOwnTensor& output) const {
  const analysis::Coordinates sizes = recorded_sizes(spec_, outputs_, dimensions_, invocation, where, output);
  const std::vector<size_t> present = inputs_of(invocation);
  auto call = new_call(recorded_values(spec_, name_count(), invocation, where), present,
                       recorded_inputs(spec_, present, invocation, where, input), sizes,
                       fmt::format("{}: operator {}", where, name()));
  call->check();
  return call;
}

}  // namespace msda::replay
