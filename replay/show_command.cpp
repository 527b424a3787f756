// msda-replay show: all that a capture holds of its invocations: tensors with their extremes, launch, seeds,
// environment, kernel code facts.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <memory>

#include "analysis/tensor.h"
#include "replay/commands.h"
#include "replay/conventions_json.h"
#include "replay/errors.h"
#include "replay/loaded_call.h"
#include "replay/options.h"
#include "replay/recorded_stages.h"
#include "replay/statistics.h"

namespace msda::replay {
namespace {

using Json = nlohmann::ordered_json;

Statistics statistics_of(const capture::Tensor& tensor) {
  Statistics statistics;
  const analysis::Tensor view{tensor.data.get(), dtype_of(tensor.info.type), tensor.info.shape};
  for (int64_t i = 0; i < view.elements(); ++i) statistics.add(view.at(i));
  return statistics;
}

Json json_of(const capture::Reader& reader, const capture::TensorInfo& info, bool with_statistics = true) {
  Json json = {{"name", info.name},
               {"path", info.path},
               {"type", name_of(info.type)},
               {"shape", info.shape},
               {"digest", info.digest}};
  with_statistics = with_statistics && info.type != capture::ElementType::kUInt8;
  if (with_statistics) json["statistics"] = statistics_of(reader.read(info)).json();
  return json;
}

template <class T>
void put(Json& json, const char* name, const std::optional<T>& value) {
  if (value) json[name] = *value;
}

Json json_of(const capture::Reader& reader, const capture::Invocation& invocation) {
  const capture::CallFacts& facts = invocation.facts;
  Json json = {{"id", invocation.id}, {"kernel", facts.kernel}};
  put_conventions(json, facts);
  if (!facts.kernel_digest.empty()) json["kernel_digest"] = facts.kernel_digest;
  put(json, "grid", facts.grid);
  put(json, "block", facts.block);
  put(json, "shared_bytes", facts.shared_bytes);
  put(json, "stream", facts.stream);
  put(json, "device", facts.device);
  put(json, "process", facts.process);
  put(json, "thread", facts.thread);
  put(json, "duplicates", facts.duplicates);
  put(json, "distinct_outputs", facts.distinct_outputs);
  if (!facts.time.empty()) json["time"] = facts.time;
  if (!facts.label.empty()) json["label"] = facts.label;
  if (facts.tolerance)
    json["tolerance"] = {{"atol", analysis::number(facts.tolerance->atol)},
                         {"rtol", analysis::number(facts.tolerance->rtol)}};
  if (!invocation.parameters.bytes.empty()) {
    json["parameters"] = {{"bytes", invocation.parameters.bytes.size()},
                          {"offsets", invocation.parameters.offsets},
                          {"sizes", invocation.parameters.sizes}};
  }
  json["tensors"] = Json::array();
  for (const auto* group : {&invocation.inputs, &invocation.outputs_before, &invocation.outputs}) {
    for (const auto& tensor : *group) json["tensors"].push_back(json_of(reader, tensor));
  }
  for (const auto& stage : invocation.stages) {
    // One that has a summary is not read for its statistics again: it may be the largest there is.
    if (stage.full) json["tensors"].push_back(json_of(reader, *stage.full, !stage.facts));
  }
  if (!invocation.digests.empty()) json["digests"] = invocation.digests;
  if (!invocation.stages.empty()) json["stages"] = recorded_stages_json(invocation.stages);
  json["results"] = Json::array();
  for (const auto& result : invocation.results) {
    Json told = {{"name", result.facts.name}, {"role", result.facts.role}, {"dialect", result.facts.dialect}};
    told["tensors"] = Json::array();
    for (const auto& tensor : result.tensors) told["tensors"].push_back(json_of(reader, tensor));
    json["results"].push_back(told);
  }
  return json;
}

Json json_of(const capture::Reader& reader) {
  const capture::Run run = reader.run();
  Json json = {
      {"argv", run.argv}, {"facts", run.facts}, {"libraries", run.libraries}, {"environment", run.environment}};
  json["seeds"] = Json::array();
  for (const auto& seed : reader.seeds()) {
    json["seeds"].push_back({{"time", seed.time}, {"source", seed.source}, {"value", seed.value}});
    put(json["seeds"].back(), "invocation", seed.invocation);
  }
  json["kernels"] = Json::array();
  for (const auto& kernel : reader.kernels()) {
    json["kernels"].push_back({{"digest", kernel.digest},
                               {"name", kernel.name},
                               {"architecture", kernel.architecture},
                               {"facts", kernel.facts},
                               {"image_bytes", kernel.image.size()}});
  }
  return json;
}

// A JSON value as a person reads it: texts without quotes, lists with commas.
std::string plain(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) {
    std::vector<std::string> parts;
    for (const Json& part : value) parts.push_back(plain(part));
    return fmt::format("{}", fmt::join(parts, " "));
  }
  return value.dump();
}

void print_map(const char* title, const Json& map) {
  if (map.empty()) return;
  fmt::print("{}\n", title);
  for (const auto& [name, value] : map.items()) fmt::print("  {} = {}\n", name, plain(value));
}

void print_seeds(const Json& seeds) {
  constexpr size_t kShown = 20;
  if (!seeds.empty()) fmt::print("Seeds\n");
  for (size_t i = 0; i < seeds.size() && i < kShown; ++i) {
    const Json& seed = seeds[i];
    fmt::print("  {} {} {}", plain(seed["time"]), plain(seed["source"]), plain(seed["value"]));
    if (seed.contains("invocation")) fmt::print(", before invocation {}", plain(seed["invocation"]));
    fmt::print("\n");
  }
  if (seeds.size() > kShown) fmt::print("  and {} more: --json has them all\n", seeds.size() - kShown);
}

void print_tensor(const Json& tensor, const std::string& title) {
  std::vector<int64_t> shape = tensor["shape"];
  fmt::print("    {:<50} {:<9} [{}]", title, plain(tensor["type"]), fmt::join(shape, ","));
  if (tensor.contains("statistics")) {
    const Json& s = tensor["statistics"];
    fmt::print("  from {} to {}", plain(s["lowest"]), plain(s["highest"]));
    for (const char* name : {"zero", "nan", "infinite"}) {
      if (s[name] != 0) fmt::print(", {} {}", plain(s[name]), name);
    }
  }
  fmt::print("\n");
}

void print_invocation(const Json& json, const std::string& stages) {
  fmt::print("\nInvocation {}\n", json["id"].get<int64_t>());
  for (const auto& [name, value] : json.items()) {
    const bool elsewhere = name == "id" || name == "tensors" || name == "results" || name == "stages" ||
                           name == "digests" || value.is_null();
    if (!elsewhere) fmt::print("  {} = {}\n", name, plain(value));
  }
  fmt::print("  tensors\n");
  for (const Json& tensor : json["tensors"]) {
    const std::string path = tensor["path"];
    print_tensor(tensor, path.substr(path.find('/', 13) + 1));
  }
  for (const Json& result : json["results"]) {
    for (const Json& tensor : result["tensors"]) {
      print_tensor(tensor, fmt::format("results/{}/{}", plain(result["name"]), plain(tensor["name"])));
    }
  }
  // Of tensors that are in the capture, there are the datasets' own.
  if (json.contains("digests") && json["tensors"].empty()) {
    fmt::print("  digests\n");
    for (const auto& [name, value] : json["digests"].items()) fmt::print("    {:<40} {}\n", name, plain(value));
  }
  if (!stages.empty()) fmt::print("  stages\n{}", stages);
}

int run(const Options& options) {
  const capture::Reader reader = open_capture(options.capture);
  Json json = {{"capture", options.capture},
               {"created", reader.created()},
               {"tool_version", reader.tool_version()},
               {"run", json_of(reader)},
               {"invocations", Json::array()}};
  std::vector<std::string> stages;  // a table for each invocation
  for (const int64_t id : chosen_invocations(options, reader)) {
    const capture::Invocation invocation = reader.invocation(id);
    json["invocations"].push_back(json_of(reader, invocation));
    stages.push_back(recorded_stages_text(invocation.stages));
  }
  if (!options.json.empty()) write_json(options, json.dump(2, ' ', false, Json::error_handler_t::replace));
  if (options.json == "-") return kWithinTolerance;
  fmt::print("{}\n  written {} by msda-replay {}\n", options.capture, reader.created(), reader.tool_version());
  const Json& run = json["run"];
  if (!run["argv"].empty()) fmt::print("Command\n  {}\n", plain(run["argv"]));
  print_map("Machine", run["facts"]);
  print_map("Libraries", run["libraries"]);
  print_map("Environment", run["environment"]);
  print_seeds(run["seeds"]);
  if (!run["kernels"].empty()) fmt::print("Kernels\n");
  for (const Json& kernel : run["kernels"]) {
    fmt::print("  {} {} {}, {} bytes of code\n", plain(kernel["digest"]), plain(kernel["architecture"]),
               plain(kernel["name"]), plain(kernel["image_bytes"]));
    for (const auto& [name, value] : kernel["facts"].items()) fmt::print("    {} = {}\n", name, plain(value));
  }
  for (size_t i = 0; i < stages.size(); ++i) print_invocation(json["invocations"][i], stages[i]);
  return kWithinTolerance;
}

}  // namespace

void add_show_command(CLI::App& app, int& status) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "show", "Everything in a capture: tensors and their extremes, launch, seeds, environment, kernel");
  add_capture(*command, *options);
  add_invocation(*command, *options);
  add_json(*command, *options);
  command->callback([options, &status] { status = run(*options); });
}

}  // namespace msda::replay
