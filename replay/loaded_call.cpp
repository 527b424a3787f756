#include "replay/loaded_call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "kernels/names.h"
#include "replay/damage.h"
#include "replay/errors.h"

namespace msda::replay {

using analysis::Gradient;
using analysis::Source;

msda_dtype dtype_of(capture::ElementType type) {
  switch (type) {
    case capture::ElementType::kFloat16:
      return MSDA_FLOAT16;
    case capture::ElementType::kBFloat16:
      return MSDA_BFLOAT16;
    case capture::ElementType::kFloat64:
      return MSDA_FLOAT64;
    case capture::ElementType::kInt32:
      return MSDA_INT32;
    case capture::ElementType::kInt64:
      return MSDA_INT64;
    default:
      return MSDA_FLOAT32;
  }
}

namespace {

msda_dialect dialect_from(const std::string& name, const std::string& where) {
  if (const auto dialect = kernels::dialect_named(name)) return *dialect;
  throw BadInput(
      fmt::format("{}: unknown dialect \"{}\"; there are deformable_detr, msda_triton and grid_sample", where, name));
}

msda_padding padding_from(const std::string& name, const std::string& where) {
  if (const auto padding = kernels::padding_named(name)) return *padding;
  throw BadInput(fmt::format("{}: unknown padding_mode \"{}\"; there are zeros and border", where, name));
}

// The name under which a stored result is shown: its own, or "stored NAME" if its name is that of a side.
std::string shown_name(const std::string& name) {
  constexpr std::string_view kOurs[] = {"recorded", "reference", "original", "float64", "grid_sample"};
  constexpr msda_mode kModes[] = {MSDA_MODE_DETERMINISTIC, MSDA_MODE_ATOMIC, MSDA_MODE_FLOAT64, MSDA_MODE_MIXED};
  const bool is_ours = std::ranges::find(kOurs, name) != std::end(kOurs) ||
                       std::ranges::find(kModes, name, msda_mode_name) != std::end(kModes);
  return is_ours || name.starts_with("stored ") ? "stored " + name : name;
}

}  // namespace

std::string why_not_replayed(const capture::Invocation& invocation) {
  const capture::CallFacts& facts = invocation.facts;
  if (invocation.inputs.empty() && !invocation.digests.empty()) return "only digests were recorded (--digest-only)";
  if (!facts.dialect.empty()) return "";
  return fmt::format("kernel {} is known only by its machine code",
                     facts.kernel.empty() ? "(not named)" : facts.kernel);
}

void LoadedCall::read_all(const capture::IsolatedReader& reader, const capture::Invocation& invocation) {
  for (const capture::TensorInfo& info : tensors_of(invocation)) {
    const capture::Tensor& read = memory_.insert_or_assign(info.path, reader.read(info)).first->second;
    if (is_altered(read)) altered_.push_back(info.path);
  }
}

analysis::Tensor LoadedCall::tensor(const capture::TensorInfo& info) const {
  return {memory_.at(info.path).data.get(), dtype_of(info.type), info.shape};
}

analysis::Tensor LoadedCall::input(const capture::Invocation& invocation, const char* name) const {
  const capture::TensorInfo* info = find(invocation.inputs, name);
  if (info == nullptr) throw BadInput(fmt::format("{}/inputs has no {}", where_, name));
  return tensor(*info);
}

void LoadedCall::fill_call(const capture::Invocation& invocation) {
  call_.conventions = {dialect_from(invocation.facts.dialect, where_),
                       padding_from(invocation.facts.padding_mode, where_), invocation.facts.align_corners};
  call_.value = input(invocation, "value");
  call_.spatial_shapes = input(invocation, "spatial_shapes");
  call_.sampling_locations = input(invocation, "sampling_locations");
  call_.attention_weights = input(invocation, "attention_weights");
  call_.grad_output = input(invocation, "grad_output");

  // A call without results only checks the shapes against each other.
  analysis::AbiCall abi = abi_call(call_, call_.conventions);
  if (find(invocation.inputs, "level_start_index") != nullptr) {
    abi.call.level_start_index = abi_tensor(input(invocation, "level_start_index"));
  }
  if (msda_backward(&abi.call, &abi.grad_output, nullptr, nullptr, nullptr, nullptr) != MSDA_OK) {
    throw BadInput(fmt::format("{}: {}", where_, msda_last_error()));
  }
  call_.B = call_.value.shape[0];
  call_.S = call_.value.shape[1];
  call_.M = call_.value.shape[2];
  call_.D = call_.value.shape[3];
  call_.Q = call_.sampling_locations.shape[1];
  call_.L = call_.sampling_locations.shape[3];
  call_.P = call_.sampling_locations.shape[4];
  int64_t start = 0;
  for (int64_t l = 0; l < call_.L; ++l) {
    const auto height = static_cast<int32_t>(call_.spatial_shapes.at(2 * l));
    const auto width = static_cast<int32_t>(call_.spatial_shapes.at(2 * l + 1));
    call_.levels.push_back({height, width, start});
    start += int64_t{height} * width;
  }
}

analysis::Side LoadedCall::side(const std::string& name, analysis::Source source, const std::string& where,
                                const std::vector<capture::TensorInfo>& tensors,
                                const analysis::Conventions& conventions) const {
  analysis::Side side;
  side.name = name;
  side.source = source;
  side.conventions = conventions;
  for (const Gradient gradient : analysis::kGradients) {
    const capture::TensorInfo* info = find(tensors, name_of(gradient));
    if (info == nullptr) continue;
    const auto& wanted = gradient == Gradient::kValue               ? call_.value.shape
                         : gradient == Gradient::kSamplingLocations ? call_.sampling_locations.shape
                                                                    : call_.attention_weights.shape;
    if (info->shape != wanted) {
      throw BadInput(fmt::format("{}: {}/{} has shape {}, not {}", file_, where, info->name, info->shape, wanted));
    }
    side.tensors[static_cast<int>(gradient)] = tensor(*info);
    side.arithmetic[static_cast<int>(gradient)] = call_.arithmetic();
  }
  return side;
}

void LoadedCall::fill_results(const capture::Invocation& invocation) {
  for (const auto& result : invocation.results) {
    analysis::Conventions conventions = call_.conventions;
    const bool is_reference = &result == invocation.reference();
    const std::string path = invocation.path + "/results/" + result.facts.name;
    if (!result.facts.dialect.empty()) {
      conventions.dialect = dialect_from(result.facts.dialect, file_ + ": " + path);
    } else if (is_reference) {
      conventions.dialect = MSDA_GRID_SAMPLE;  // most tests of this operator compare with it
    }
    const std::string name = is_reference ? "reference" : shown_name(result.facts.name);
    auto one = side(name, Source::kStored, path, result.tensors, conventions);
    if (is_reference) {
      reference_ = std::move(one);
    } else {
      others_.push_back(std::move(one));
    }
  }
}

LoadedCall::LoadedCall(const Options& options, const capture::IsolatedReader& reader,
                       const capture::Invocation& invocation)
    : file_(reader.path()), where_(fmt::format("{}: {}", file_, invocation.path)) {
  read_all(reader, invocation);
  refuse_altered(options, altered_);
  fill_call(invocation);
  recorded_ = side("recorded", Source::kRecorded, invocation.path + "/outputs", invocation.outputs, call_.conventions);
  const auto before = side("before", Source::kStored, invocation.path + "/outputs_before", invocation.outputs_before,
                           call_.conventions);
  std::ranges::copy(before.tensors, before_);
  fill_results(invocation);
}

}  // namespace msda::replay
