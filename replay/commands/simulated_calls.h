// `stress` of many captures: the simulation of every chosen call of each.
#pragma once

#include <vector>

#include "replay/base/stop_signals.h"
#include "replay/calls/pairing.h"
#include "replay/commands/failure_probability.h"
#include "replay/many/many.h"

namespace msda::replay {

// The same call of the same test, recorded several times, is simulated once; it is known by its label, the digests of
// its inputs, and what is simulated. Calls draw inputs of their own, by a seed of label and digests: so what is found
// does not depend on which rank simulates which call. Calls of one test with equal inputs draw equal ones, as the test
// has them, in whichever arithmetic.
//
// While it lives, Ctrl-C ends the runs; what was found until then is kept.
class SimulatedCalls {
 public:
  // Keeps references to the arguments.
  SimulatedCalls(const StressOptions& options, const Ranks& ranks) : options_(options), ranks_(ranks) {}

  // Returns the calls of the capture that `of_one` names, not simulated yet.
  Outcome plan(const Options& of_one) const;
  // Simulates them, on all ranks: then the outcomes are what join_failures() takes.
  void simulate(std::vector<Outcome>& outcomes) const;

 private:
  StressOptions options_for(const Options& of_one) const;
  void plan_call(const StressOptions& options, const capture::IsolatedReader& reader, const Pairing& pairing,
                 int64_t id, Outcome& outcome) const;
  Json simulate_call(const Options& of_one, const Json& call) const;

  const StressOptions& options_;
  const Ranks& ranks_;
  const StopSignals stop_;
};

}  // namespace msda::replay
