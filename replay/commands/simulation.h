// What stress and advise share: the flags that say what is simulated, and the plan that they make of a call.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "analysis/stress/stress.h"
#include "replay/base/json.h"
#include "replay/base/options.h"
#include "replay/base/output.h"
#include "replay/base/progress.h"
#include "replay/calls/loaded_call.h"

namespace CLI {
class App;
}

namespace msda::replay {

constexpr int64_t kMostRuns = 1'000'000'000;

struct SimulationOptions : Options {
  std::optional<int64_t> batch, heads, queries;
  std::string against, criterion = "allclose", evaluation = "auto";
  std::vector<std::string> draws;  // TENSOR=GENERATOR
  int64_t runs = 0;
  bool every_element = false;
};

// Flags for the invocation, the sizes, the generators, the criterion and the seed.
void add_simulation(CLI::App& command, SimulationOptions& options);

// One call of a capture, and the plan to simulate it.
struct Simulated {
  capture::Invocation invocation;
  std::unique_ptr<LoadedCall> loaded;
  analysis::stress::Plan plan;
  std::vector<std::string> fitted;  // inputs whose generator was fitted to the recorded numbers
  bool evaluation_seen = false;     // in the recorded gradients
  int64_t others = 0;               // calls of the capture that were not chosen
};
// Plans for the first chosen call that can be replayed. Throws BadInput or Unavailable.
Simulated plan_simulation(const SimulationOptions& options, const capture::IsolatedReader& reader);
// Returns the test on the recorded inputs: what was recorded ("recorded"; not by an anchored criterion), and what the
// kernels that are simulated give ("same_inputs").
Json on_recorded_inputs(const Simulated& simulated, int threads);
// Returns a warning where only what was recorded fails.
Lines another_kernel_text(const Json& on_recorded_inputs);
// Plans for this call, which can be replayed. Throws BadInput.
Simulated plan_simulation(const SimulationOptions& options, const capture::IsolatedReader& reader,
                          capture::Invocation invocation);

// Returns what is simulated, for the result: operator, sizes, inputs, arithmetics, criterion, seed.
Json describe(const Simulated& simulated, const SimulationOptions& options);
// Identifies a recorded call by the digests of its tensors, wherever its file is; empty if the capture has none.
std::string content_of(const capture::Invocation& invocation);
Lines describe_text(const Json& described);

Json to_json(const analysis::stress::Proportion& proportion);
std::string percent(const Json& proportion);  // "8.40 % (7.72 to 9.12)"

}  // namespace msda::replay
