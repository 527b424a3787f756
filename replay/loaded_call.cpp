#include "replay/loaded_call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kernels/names.h"
#include "recorder/capture/digest.h"
#include "replay/errors.h"

namespace msda::replay {

using analysis::Gradient;

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

}  // namespace

std::string why_not_replayed(const capture::Invocation& invocation) {
  const capture::CallFacts& facts = invocation.facts;
  if (invocation.inputs.empty() && !invocation.digests.empty()) return "only digests were recorded (--digest-only)";
  if (!facts.dialect.empty()) return "";
  return fmt::format("kernel {} is known only by its machine code",
                     facts.kernel.empty() ? "(not named)" : facts.kernel);
}

analysis::Tensor LoadedCall::load(const capture::IsolatedReader& reader, const capture::TensorInfo& info) {
  memory_.push_back(reader.read(info));
  const capture::Tensor& tensor = memory_.back();
  if (!info.digest.empty() && capture::digest(tensor.bytes()) != info.digest) altered_.push_back(info.path);
  return {tensor.data.get(), dtype_of(info.type), info.shape};
}

analysis::Tensor LoadedCall::load_input(const capture::IsolatedReader& reader, const capture::Invocation& invocation,
                                        const char* name) {
  const capture::TensorInfo* info = find(invocation.inputs, name);
  if (info == nullptr) throw BadInput(fmt::format("{}: {}/inputs has no {}", reader.path(), invocation.path, name));
  return load(reader, *info);
}

analysis::Side LoadedCall::load_side(const capture::IsolatedReader& reader, const std::string& name,
                                     const std::string& where, const std::vector<capture::TensorInfo>& tensors,
                                     const analysis::Conventions& conventions) {
  analysis::Side side;
  side.name = name;
  side.conventions = conventions;
  for (const Gradient gradient : analysis::kGradients) {
    const capture::TensorInfo* info = find(tensors, name_of(gradient));
    if (info == nullptr) continue;
    const auto& wanted = gradient == Gradient::kValue               ? call_.value.shape
                         : gradient == Gradient::kSamplingLocations ? call_.sampling_locations.shape
                                                                    : call_.attention_weights.shape;
    if (info->shape != wanted) {
      throw BadInput(
          fmt::format("{}: {}/{} has shape {}, not {}", reader.path(), where, info->name, info->shape, wanted));
    }
    side.tensors[static_cast<int>(gradient)] = load(reader, *info);
    side.arithmetic[static_cast<int>(gradient)] = call_.arithmetic();
  }
  return side;
}

LoadedCall::LoadedCall(const capture::IsolatedReader& reader, const capture::Invocation& invocation)
    : where_(fmt::format("{}: {}", reader.path(), invocation.path)) {
  call_.conventions = {dialect_from(invocation.facts.dialect, where_),
                       padding_from(invocation.facts.padding_mode, where_), invocation.facts.align_corners};
  call_.value = load_input(reader, invocation, "value");
  call_.spatial_shapes = load_input(reader, invocation, "spatial_shapes");
  call_.sampling_locations = load_input(reader, invocation, "sampling_locations");
  call_.attention_weights = load_input(reader, invocation, "attention_weights");
  call_.grad_output = load_input(reader, invocation, "grad_output");

  // The kernels check every shape against the others; a call that skips all results asks just that.
  analysis::AbiCall abi = abi_call(call_, call_.conventions);
  if (find(invocation.inputs, "level_start_index") != nullptr) {
    abi.call.level_start_index = abi_tensor(load_input(reader, invocation, "level_start_index"));
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

  recorded_ = load_side(reader, "recorded", invocation.path + "/outputs", invocation.outputs, call_.conventions);
  const auto before =
      load_side(reader, "before", invocation.path + "/outputs_before", invocation.outputs_before, call_.conventions);
  std::ranges::copy(before.tensors, before_);
  for (const auto& result : invocation.results) {
    analysis::Conventions conventions = call_.conventions;
    const bool is_reference = &result == invocation.reference();
    const std::string path = invocation.path + "/results/" + result.facts.name;
    if (!result.facts.dialect.empty()) {
      conventions.dialect = dialect_from(result.facts.dialect, reader.path() + ": " + path);
    } else if (is_reference) {
      conventions.dialect = MSDA_GRID_SAMPLE;  // what tests of this operator compare with
    }
    auto side = load_side(reader, is_reference ? "reference" : result.facts.name, path, result.tensors, conventions);
    if (is_reference) {
      reference_ = std::move(side);
    } else {
      others_.push_back(std::move(side));
    }
  }
}

}  // namespace msda::replay
