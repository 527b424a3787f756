// msda-replay show: everything that a capture holds about its invocations: tensors with their extremes, launch, seeds,
// environment, facts about the kernels' code.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "replay/base/captures.h"
#include "replay/base/errors.h"
#include "replay/base/json.h"
#include "replay/base/options.h"
#include "replay/base/output.h"
#include "replay/commands/commands.h"
#include "replay/commands/flags.h"
#include "replay/commands/new_command.h"
#include "replay/commands/shown.h"
#include "replay/many/many.h"
#include "replay/original/atomic_lines.h"
#include "replay/stages/recorded_stages.h"

namespace msda::replay {
namespace {

void add_map(Lines& lines, const char* title, const Json& map) {
  if (map.empty()) return;
  lines.add("{}", title);
  for (const auto& [name, value] : map.items()) lines.add("  {} = {}", name, plain_text(value));
}

void add_seeds(Lines& lines, const Json& seeds) {
  constexpr size_t kShown = 20;
  if (!seeds.empty()) lines.add("Seeds");
  for (size_t i = 0; i < seeds.size() && i < kShown; ++i) {
    const Json& seed = seeds[i];
    const std::string when =
        seed.contains("invocation") ? fmt::format(", before invocation {}", seed["invocation"]) : "";
    lines.add("  {} {} {}{}", seed["time"], seed["source"], seed["value"], when);
  }
  if (seeds.size() > kShown) lines.add("  and {} more: --json has them all", seeds.size() - kShown);
}

void add_tensor(Lines& lines, const Json& tensor, const std::string& title) {
  const std::vector<int64_t> shape = tensor["shape"];
  std::string statistics;
  if (tensor.contains("statistics")) {
    const Json& s = tensor["statistics"];
    const bool is_integer = plain_text(tensor["type"]).find("int") != std::string::npos;  // whose extremes are doubles
    const auto extreme = [&](const Json& number) {
      return is_integer && number.is_number() ? fmt::format("{:.0f}", number.get<double>()) : plain_text(number);
    };
    statistics = fmt::format("from {} to {}", extreme(s["lowest"]), extreme(s["highest"]));
    for (const char* name : {"zero", "nan", "infinite"}) {
      if (s[name] != 0) statistics += fmt::format(", {} {}", s[name], name);
    }
  }
  lines.add("    {:<40} {:<8} [{}]", title, plain_text(tensor["type"]), fmt::join(shape, ","));
  if (!statistics.empty()) lines.add("      {}", statistics);
}

void add_invocation(Lines& lines, const Json& json, const Lines& stages) {
  lines.blank();
  lines.add("Invocation {}", json["id"]);
  for (const auto& [name, value] : json.items()) {
    const bool is_empty = value.is_null() || (value.is_string() && value.get<std::string>().empty());
    const bool elsewhere =
        name == "id" || name == "tensors" || name == "results" || name == "stages" || name == "digests" || is_empty;
    if (!elsewhere) lines.add("  {} = {}", name, plain_text(value));
  }
  lines.add("  tensors");
  for (const Json& tensor : json["tensors"]) {
    const std::string path = tensor["path"];
    add_tensor(lines, tensor, path.substr(path.find('/', 13) + 1));
  }
  for (const Json& result : json["results"]) {
    for (const Json& tensor : result["tensors"]) {
      add_tensor(lines, tensor, fmt::format("results/{}/{}", result["name"], tensor["name"]));
    }
  }
  // Tensors in the capture have the digests of their datasets.
  if (json.contains("digests") && json["tensors"].empty()) {
    lines.add("  digests");
    for (const auto& [name, value] : json["digests"].items()) lines.add("    {:<40} {}", name, plain_text(value));
  }
  if (stages.empty()) return;
  lines.add("  stages");
  lines.append(stages);
}

void add_run(Lines& lines, const Json& run) {
  if (!run["argv"].empty()) {
    lines.add("Command");
    lines.add("  {}", run["argv"]);
  }
  add_map(lines, "Machine", run["facts"]);
  add_map(lines, "Libraries", run["libraries"]);
  add_map(lines, "Environment", run["environment"]);
  add_seeds(lines, run["seeds"]);
}

void add_kernels(Lines& lines, const std::vector<capture::KernelImage>& kernels) {
  if (!kernels.empty()) lines.add("Kernels");
  for (const capture::KernelImage& kernel : kernels) {
    lines.add("  {} {} {}, {} bytes of code", kernel.digest, kernel.architecture, kernel.name, kernel.image.size());
    for (const auto& [name, value] : kernel.facts) lines.add("    {} = {}", name, value);
    lines.append(to_text(atomic_places(kernel), 4));
  }
}

Json show_one(const Options& options) {
  const capture::IsolatedReader reader(options.capture);
  Json json = shown_capture(options.capture, reader);
  const auto launches = reader.trail_launches();
  const bool has_trail_only = launches && reader.invocation_ids().empty() && options.invocation == "all";
  if (launches) json["trail"] = {{"launches", *launches}};
  std::vector<Lines> stages;  // a table for each invocation
  for (const int64_t id : has_trail_only ? std::vector<int64_t>() : chosen_invocations(options, reader)) {
    const capture::Invocation invocation = reader.invocation(id);
    json["invocations"].push_back(shown_invocation(reader, invocation));
    stages.push_back(recorded_stages_text(invocation.stages));
  }
  if (options.json == "-") return json;
  Lines lines;
  lines.add("{}", text::unbroken(options.capture));
  lines.add("  written {} by msda-replay {}", reader.created(), reader.tool_version());
  if (launches) lines.add("{}", trail_line(options.capture, *launches));
  add_run(lines, json["run"]);
  add_kernels(lines, reader.kernels());
  for (size_t i = 0; i < stages.size(); ++i) add_invocation(lines, json["invocations"][i], stages[i]);
  print(lines);
  return json;
}

int run_show(Options& options) {
  int status = kWithinTolerance;
  Json shown;
  if (names_several(options.captures)) {
    shown["captures"] = one_by_one(options, show_one, status);
  } else {
    options.capture = options.captures.front();
    shown = show_one(options);
  }
  if (!options.json.empty()) write_json(options.json, "show", shown);
  return status;
}

}  // namespace

void add_show_command(CLI::App& app, int& status) {
  const auto [command, options] = new_command<Options>(
      app, status, "show",
      "Show everything in captures: tensors and their extremes, launch, seeds, environment, kernel", run_show);
  add_captures(command, options);
  add_invocation(command, options);
  add_json(command, options);
  command.footer("Exit status: 0 shown, 2 bad usage or bad input.");
}

}  // namespace msda::replay
