#include "replay/commands/shown.h"

#include <fmt/format.h>

#include "analysis/numbers/tensor.h"
#include "recorder/capture/call_attributes.h"
#include "recorder/text/environment.h"
#include "recorder/text/shell.h"
#include "replay/base/json.h"
#include "replay/commands/conventions_json.h"
#include "replay/original/atomic_lines.h"
#include "replay/stages/recorded_stages.h"
#include "replay/stages/statistics.h"

namespace msda::replay {

namespace {

Statistics statistics_of(const capture::Tensor& tensor) {
  Statistics statistics;
  const analysis::Tensor view{tensor.data.get(), tensor.info.type, tensor.info.shape};
  for (int64_t i = 0; i < view.elements(); ++i) statistics.add(view.at(i));
  return statistics;
}

Json tensor_json(const capture::IsolatedReader& reader, const capture::TensorInfo& info, bool with_statistics = true) {
  Json json = {{"name", info.name},
               {"path", info.path},
               {"type", kernels::name_of(info.type)},
               {"shape", info.shape},
               {"digest", info.digest}};
  with_statistics = with_statistics && info.type != kernels::kUInt8;
  if (with_statistics) json["statistics"] = statistics_of(reader.read(info)).json();
  return json;
}

void put(Json& json, const char* name, const std::string& value) {
  if (!value.empty()) json[name] = value;
}
void put(Json& json, const char* name, const std::optional<capture::RecordedTolerance>& tolerance) {
  if (!tolerance) return;
  json[name] = {{"atol", analysis::number(tolerance->atol)}, {"rtol", analysis::number(tolerance->rtol)}};
}
template <class T>
void put(Json& json, const char* name, const std::optional<T>& value) {
  if (value) json[name] = *value;
}

}  // namespace

Json shown_invocation(const capture::IsolatedReader& reader, const capture::Invocation& invocation) {
  const capture::CallFacts& facts = invocation.facts;
  Json json = {{"id", invocation.id}, {"kernel", facts.kernel}};
  put_conventions(json, invocation);
  for_each_call_attribute(facts, [&](const char* name, const auto& fact) {
    if (!json.contains(name)) put(json, name, fact);
  });
  if (!invocation.parameters.bytes.empty()) {
    json["parameters"] = {{"bytes", invocation.parameters.bytes.size()},
                          {"offsets", invocation.parameters.offsets},
                          {"sizes", invocation.parameters.sizes}};
  }
  json["tensors"] = Json::array();
  for (const auto* group : {&invocation.inputs, &invocation.outputs_before, &invocation.outputs}) {
    for (const auto& tensor : *group) json["tensors"].push_back(tensor_json(reader, tensor));
  }
  for (const auto& stage : invocation.stages) {
    // A tensor with a summary is not read for its statistics: it may be the largest in the file.
    if (stage.full) json["tensors"].push_back(tensor_json(reader, *stage.full, !stage.facts));
  }
  if (!invocation.digests.empty()) json["digests"] = invocation.digests;
  if (!invocation.stages.empty()) json["stages"] = recorded_stages_json(invocation.stages);
  json["results"] = Json::array();
  for (const auto& result : invocation.results) {
    Json shown = {{"name", result.facts.name}, {"role", result.facts.role}, {"dialect", result.facts.dialect}};
    shown["tensors"] = Json::array();
    for (const auto& tensor : result.tensors) shown["tensors"].push_back(tensor_json(reader, tensor));
    json["results"].push_back(shown);
  }
  return json;
}

namespace {

Json shown_run(const capture::IsolatedReader& reader) {
  const capture::Run run = reader.run();
  Json json = {{"argv", run.argv}, {"facts", run.facts}, {"libraries", run.libraries}};
  json["environment"] = Json::object();
  for (const auto& [name, value] : run.environment) {  // older recorders recorded their own settings, too
    if (const auto kept = text::without_recorder(name, value)) json["environment"][name] = *kept;
  }
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
                               {"atomics", to_json(atomic_places(kernel))},
                               {"image_bytes", kernel.image.size()}});
  }
  return json;
}

}  // namespace

std::string trail_line(const std::string& capture, int64_t launches) {
  return fmt::format("  trail of {} launches; to compare it: {}", launches,
                     text::unbroken(fmt::format("msda-replay diff {} OTHER.h5", text::shell_word(capture))));
}

Json shown_capture(const std::string& capture, const capture::IsolatedReader& reader) {
  return {{"capture", capture},
          {"created", reader.created()},
          {"tool_version", reader.tool_version()},
          {"run", shown_run(reader)},
          {"invocations", Json::array()}};
}

}  // namespace msda::replay
