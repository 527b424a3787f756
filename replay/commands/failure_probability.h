// The probability that a test fails, by simulation, as `stress --json` reports it.
#pragma once

#include <string>

#include "replay/commands/simulation.h"

namespace msda::replay {

struct StressOptions : SimulationOptions {
  double width = 0.015, confidence = 0.95;
  std::string state;
  int64_t least_runs = 0, curve_runs = 40;
  StressOptions() { runs = 100'000; }
};

// Returns how many runs, as the flags say; without progress.
analysis::stress::Effort effort_of(const StressOptions& options);
// Returns the intervals for counts of runs, by name.
Json proportions_of(const std::map<std::string, int64_t>& counts, const analysis::stress::Tally& tally,
                    double confidence);

// docs/stress.schema.json. Ctrl-C ends the runs. Throws BadInput for a --state that does not fit, and where it is
// interrupted before the first run ended.
Json simulate_failures(const StressOptions& options, const Simulated& simulated);

// Throws Json::exception unless `stress` has what a page shows of what simulate_failures() returned.
void check_probability(const Json& stress);

}  // namespace msda::replay
