// msda-replay list: the invocations of one or more captures.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <span>

#include "recorder/text/demangle.h"
#include "recorder/text/words.h"
#include "replay/base/captures.h"
#include "replay/base/errors.h"
#include "replay/base/json.h"
#include "replay/base/options.h"
#include "replay/base/output.h"
#include "replay/calls/conventions.h"
#include "replay/commands/commands.h"
#include "replay/commands/conventions_json.h"
#include "replay/commands/flags.h"
#include "replay/commands/new_command.h"
#include "replay/commands/shown.h"
#include "replay/many/many.h"
#include "replay/report/words.h"
#include "replay/survey/kernel_name.h"

namespace msda::replay {
namespace {

// Returns the sizes by their letters, as far as the recorded tensors show them; for another operator's kernel, its
// tensors.
std::string invocation_sizes(const capture::Invocation& invocation) {
  std::string text;
  if (invocation.facts.dialect.empty()) {
    for (const auto* group : {&invocation.inputs, &invocation.outputs}) {
      for (const auto& tensor : *group) {
        const bool again = group == &invocation.outputs && find(invocation.inputs, tensor.name) != nullptr;
        if (again) continue;  // the kernel reads and writes it: an output, too
        text += fmt::format("{}{}[{}]", text.empty() ? "" : " ", tensor.name, fmt::join(tensor.shape, ","));
      }
    }
    return text;
  }
  const auto* value = find(invocation.inputs, "value");
  const auto* locations = find(invocation.inputs, "sampling_locations");
  if (value != nullptr)
    text += fmt::format("B{} S{} M{} D{}", value->shape[0], value->shape[1], value->shape[2], value->shape[3]);
  if (locations != nullptr)
    text += fmt::format(" Q{} L{} P{}", locations->shape[1], locations->shape[3], locations->shape[4]);
  return text;
}

int64_t bytes_of(const capture::Invocation& invocation) {
  int64_t bytes = 0;
  for (const auto* group : {&invocation.inputs, &invocation.outputs_before, &invocation.outputs}) {
    for (const auto& tensor : *group) bytes += tensor.bytes();
  }
  for (const auto& stage : invocation.stages) bytes += stage.full ? stage.full->bytes() : 0;
  for (const auto& result : invocation.results) {
    for (const auto& tensor : result.tensors) bytes += tensor.bytes();
  }
  return bytes;
}

// Returns what the capture has of the stages: none, summaries, or at least one in full.
const char* stages_of(const capture::Invocation& invocation) {
  if (invocation.stages.empty()) return "none";
  return std::ranges::any_of(invocation.stages, [](const auto& stage) { return stage.full.has_value(); }) ? "full"
                                                                                                          : "summary";
}

// Returns the tensor whose type is shown for the call: for another operator's kernel the first floating-point output.
const capture::TensorInfo* typical(const capture::Invocation& invocation) {
  if (!invocation.facts.dialect.empty()) return find(invocation.inputs, "value");
  const auto found = std::ranges::find_if(invocation.outputs, kernels::is_float, &capture::TensorInfo::type);
  if (found != invocation.outputs.end()) return &*found;
  return invocation.outputs.empty() ? nullptr : &invocation.outputs.front();
}

Json invocation_json(const capture::Invocation& invocation) {
  const capture::CallFacts& facts = invocation.facts;
  Json json = {{"id", invocation.id}, {"kernel", facts.kernel}};
  put_conventions(json, invocation);
  json["bytes"] = bytes_of(invocation);
  json["duplicates"] = facts.duplicates.value_or(0);
  json["label"] = facts.label;
  json["time"] = facts.time;
  const auto* value = typical(invocation);
  json["type"] = value != nullptr ? Json(kernels::name_of(value->type)) : Json();
  json["sizes"] = invocation_sizes(invocation);
  json["stages"] = stages_of(invocation);
  json["results"] = Json::array();
  for (const auto& result : invocation.results) {
    json["results"].push_back(
        {{"name", result.facts.name}, {"role", result.facts.role}, {"dialect", result.facts.dialect}});
  }
  return json;
}

// Returns for a user's operator the name that its adapter gave it, whether or not this command was given the adapter.
std::string shown_operator(const capture::Invocation& invocation) {
  const auto own = invocation.facts.texts.find("operator");
  const std::string known = operator_of(invocation);
  return known.empty() && own != invocation.facts.texts.end() ? own->second : known;
}

// Returns what the call is, and below it its conventions, and its kernel with what else is known of it.
Lines summary_of(const capture::Invocation& invocation) {
  constexpr size_t kIndent = 8;
  const auto* value = typical(invocation);
  const capture::CallFacts& facts = invocation.facts;
  Lines lines;
  const auto add = [&](const std::string& text) {
    if (!text.empty()) lines.add_hanging(kIndent, "{:{}}{}", "", kIndent, text);
  };
  const std::string name = shown_operator(invocation);
  lines.add_hanging(kIndent, "{:>6}  {}, {}, {:.1f} MB: {}", invocation.id, name.empty() ? "(no operator)" : name,
                    value != nullptr ? kernels::name_of(value->type) : "?",
                    static_cast<double>(bytes_of(invocation)) / 1e6, invocation_sizes(invocation));
  add(facts.dialect.empty() ? conventions_text(invocation) : operator_and_conventions(invocation));
  std::vector<std::string> notes;
  if (!facts.kernel.empty()) notes.push_back(short_name(text::demangled(facts.kernel), text::kColumns - kIndent - 1));
  if (invocation.reference() != nullptr) notes.push_back("with reference");
  if (!invocation.stages.empty()) notes.push_back(fmt::format("stages {}", stages_of(invocation)));
  if (facts.duplicates.value_or(0) > 0) notes.push_back(fmt::format("{} duplicates", *facts.duplicates));
  if (!facts.label.empty()) notes.push_back("label " + facts.label);
  if (const std::string line = source_line_of(invocation); !line.empty()) notes.push_back(line);
  add(fmt::format("{}", fmt::join(notes, ", ")));
  return lines;
}

// Calls visit(invocation) for each, in order.
void for_each_outline(const capture::IsolatedReader& reader, const auto& visit) {
  constexpr size_t kAtOnce = 100;
  for (std::span<const int64_t> ids = reader.invocation_ids(); !ids.empty();) {
    const auto some = ids.first(std::min(kAtOnce, ids.size()));
    for (const capture::Invocation& invocation : reader.outlines(some)) visit(invocation);
    ids = ids.subspan(some.size());
  }
}

Json list_one(const Options& options) {
  const std::string& path = options.capture;
  const capture::IsolatedReader reader(path);
  Json json = {{"capture", path}, {"created", reader.created()}, {"tool_version", reader.tool_version()}};
  json["invocations"] = Json::array();
  Lines lines;
  lines.add("{}: {}, written {} by msda-replay {}", text::unbroken(path),
            text::unbroken(text::counted(std::ssize(reader.invocation_ids()), "invocation")), reader.created(),
            reader.tool_version());
  if (const auto launches = reader.trail_launches()) {
    json["trail"] = {{"launches", *launches}};
    lines.add("{}", trail_line(path, *launches));
  }
  for_each_outline(reader, [&](const capture::Invocation& invocation) {
    if (!options.json.empty()) json["invocations"].push_back(invocation_json(invocation));
    if (options.json != "-") lines.append(summary_of(invocation));
  });
  if (options.json != "-") print(lines);
  return json;
}

int run_list(Options& options) {
  int status = kWithinTolerance;
  Json all;
  if (names_several(options.captures)) {
    all = one_by_one(options, list_one, status);
  } else {
    options.capture = options.captures.front();
    all.push_back(list_one(options));
  }
  if (!options.json.empty()) write_json(options.json, "list", all);
  return status;
}

}  // namespace

void add_list_command(CLI::App& app, int& status) {
  const auto [command, options] =
      new_command<Options>(app, status, "list", "List the invocations of captures", run_list);
  add_captures(command, options);
  add_json(command, options);
  add_operator(command);
  command.footer("Exit status: 0 listed, 2 bad usage or bad input.");
}

}  // namespace msda::replay
