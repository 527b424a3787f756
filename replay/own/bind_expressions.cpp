// From an invocation to the expressions of its operator, checked.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <sstream>

#include "recorder/text/numbers.h"
#include "replay/base/errors.h"
#include "replay/own/bound_expressions.h"

namespace msda::replay {
namespace {

using adapters::ScalarType;

// The numbers that the launch had, as its adapter recorded them: "rows=6 scale.alpha=0.5".
NamedValues values_of(const ExpressionOperator& op, const capture::Invocation& invocation, const std::string& where) {
  const adapters::UserSpec& spec = op.spec();
  NamedValues values;
  const size_t names = op.names().index(op.op().indices.size()) + 2 * std::max<size_t>(1, adapters::kMostCoordinates);
  values.integers.resize(names);
  values.reals.resize(names, 0);
  std::map<std::string, std::string> recorded;
  const auto text = invocation.facts.texts.find("scalars");
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

bool is_floating(msda_dtype type) { return type != MSDA_INT32 && type != MSDA_INT64; }

// The tensors that expressions read, of the ranks and kinds that the adapter says.
std::vector<analysis::Tensor> tensors_of(const ExpressionOperator& op, const capture::Invocation& invocation,
                                         const std::string& where, const GetOwnTensor& input) {
  std::vector<analysis::Tensor> tensors;
  bool any_floating = false;
  for (const size_t number : op.inputs()) {
    const adapters::TensorSpec& spec = op.spec().tensors[number];
    const capture::TensorInfo* info = find(invocation.inputs, spec.name.c_str());
    if (info == nullptr || info->type == capture::ElementType::kUInt8) {
      throw BadInput(fmt::format("{}/inputs has no {} of type {}, which the operator {} reads", where, spec.name,
                                 spec.type.name, op.name()));
    }
    const analysis::Tensor tensor = input(spec.name);
    const bool integers = spec.type == MSDA_INT32 || spec.type == MSDA_INT64;
    if (tensor.shape.size() != spec.shape.size() || is_floating(tensor.dtype) == integers) {
      throw BadInput(fmt::format("{}: {} has type {} and shape {}, and adapter {} says {} of {} dimensions", where,
                                 spec.name, msda_dtype_name(tensor.dtype), tensor.shape, op.spec().name, spec.type.name,
                                 spec.shape.size()));
    }
    any_floating = any_floating || !integers;
    tensors.push_back(tensor);
  }
  if (!any_floating) {
    throw BadInput(
        fmt::format("{}: the operator {} reads no floating-point tensor; nothing of it is rounded", where, op.name()));
  }
  return tensors;
}

}  // namespace

std::shared_ptr<const analysis::OwnDefinition> ExpressionOperator::bind(const capture::Invocation& invocation,
                                                                        const std::string& where,
                                                                        const GetOwnTensor& input,
                                                                        const GetOwnTensor& output) const {
  analysis::Coordinates sizes;
  sizes.fill(0);
  for (const adapters::OutputSpec& of : op().outputs) {
    const std::string& tensor = spec_.tensors[of.tensor].name;
    const analysis::Tensor recorded = output(tensor);
    const capture::TensorInfo* info = find(invocation.outputs, tensor.c_str());
    const bool is_real = info != nullptr && info->type != capture::ElementType::kUInt8 && is_floating(recorded.dtype);
    if (!is_real || recorded.shape.size() != of.index.size()) {
      throw BadInput(
          fmt::format("{}/outputs has no {} of floating-point type and {} dimensions, which the operator {} "
                      "computes",
                      where, tensor, of.index.size(), name()));
    }
    for (size_t i = 0; i < of.index.size(); ++i) {
      int64_t& size = sizes[of.index[i]];
      if (size != 0 && size != recorded.shape[i]) {
        throw BadInput(fmt::format("{}: operator {}: index {} is one of {} and of {} in the outputs", where, name(),
                                   op().indices[of.index[i]].name, size, recorded.shape[i]));
      }
      size = recorded.shape[i];
    }
  }
  auto bound = std::make_shared<BoundExpressions>(*this, values_of(*this, invocation, where),
                                                  tensors_of(*this, invocation, where, input), sizes,
                                                  fmt::format("{}: operator {}", where, name()));
  if (const auto fault = bound->fault(0)) throw BadInput(fmt::format("{}: operator {}: {}", where, name(), *fault));
  return bound;
}

}  // namespace msda::replay
