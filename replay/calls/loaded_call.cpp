#include "replay/calls/loaded_call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "analysis/model/dialects.h"
#include "recorder/capture/schema.h"
#include "replay/base/errors.h"
#include "replay/calls/damage.h"
#include "replay/calls/facts.h"
#include "replay/calls/load_operator.h"
#include "replay/calls/operator_row.h"
#include "replay/calls/shown_name.h"
#include "replay/own/own_operator.h"

namespace msda::replay {

using analysis::Gradient;
using analysis::Source;

std::string shown_name(const std::string& name) {
  constexpr std::string_view kOurs[] = {"recorded", "reference", "original", "float64", "recorded_order"};
  const bool is_ours = std::ranges::find(kOurs, name) != std::end(kOurs) || name == dialect_of_tests() ||
                       std::ranges::find(kernels::kModeNames, name) != std::end(kernels::kModeNames);
  return is_ours || name.starts_with("stored ") ? "stored " + name : name;
}

namespace {

// Returns why the call is too large. Damaged data, or data that do not fit the rest, are reported when the call is
// loaded.
std::string why_too_large_in(const capture::IsolatedReader& reader, const capture::Invocation& invocation) {
  const OperatorLoader* loader = loader_of(operator_of(invocation));
  if (loader == nullptr || loader->why_too_large == nullptr) return "";
  capture::Tensor with_data;
  const auto input = [&](const char* name) {
    const capture::TensorInfo* info = find(invocation.inputs, name);
    if (info == nullptr) throw BadInput(name);
    const bool is_read = info->name == loader->sized_by;
    if (is_read) with_data = reader.read(*info);
    return analysis::Tensor{is_read ? with_data.data.get() : nullptr, info->type, info->shape};
  };
  try {
    return loader->why_too_large({invocation, "", input});
  } catch (const capture::Error&) {
    return "";
  } catch (const BadInput&) {
    return "";
  }
}

}  // namespace

std::string why_not_replayed(const capture::IsolatedReader& reader, const capture::Invocation& invocation) {
  const capture::CallFacts& facts = invocation.facts;
  if (invocation.inputs.empty() && invocation.outputs.empty() && !invocation.digests.empty())
    return "only digests were recorded (--digest-only)";
  if (!operator_of(invocation).empty()) return why_too_large_in(reader, invocation);
  const std::string kernel = facts.kernel.empty() ? "(not named)" : facts.kernel;
  if (const auto own = facts.texts.find("operator"); own != facts.texts.end()) {
    const auto adapter = facts.texts.find("adapter");
    const bool is_named = adapter != facts.texts.end();
    const std::string read = read_adapters();
    if (read.empty()) {
      return fmt::format("kernel {} computes {}, an operator of adapter {}: give the adapter's file by --operator FILE",
                         kernel, own->second, is_named ? adapter->second : "(not named)");
    }
    return fmt::format(
        "kernel {} computes {}, an operator of {}, and --operator has given {}: {}", kernel, own->second,
        is_named ? "adapter " + adapter->second : "no adapter that the capture names", read,
        is_named ? "give the file of that adapter" : "its fact `adapter` is missing; save it with the adapter's name");
  }
  if (kernel == capture::kProbe) return "it is a value of the program, kept for diff";
  return fmt::format("kernel {} is known only by its machine code", kernel);
}

void LoadedCall::read_all(const capture::IsolatedReader& reader, const capture::Invocation& invocation) {
  for (const capture::TensorInfo& info : tensors_of(invocation)) {
    const capture::Tensor& read = memory_.insert_or_assign(info.path, reader.read(info)).first->second;
    if (is_altered(read)) altered_.push_back(info.path);
  }
}

analysis::Tensor LoadedCall::tensor(const capture::TensorInfo& info) const {
  // As any other type it would be read beyond its end.
  if (info.type == kernels::kUInt8) {
    throw BadInput(fmt::format("{}: {} has type uint8, which no operator takes", file_, info.path));
  }
  return {memory_.at(info.path).data.get(), info.type, info.shape};
}

analysis::Tensor LoadedCall::input(const capture::Invocation& invocation, const char* name) const {
  const capture::TensorInfo* info = find(invocation.inputs, name);
  if (info == nullptr) throw BadInput(fmt::format("{}/inputs has no {}", where_, name));
  return tensor(*info);
}

analysis::Side LoadedCall::side(const std::string& name, analysis::Source source, const std::string& where,
                                const std::vector<capture::TensorInfo>& tensors) const {
  analysis::Side side;
  side.name = name;
  side.source = source;
  for (const Gradient gradient : call_->gradients()) {
    const capture::TensorInfo* info = find(tensors, name_of(gradient));
    if (info == nullptr) continue;
    const analysis::Tensor& result = side.tensors[gradient.place()] = tensor(*info);
    check_tensor(result, call_->shape_of(gradient), (where + "/" + info->name).c_str(), file_);
    side.arithmetic[gradient.place()] = call_->arithmetic();
  }
  return side;
}

void LoadedCall::fill_results(const capture::Invocation& invocation) {
  for (const auto& result : invocation.results) {
    const bool is_reference = &result == invocation.reference();
    const std::string path = invocation.path + "/results/" + result.facts.name;
    std::shared_ptr<const analysis::Call> alternative;
    if (!result.facts.dialect.empty()) {
      check_dialect(result.facts.dialect, file_ + ": " + path);
      if (call_->dialects() != nullptr) alternative = call_->dialects()->in_dialect(result.facts.dialect);
    } else if (is_reference && call_->dialects() != nullptr) {
      alternative = call_->dialects()->in_dialect_of_tests();
    }
    const std::string name = is_reference ? "reference" : shown_name(result.facts.name);
    auto stored = side(name, Source::kStored, path, result.tensors);
    stored.alternative = std::move(alternative);
    if (is_reference) {
      reference_ = std::move(stored);
    } else {
      others_.push_back(std::move(stored));
    }
  }
}

LoadedCall::LoadedCall(const Options& options, const capture::IsolatedReader& reader,
                       const capture::Invocation& invocation)
    : file_(reader.path()), where_(fmt::format("{}: {}", file_, invocation.path)) {
  read_all(reader, invocation);
  refuse_altered(options, altered_);
  const auto one_of = [&](const std::vector<capture::TensorInfo>& tensors) {
    return [&](const char* name) {
      const capture::TensorInfo* info = find(tensors, name);
      return info == nullptr ? analysis::Tensor{} : tensor(*info);
    };
  };
  const auto* const compared = invocation.reference();
  const std::vector<capture::TensorInfo> of_reference =
      compared == nullptr ? std::vector<capture::TensorInfo>{} : compared->tensors;
  call_ = call_of({invocation, where_, [&](const char* name) { return input(invocation, name); },
                   one_of(invocation.outputs), one_of(invocation.outputs_before), one_of(of_reference)});
  recorded_ = side("recorded", Source::kRecorded, invocation.path + "/outputs", invocation.outputs);
  const auto before = side("before", Source::kStored, invocation.path + "/outputs_before", invocation.outputs_before);
  std::ranges::copy(before.tensors, before_);
  fill_results(invocation);
}

}  // namespace msda::replay
