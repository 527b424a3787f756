#include "replay/export/exported_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "analysis/model/dialects.h"
#include "analysis/model/owned_side.h"
#include "kernels/names.h"
#include "replay/calls/load_operator.h"
#include "replay/calls/operator_row.h"
#include "replay/report/words.h"

namespace msda::replay {

using analysis::Gradient;
using analysis::Tensor;

std::span<const std::byte> KeyedTensor::bytes() const {
  return {static_cast<const std::byte*>(tensor.data), analysis::bytes_of(tensor)};
}

analysis::Tolerance ExportedCall::tolerance() const {
  if (result().tolerance) return *result().tolerance;
  return analysis::customary_tolerance(recorded().dtype);
}

msda_dtype ExportedCall::type_of_expected() const {
  const analysis::Finding& found = finding();
  if (found.against == "float64") return MSDA_FLOAT64;
  if (found.against == "reference") return loaded->reference()->of(found.gradient).dtype;
  return recorded().dtype;
}

std::vector<KeyedTensor> ExportedCall::tensors(bool of_finding) const {
  std::vector<KeyedTensor> all;
  const OperatorRow* row = row_of(operator_of(invocation()));
  for (const auto& [name, tensor] : call().all_inputs()) {
    if (of_finding && row != nullptr && std::ranges::find(row->only_shapes, name) != row->only_shapes.end()) continue;
    all.push_back({name, tensor});
  }
  if (!of_finding && level_start_index) {
    const capture::Tensor& starts = *level_start_index;
    all.push_back({"level_start_index", {starts.data.get(), starts.info.type, starts.info.shape}});
  }
  for (const Gradient gradient : call().gradients()) {
    if (of_finding && gradient != finding().gradient) continue;
    const auto add = [&](const char* section, const Tensor& tensor) {
      if (tensor) all.push_back({fmt::format("{}_{}", section, gradient.name()), tensor});
    };
    add("observed", loaded->recorded().of(gradient));
    const bool with_reference = !of_finding || finding().against == "reference";
    if (with_reference && loaded->reference() != nullptr) add("reference", loaded->reference()->of(gradient));
    if (!of_finding) add("before", loaded->before(gradient));
  }
  return all;
}

std::vector<std::string> ExportedCall::other_dialects() const {
  if (call().dialects() == nullptr) return {};
  const std::string own = dialect_of(call());
  std::string beside = own;
  if (finding().against == "reference") beside = dialect_of(loaded->reference()->version_of(call()));
  if (finding().against == dialect_of_tests()) beside = dialect_of_tests();
  return beside == own ? std::vector<std::string>{} : std::vector{beside};
}

std::optional<Shown> shown_of(const analysis::Report& report, const std::string& element) {
  // Advice is last.
  for (const analysis::Group& group : report.groups) {
    if (element.empty()) return Shown{&group, group.farthest};
    for (size_t i = 0; i < report.findings.size(); ++i) {
      const analysis::Finding& finding = report.findings[i];
      if (element_name(finding) == element && group.contains(finding)) return Shown{&group, i};
    }
  }
  return std::nullopt;
}

std::string bits_text(const Tensor& tensor, int64_t flat) {
  const auto size = static_cast<size_t>(kernels::bytes_of(tensor.dtype));
  uint64_t bits = 0;
  std::memcpy(&bits, static_cast<const std::byte*>(tensor.data) + static_cast<size_t>(flat) * size, size);
  return fmt::format("0x{:0{}x}", bits, 2 * size);
}

std::string bits_text(double value, msda_dtype dtype) {
  std::byte stored[8];
  analysis::store(stored, dtype, 0, value);
  return bits_text(Tensor{stored, dtype, {1}}, 0);
}

}  // namespace msda::replay
