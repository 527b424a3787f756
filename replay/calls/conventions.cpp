#include "replay/calls/conventions.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "replay/calls/load_operator.h"

namespace msda::replay {
namespace {

// Captures hold real numbers as texts.
struct Names {
  std::vector<std::string> texts, reals, integers, flags;
};

const Names& convention_names(const std::string& name) {
  static const std::map<std::string, Names> kAll{
      {"grid_sample", {{"interpolation", "padding_mode"}, {}, {}, {"align_corners"}}},
      {"scatter_add",
       {{"reduce"}, {}, {"dim", "dim_size", "padding_idx"}, {"include_self", "wraps_negative", "scale_grad_by_freq"}}},
      {"interpolate",
       {{"mode"},
        {"scale_depth", "scale_height", "scale_width"},
        {"input_depth", "input_height", "input_width"},
        {"align_corners"}}},
      {"roi_align",
       {{}, {"spatial_scale"}, {"sampling_ratio", "input_batch", "input_height", "input_width"}, {"aligned"}}}};
  static const Names kNone;
  const auto found = kAll.find(name);
  return found == kAll.end() ? kNone : found->second;
}

}  // namespace

nlohmann::ordered_json conventions_of(const capture::Invocation& invocation) {
  const Names& names = convention_names(operator_of(invocation));
  const capture::CallFacts& facts = invocation.facts;
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& kind : {names.texts, names.reals}) {
    for (const std::string& name : kind) {
      if (const auto text = facts.texts.find(name); text != facts.texts.end()) json[name] = text->second;
    }
  }
  for (const std::string& name : names.integers) {
    if (const auto found = facts.integers.find(name); found != facts.integers.end()) json[name] = found->second;
  }
  for (const std::string& name : names.flags) {
    if (const auto found = facts.integers.find(name); found != facts.integers.end()) json[name] = found->second != 0;
  }
  return json;
}

bool is_real(const capture::Invocation& invocation, const std::string& name) {
  const auto& reals = convention_names(operator_of(invocation)).reals;
  return std::ranges::find(reals, name) != reals.end();
}

std::string conventions_text(const capture::Invocation& invocation) {
  const nlohmann::ordered_json all = conventions_of(invocation);
  std::string text;
  for (const auto& [name, value] : all.items()) {
    const std::string shown = value.is_string() ? value.get<std::string>() : value.dump();
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, shown);
  }
  return text;
}

}  // namespace msda::replay
