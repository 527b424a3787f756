#include "replay/commands/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "replay/base/errors.h"
#include "replay/modes/recorded_order.h"

namespace msda::replay {

analysis::Material material_of(const capture::Invocation& invocation, const LoadedCall& loaded,
                               const Replays& replays) {
  analysis::Material material;
  material.call = loaded.shared_call();
  material.kernel = invocation.facts.kernel;
  material.recorded = loaded.recorded();
  for (const auto gradient : loaded.call().gradients()) {
    material.before[gradient.place()] = loaded.before(gradient);
    const auto* before = find(invocation.outputs_before, name_of(gradient));
    if (before != nullptr) material.before_digests[gradient.place()] = before->digest;
  }
  if (loaded.reference() != nullptr) material.reference = *loaded.reference();
  material.float64 = replays.float64();
  material.replays = replays.others();
  for (const auto& side : loaded.other_results()) material.replays.push_back(side);
  return material;
}

InvocationResult explain_invocation(const Options& options, const capture::IsolatedReader& reader,
                                    const Pairing& pairing, Original& original, Devices& devices, int64_t id,
                                    const std::string& count, const Progress& progress, const Look& look) {
  const auto report = [&](const std::string& step) {
    progress.show(fmt::format("invocation {}{}: {}", id, count, step));
  };
  const auto begun = std::chrono::steady_clock::now();
  InvocationResult result;
  result.invocation = pairing.invocation(id);
  result.notes = pairing.notes(id);
  const auto& texts = result.invocation.facts.texts;
  if (const auto roles = texts.find("roles"); roles != texts.end()) result.notes.push_back(roles->second);
  report("reading");
  const LoadedCall loaded(options, reader, result.invocation);
  result.call = loaded.call().outline();
  result.customary = options.customary;
  result.tolerance = chosen_tolerance(options, result.invocation, loaded.call().inputs().front().tensor.dtype);
  result.altered = loaded.altered();

  auto outcome = original.run(result.invocation, begun, report);
  result.original = std::move(outcome.result);
  result.poison = std::move(outcome.poison);
  result.original_left_out = std::move(outcome.left_out);

  ReplaySettings replay;
  replay.modes = chosen_modes(options).replayed;
  replay.float64_stages = chosen_float64_stages(options, loaded.call());
  replay.threads = static_cast<int>(options.threads);
  replay.repeat = options.repeat;
  replay.seed = options.seed;
  Replays replays(loaded, replay, devices, report);
  if (result.original) replays.add(*result.original, loaded);
  result.digests = replays.digests();
  result.repeats = replays.repeats();
  result.whereabouts = replays.whereabouts();

  std::optional<OrderedReplay> ordered;
  if (chosen_modes(options).recorded_order) {
    ordered = replay_in_recorded_order(loaded, result.invocation.facts.kernel, replay.threads, replay.seed, report);
    result.recorded_order = ordered->found;
    result.digests["recorded_order"] = ordered->digests;
  }

  report("comparing");
  analysis::Material material = material_of(result.invocation, loaded, replays);
  material.earlier = [&pairing, id] { return pairing.earlier().before(id); };
  if (ordered) material.replays.push_back(ordered->owned.side);
  result.report = analyze(material, {result.tolerance, static_cast<int>(options.threads), options.customary});
  result.compared = std::ranges::any_of(material.recorded.tensors, [](const auto& tensor) { return bool{tensor}; });
  if (!result.compared) result.report.verdict.summary = kNothingToCompare;
  if (look) look(loaded, material, result);
  return result;
}

}  // namespace msda::replay
