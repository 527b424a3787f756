#include "replay/explain.h"

#include <fmt/format.h>

#include "replay/loaded_call.h"
#include "replay/replays.h"

namespace msda::replay {

InvocationResult explain_invocation(const Options& options, const capture::Reader& reader, int64_t id,
                                    const std::string& count, const Progress& progress) {
  const auto report = [&](const std::string& step) {
    progress.show(fmt::format("invocation {}{}: {}", id, count, step));
  };
  InvocationResult result;
  result.invocation = reader.invocation(id);
  report("reading");
  const LoadedCall loaded(reader, result.invocation);
  result.value_shape = loaded.call().value.shape;
  result.locations_shape = loaded.call().sampling_locations.shape;
  result.levels = loaded.call().levels;
  result.tolerance = chosen_tolerance(options, result.invocation, loaded.call().value.dtype);
  result.altered = loaded.altered();

  ReplaySettings replay;
  replay.modes = chosen_modes(options);
  replay.float64_stages = chosen_float64_stages(options);
  replay.threads = static_cast<int>(options.threads);
  replay.repeat = options.repeat;
  replay.seed = options.seed;
  const Replays replays(loaded, replay, report);
  result.digests = replays.digests();
  result.repeats = replays.repeats();

  report("comparing");
  analysis::Material material;
  material.call = loaded.call();
  material.recorded = loaded.recorded();
  for (const auto gradient : analysis::kGradients)
    material.before[static_cast<int>(gradient)] = loaded.before(gradient);
  if (loaded.reference() != nullptr) material.reference = *loaded.reference();
  material.float64 = replays.float64();
  material.replays = replays.others();
  for (const auto& side : loaded.other_results()) material.replays.push_back(side);
  result.report = analyze(material, {result.tolerance, static_cast<int>(options.threads)});
  return result;
}

}  // namespace msda::replay
