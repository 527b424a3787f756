#include "replay/original/original_result.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/causes/finding.h"
#include "analysis/numbers/tensor.h"
#include "kernels/walk.h"
#include "recorder/text/words.h"
#include "replay/base/json.h"
#include "replay/calls/damage.h"

namespace msda::replay {

using analysis::number;

namespace {

// "3 results, the recorded one among them; 12 elements vary, by up to 1e-06 at [0,1,2,3]"
std::string tensor_words(const OriginalTensor& tensor) {
  std::string words = text::counted(tensor.distinct, "result");
  if (!tensor.recorded) {
    words += ", none is recorded";
  } else if (tensor.distinct == 1) {
    words += tensor.recorded->among_them ? ", the recorded one" : ", not the recorded one";
  } else {
    words += tensor.recorded->among_them ? ", the recorded one among them" : ", the recorded one not among them";
  }
  if (tensor.varying > 0) {
    const auto& [flat, lowest, highest] = tensor.widest.front();
    words +=
        fmt::format("; {} of {} var{}, by up to {:.3g} at [{}] ({:.9g} to {:.9g})", tensor.varying,
                    text::counted(kernels::elements_of(tensor.shape), "element"), tensor.varying == 1 ? "ies" : "y",
                    tensor.spread, fmt::join(kernels::index_of(tensor.shape, flat), ","), lowest, highest);
  }
  if (tensor.recorded && tensor.recorded->different > 0) {
    words += fmt::format("; the first differs from the recorded one in {}, by up to {:.3g}",
                         text::counted(tensor.recorded->different, "element"), tensor.recorded->max_abs);
  }
  return words;
}

}  // namespace

nlohmann::ordered_json to_json(const OriginalResult& result) {
  Json json = {{"device", result.device},
               {"architecture", fmt::format("sm_{}", result.architecture)},
               {"kernel_digest", result.kernel_digest},
               {"grid", result.shape.grid},
               {"block", result.shape.block},
               {"shared_bytes", result.shape.shared_bytes},
               {"changed", result.changed.empty() ? Json() : Json(result.changed)},
               {"runs", result.runs},
               {"launch_ms", result.launch_ms},
               {"first_result_s", result.first_result_s},
               {"runs_per_s", result.runs > 1 ? Json(result.runs_per_s) : Json()},
               {"tensors", Json::object()}};
  for (const OriginalTensor& tensor : result.tensors) {
    Json entry = {{"digest", tensor.digest}, {"distinct", tensor.distinct}};
    entry["recorded_among_them"] = tensor.recorded ? Json(tensor.recorded->among_them) : Json();
    if (tensor.recorded) {
      entry["first_against_recorded"] = {{"different", tensor.recorded->different},
                                         {"max_abs", number(tensor.recorded->max_abs)}};
    }
    entry["spread"] = number(tensor.spread);
    entry["varying"] = tensor.varying;
    entry["widest"] = Json::array();
    for (const auto& [flat, lowest, highest] : tensor.widest) {
      entry["widest"].push_back(
          {{"index", kernels::index_of(tensor.shape, flat)}, {"lowest", number(lowest)}, {"highest", number(highest)}});
    }
    json["tensors"][tensor.name] = std::move(entry);
  }
  return json;
}

Lines to_text(const OriginalResult& result) {
  Lines lines;
  const std::string rate = result.runs > 1 ? fmt::format(", {:.0f} runs a second", result.runs_per_s) : "";
  lines.add(
      "  original on {} (sm_{}), grid {}, block {}, {} shared bytes: {}, {:.3g} ms a launch{}, the first after {:.2g} "
      "s",
      result.device, result.architecture, fmt::join(result.shape.grid, ","), fmt::join(result.shape.block, ","),
      result.shape.shared_bytes, text::counted(result.runs, "run"), result.launch_ms, rate, result.first_result_s);
  if (!result.changed.empty()) lines.add("    changed: {}", result.changed);
  for (const OriginalTensor& tensor : result.tensors) {
    lines.add_hanging(29, "    {:<24} {}", tensor.name, tensor_words(tensor));
  }
  return lines;
}

Lines to_text(const std::vector<Relaunched>& relaunched) {
  Lines lines;
  for (const auto& [id, kernel, original, poison, altered] : relaunched) {
    lines.blank();
    lines.add("Invocation {}: {}, known only by its machine code", id, kernel);
    lines.append(warnings(altered));
    lines.append(to_text(original));
    if (poison) lines.append(to_text(*poison));
  }
  return lines;
}

}  // namespace msda::replay
