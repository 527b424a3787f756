#include "replay/export/one_invocation.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "recorder/capture/writer.h"
#include "recorder/text/environment.h"
#include "recorder/writer/version.h"
#include "replay/base/new_files.h"
#include "replay/calls/conventions.h"

namespace msda::replay {
namespace {

using capture::Invocation;
using capture::IsolatedReader;
using capture::Tensor;
using capture::TensorInfo;
using capture::Writer;

capture::TensorView view_of(const Tensor& tensor) { return {tensor.info, tensor.bytes()}; }

// Returns the seeds given before the invocation; it is number 0 of its new capture.
std::vector<capture::Seed> seeds_before(const IsolatedReader& reader, int64_t id) {
  std::vector<capture::Seed> seeds = reader.seeds();
  std::erase_if(seeds, [&](const capture::Seed& seed) { return seed.invocation.value_or(0) > id; });
  for (capture::Seed& seed : seeds) {
    if (seed.invocation) seed.invocation = 0;
  }
  return seeds;
}

void add_kernel(Writer& writer, const IsolatedReader& reader, const capture::CallFacts& facts) {
  if (const auto code = capture::code_of(facts, reader.kernels())) writer.add_kernel(*code);
}

void add_results(Writer& writer, const IsolatedReader& reader, const Invocation& invocation) {
  for (const Invocation::Result& result : invocation.results) {
    std::vector<Tensor> tensors;
    std::vector<capture::TensorView> views;
    for (const TensorInfo& info : result.tensors) tensors.push_back(reader.read(info));
    for (const Tensor& tensor : tensors) views.push_back(view_of(tensor));
    writer.add_result(result.facts, views);
  }
}

void add_stages(Writer& writer, const IsolatedReader& reader, const Invocation& invocation) {
  for (const Invocation::Stage& stage : invocation.stages) {
    if (stage.full) {
      const Tensor tensor = reader.read(*stage.full);
      writer.begin_stage(stage.name, tensor.info.type, tensor.info.shape);
      writer.add_stage_part(stage.name, std::vector<int64_t>(tensor.info.shape.size(), 0), view_of(tensor));
      writer.end_stage(stage.name);
    }
    if (stage.facts) writer.add_stage_facts(stage.name, *stage.facts);
  }
}

// Further attributes of a launch, from the driver (docs/capture-format.md).
constexpr std::string_view kOfLaunch[] = {"pointers",           "unknown_extents", "unwritten",
                                          "unwritten_left_out", "cooperative",     "cluster_x",
                                          "cluster_y",          "cluster_z",       "programmatic_serialization"};

// Returns a path's last part.
std::string without_folder(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

capture::Run run_of(const IsolatedReader& reader, Surroundings surroundings) {
  capture::Run run = reader.run();
  if (surroundings == Surroundings::kAnonymous) {
    run.argv.clear();
    run.environment.clear();
    // Facts that a person or another tool added may say anything.
    std::erase_if(run.facts, [](const auto& fact) {
      return fact.first != "gpu" && fact.first != "driver" && fact.first != "cuda" && fact.first != "system";
    });
    for (auto& [name, version] : run.libraries) version = without_folder(version);
    return run;
  }
  // Older recorders recorded their own settings, too.
  std::map<std::string, std::string> environment;
  for (const auto& [name, value] : run.environment) {
    if (const auto kept = text::without_recorder(name, value)) environment[name] = *kept;
  }
  run.environment = std::move(environment);
  return run;
}

void make_anonymous(Invocation& invocation) {
  capture::CallFacts& facts = invocation.facts;
  facts.label.clear();
  facts.process.reset();
  facts.thread.reset();
  const auto conventions = conventions_of(invocation);
  const auto is_free = [&](const auto& fact) {
    return !conventions.contains(fact.first) && std::ranges::find(kOfLaunch, fact.first) == std::end(kOfLaunch);
  };
  for_each_type(facts, [&](auto& values) { std::erase_if(values, is_free); });
  int number = 0;
  for (Invocation::Result& result : invocation.results) {
    result.facts.name = fmt::format("result {}", ++number);
    if (result.facts.role != "reference") result.facts.role.clear();
  }
}

void write_one_invocation(const std::string& path, const std::string& shown, const IsolatedReader& reader,
                          const Invocation& invocation, Surroundings surroundings) {
  with_shown_name(path, shown, [&] {
    const capture::CallFacts& facts = invocation.facts;
    Writer writer(path, Writer::IfExists::kReplace, record::version());
    writer.write_run(run_of(reader, surroundings), seeds_before(reader, invocation.id));
    if (surroundings == Surroundings::kAll) add_kernel(writer, reader, facts);
    writer.begin_invocation(facts, invocation.parameters);
    for (const TensorInfo& info : invocation.inputs) writer.add_input(view_of(reader.read(info)));
    for (const TensorInfo& info : invocation.outputs_before) writer.add_output_before(view_of(reader.read(info)));
    for (const TensorInfo& info : invocation.outputs) writer.add_output(view_of(reader.read(info)));
    add_results(writer, reader, invocation);
    add_stages(writer, reader, invocation);
    writer.add_digests(invocation.digests);
    writer.flush();
    writer.close();
  });
}

}  // namespace msda::replay
