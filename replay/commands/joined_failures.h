// What `stress` found in many captures, as one report: how often each test fails, and how often at least one does.
#pragma once

#include <vector>

#include "replay/commands/simulation.h"
#include "replay/many/many.h"

namespace msda::replay {

// docs/stress-many.schema.json. `outcomes`: of each capture, as SimulatedCalls gives them, or an error.
Json join_failures(const std::vector<Outcome>& outcomes, double confidence);

// `verbose`: also the tests that never failed, and all places where a test was recorded.
Lines joined_failures_text(const Json& joined, bool quiet, bool verbose);

}  // namespace msda::replay
