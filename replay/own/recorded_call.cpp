#include "replay/own/recorded_call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <sstream>

#include "recorder/text/numbers.h"
#include "replay/base/errors.h"

namespace msda::replay {

using adapters::ScalarType;

namespace {

// Visits the sizes of the call's tensors.
template <class Visit>
void for_each_size(const adapters::UserSpec& spec, const capture::Invocation& invocation, const Visit& visit) {
  for (const adapters::TensorSpec& tensor : spec.tensors) {
    const capture::TensorInfo* info = find(tensor.is_input ? invocation.inputs : invocation.outputs, tensor.name);
    if (info == nullptr || info->shape.size() != tensor.shape.size()) continue;
    for (size_t i = 0; i < tensor.shape.size(); ++i) visit(tensor, tensor.shape[i], i, info->shape[i]);
  }
}

// Sets the numbers that a call's facts and the sizes of its tensors have.
void set_known(const adapters::UserSpec& spec, const capture::Invocation& invocation, const std::string& where,
               NamedValues& values) {
  for_each_size(spec, invocation, [&](const auto&, const adapters::Expression& expression, size_t, int64_t size) {
    if (const auto name = expression.plain_name()) values.set(*name, size);
  });
  for (const size_t fact : spec.facts) {
    const auto known = invocation.facts.integers.find(spec.scalars[fact].name);
    if (known != invocation.facts.integers.end()) values.set(fact, known->second);
    const auto real = invocation.facts.reals.find(spec.scalars[fact].name);
    if (real != invocation.facts.reals.end()) values.reals[fact] = real->second;
  }
  const auto named = [&](size_t name) -> adapters::Expression::Value {
    if (!values.integers[name]) return adapters::Refusal{"a number is not known"};
    return *values.integers[name];
  };
  for_each_size(spec, invocation, [&](const auto& tensor, const auto& expression, size_t dimension, int64_t size) {
    const auto wanted = expression.value(named);
    const auto* number = std::get_if<int64_t>(&wanted);
    if (number == nullptr || *number == size) return;
    throw BadInput(fmt::format("{}: dimension {} of {} has size {}, and {} is {}", where, dimension, tensor.name, size,
                               expression.text(), *number));
  });
}

}  // namespace

NamedValues recorded_values(const adapters::UserSpec& spec, size_t names, const capture::Invocation& invocation,
                            const std::string& where) {
  NamedValues values;
  values.integers.resize(names);
  values.reals.resize(names, 0);
  std::map<std::string, std::string> recorded;
  const auto text = invocation.facts.texts.find("scalars");
  if (text == invocation.facts.texts.end() && !spec.facts.empty()) {
    set_known(spec, invocation, where, values);
    return values;
  }
  std::istringstream words(text == invocation.facts.texts.end() ? "" : text->second);
  for (std::string word; words >> word;) {
    if (const size_t at = word.find('='); at != word.npos) recorded[word.substr(0, at)] = word.substr(at + 1);
  }
  for (size_t i = 0; i < spec.scalars.size(); ++i) {
    const adapters::ScalarSpec& scalar = spec.scalars[i];
    if (scalar.type == ScalarType::kPointer) continue;
    const auto found = recorded.find(scalar.name);
    if (found == recorded.end()) {
      throw BadInput(
          fmt::format("{}: scalars has no {}, a parameter of adapter {}: it was recorded by another version of "
                      "the adapter; record again",
                      where, scalar.name, spec.name));
    }
    const bool real = scalar.type == ScalarType::kFloat32 || scalar.type == ScalarType::kFloat64;
    const auto integer = real ? std::nullopt : text::parse_number<int64_t>(found->second);
    const auto number = text::parse_number<double>(found->second);
    if (integer) values.set(i, *integer);
    if (!integer && number) values.reals[i] = *number;
    if (!integer && !number) {
      throw BadInput(fmt::format("{}: scalars has {}={}, which is no number", where, scalar.name, found->second));
    }
  }
  const auto extents = [&](const std::optional<std::array<int64_t, 3>>& sizes, size_t first) {
    for (size_t i = 0; sizes && i < 3; ++i) values.set(spec.scalars.size() + first + i, (*sizes)[i]);
  };
  extents(invocation.facts.grid, 0);
  extents(invocation.facts.block, 3);
  return values;
}

std::vector<analysis::Tensor> recorded_inputs(const adapters::UserSpec& spec, std::span<const size_t> numbers,
                                              const capture::Invocation& invocation, const std::string& where,
                                              const GetOwnTensor& input) {
  std::vector<analysis::Tensor> tensors;
  bool any_floating = false;
  for (const size_t number : numbers) {
    const adapters::TensorSpec& wanted = spec.tensors[number];
    const capture::TensorInfo* info = find(invocation.inputs, wanted.name);
    if (info == nullptr || info->type == kernels::kUInt8) {
      throw BadInput(fmt::format("{}/inputs has no {} of type {}, which the operator {} reads", where, wanted.name,
                                 kernels::name_of(wanted.type), spec.op->name));
    }
    const analysis::Tensor tensor = input(wanted.name);
    const bool integers = wanted.type == MSDA_INT32 || wanted.type == MSDA_INT64;
    if (tensor.shape.size() != wanted.shape.size() || kernels::is_float(tensor.dtype) == integers) {
      throw BadInput(fmt::format("{}: {} has type {} and shape {}, and adapter {} says {} of {} dimensions", where,
                                 wanted.name, msda_dtype_name(tensor.dtype), tensor.shape, spec.name,
                                 kernels::name_of(wanted.type), wanted.shape.size()));
    }
    any_floating = any_floating || !integers;
    tensors.push_back(tensor);
  }
  if (!any_floating) {
    throw BadInput(fmt::format("{}: the operator {} reads no floating-point tensor; nothing of it is rounded", where,
                               spec.op->name));
  }
  return tensors;
}

analysis::Coordinates recorded_sizes(const adapters::UserSpec& spec, std::span<const OwnOutput> outputs,
                                     std::span<const analysis::Dimension> names, const capture::Invocation& invocation,
                                     const std::string& where, const GetOwnTensor& output) {
  analysis::Coordinates sizes;
  sizes.fill(0);
  for (const OwnOutput& axes : outputs) {
    const std::string& tensor = spec.tensors[axes.tensor].name;
    const capture::TensorInfo* info = find(invocation.outputs, tensor);
    if (info == nullptr && spec.tensors[axes.tensor].present_if) continue;
    const analysis::Tensor recorded = output(tensor);
    const bool is_real = info != nullptr && kernels::is_float(info->type);
    if (!is_real || recorded.shape.size() != axes.index.size()) {
      throw BadInput(
          fmt::format("{}/outputs has no {} of floating-point type and {} dimensions, which the operator {} "
                      "computes",
                      where, tensor, axes.index.size(), spec.op->name));
    }
    for (size_t i = 0; i < axes.index.size(); ++i) {
      int64_t& size = sizes[axes.index[i]];
      if (size != 0 && size != recorded.shape[i]) {
        throw BadInput(fmt::format("{}: operator {}: index {} is one of {} and of {} in the outputs", where,
                                   spec.op->name, names[axes.index[i]].name(), size, recorded.shape[i]));
      }
      size = recorded.shape[i];
    }
  }
  return sizes;
}

}  // namespace msda::replay
