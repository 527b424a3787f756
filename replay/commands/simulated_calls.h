// `stress` of many captures: the simulation of every chosen call of each.
#pragma once

#include <map>
#include <string>

#include "replay/base/stop_signals.h"
#include "replay/calls/pairing.h"
#include "replay/commands/failure_probability.h"
#include "replay/many/many.h"

namespace msda::replay {

// The calls of this process. The same call of the same test, recorded several times, is simulated once; it is known by
// its label, the digests of its inputs, and what is simulated. Calls draw inputs of their own, by a seed of label and
// digests: so what is found does not depend on which process simulates which call. Calls of one test with equal inputs
// draw equal ones, as the test has them, in whichever arithmetic.
//
// While it lives, Ctrl-C ends the runs; what was found until then is kept.
class SimulatedCalls {
 public:
  explicit SimulatedCalls(const StressOptions& options) : options_(options) {}

  // What was found in the capture that `of_one` names, for join_failures().
  Outcome outcome_of(const Options& of_one);

 private:
  void add_call(const StressOptions& options, const capture::IsolatedReader& reader, const Pairing& pairing, int64_t id,
                Outcome& outcome);
  Json simulate(const StressOptions& options, const Simulated& simulated) const;

  const StressOptions& options_;
  std::map<std::string, Json> known_;  // what simulate() returned
  const StopSignals stop_;
};

}  // namespace msda::replay
