// msda-replay stages: the intermediate tensors, float32 beside float64.
#include <fmt/format.h>

#include "analysis/causes/finding.h"
#include "replay/base/errors.h"
#include "replay/base/output.h"
#include "replay/calls/damage.h"
#include "replay/calls/element_argument.h"
#include "replay/calls/load_operator.h"
#include "replay/commands/commands.h"
#include "replay/commands/explain.h"
#include "replay/commands/flags.h"
#include "replay/commands/new_command.h"
#include "replay/own/own_call.h"
#include "replay/own/own_operator.h"
#include "replay/stages/stage_table.h"

namespace msda::replay {
namespace {

struct StagesOptions : Options {
  std::vector<std::string> elements;
};

// The number of findings whose stages are shown if no element is named.
constexpr size_t kMostFindings = 5;

// What computing and comparing the stages of invocations needs.
struct Tools {
  const StagesOptions& options;
  const capture::IsolatedReader& reader;
  const Pairing& pairing;
  Original& original;
  Devices& devices;
  const Progress& progress;
};

// Returns the elements of the first findings.
std::vector<analysis::ElementId> found_elements(const Tools& tools, int64_t id, const analysis::Call& call) {
  std::vector<analysis::ElementId> elements;
  const auto& [options, reader, pairing, original, devices, progress] = tools;
  const InvocationResult result = explain_invocation(options, reader, pairing, original, devices, id, "", progress);
  for (const auto& finding : result.report.findings) {
    if (finding.advisory || elements.size() >= kMostFindings) break;
    elements.push_back(call.element_id(finding.gradient, finding.flat));
  }
  return elements;
}

// Returns the elements of the stages of a user's operator that an element's terms read.
Json own_stages_of(const OwnCall& call, const analysis::ElementId& element, const analysis::Tolerance& tolerance) {
  Json rows = Json::array(), first_drift;
  for (const auto& read : call.stages_read(element)) {
    const bool drifts = !tolerance.holds(read.computed, read.value);
    if (drifts && first_drift.is_null()) first_drift = read.stage;
    rows.push_back(
        {{"stage", read.stage},
         {"component", read.place},
         {"values", {{"deterministic", analysis::number(read.computed)}, {"float64", analysis::number(read.value)}}},
         {"drifts", drifts}});
  }
  return {{"tensor", name_of(element.gradient)},
          {"index", element.index},
          {"stages", std::move(rows)},
          {"first_drift", std::move(first_drift)}};
}

Json add_stages_of(const Tools& tools, const capture::Invocation& invocation, Lines& lines) {
  const StagesOptions& options = tools.options;
  const LoadedCall loaded(options, tools.reader, invocation);
  const analysis::Call& call = loaded.call();
  const StageTensors recorded(options, tools.reader, invocation, call, loaded.recorded());
  std::vector<std::string> altered = loaded.altered();
  add_altered(altered, recorded.altered());
  const std::vector<std::string> beside = tools.pairing.altered_beside(invocation.id);
  refuse_altered(options, beside);
  add_altered(altered, beside);
  const msda_dtype type = call.inputs().front().tensor.dtype;
  const auto tolerance = chosen_tolerance(options, invocation, type).value_or(analysis::customary_tolerance(type));
  std::vector<analysis::ElementId> elements;
  for (const std::string& element : options.elements) elements.push_back(parse_element(element, call));

  Json json = {{"id", invocation.id}, {"dialect", invocation.facts.dialect}, {"altered", altered}};
  const bool has_dialect = !invocation.facts.dialect.empty();
  if (!has_dialect) json["operator"] = operator_of(invocation);
  const std::string title = fmt::format("Invocation {}, {}", invocation.id,
                                        has_dialect ? "dialect " + invocation.facts.dialect : operator_of(invocation));
  lines.add("{}", headline(title, !altered.empty()));
  lines.append(warnings(altered));
  const auto* own = dynamic_cast<const OwnCall*>(&call);
  if (options.elements.empty() && own != nullptr) {
    elements = found_elements(tools, invocation.id, call);
  } else if (options.elements.empty()) {
    json["summary"] = stage_summary(loaded, recorded, static_cast<int>(options.threads), tools.devices, tools.progress);
    lines.append(summary_text(json["summary"]));
    elements = found_elements(tools, invocation.id, call);
  }
  json["elements"] = Json::array();
  for (const auto& element : elements) {
    json["elements"].push_back(own != nullptr ? own_stages_of(*own, element, tolerance)
                                              : stages_of_element(loaded, recorded, element, tolerance));
    lines.append(element_text(json["elements"].back()));
  }
  return json;
}

int run_stages(const StagesOptions& options) {
  check_numbers(options);
  const capture::IsolatedReader reader(options.capture);
  Original original(options, reader);
  Devices devices(options);
  const Progress progress(true);
  Json json = {{"capture", options.capture}, {"invocations", Json::array()}};
  Lines lines;
  std::string none;  // why the first that has no stages has none
  const Pairing pairing(options, reader);
  for (const int64_t id : pairing.chosen()) {
    const capture::Invocation invocation = pairing.invocation(id);
    std::string why = why_not_replayed(reader, invocation);
    const OwnOperator* own = own_operator_of(invocation);
    if (why.empty() && own != nullptr && !own->has_stages()) {
      why = fmt::format("the operator {} has no intermediate tensors; run and order judge its outputs",
                        operator_of(invocation));
    }
    if (why.empty()) {
      json["invocations"].push_back(
          add_stages_of({options, reader, pairing, original, devices, progress}, invocation, lines));
      continue;
    }
    refuse_altered(options, altered_tensors(reader, invocation));
    lines.add("Invocation {}: not replayed: {}", id, why);
    json["not_replayed"].push_back({{"id", id}, {"why", why}});
    if (none.empty()) none = fmt::format("invocation {} has no stages: {}", id, why);
  }
  progress.show("");
  if (json["invocations"].empty() && !none.empty()) {
    throw Unavailable(fmt::format("{}: {}; msda-replay show prints what was recorded", options.capture, none));
  }
  print_result(lines, options.json, "stages", json);
  return kWithinTolerance;
}

}  // namespace

void add_stages_command(CLI::App& app, int& status) {
  const auto [command, options] = new_command<StagesOptions>(
      app, status, "stages", "Show intermediate tensors stage by stage, float32 beside float64", run_stages);
  add_capture(command, options);
  add_replay(command, options);
  command
      .add_option("--element", options.elements,
                  "Show this element of a gradient, as grad_value[0,17,3,5]; repeatable; default: the first findings")
      ->type_name("TENSOR[INDEX]");
  add_operator(command);
}

}  // namespace msda::replay
