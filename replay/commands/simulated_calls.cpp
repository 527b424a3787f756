#include "replay/commands/simulated_calls.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <new>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "recorder/capture/digest.h"
#include "replay/base/errors.h"
#include "replay/commands/conventions_json.h"

namespace msda::replay {

namespace stress = analysis::stress;

namespace {

std::string digest_of(const std::string& text) { return capture::digest(std::as_bytes(std::span(text))); }

// Returns a text that is equal for calls with equal inputs. Inputs without digests, or with other data than their
// digests say, are equal to none.
std::string identity_of(const StressOptions& options, const Simulated& simulated) {
  const capture::Invocation& invocation = simulated.invocation;
  const bool altered = !simulated.loaded->altered().empty();
  std::string text = invocation.facts.label + "\n";
  for (const capture::TensorInfo& input : invocation.inputs) {
    if (altered || input.digest.empty()) return fmt::format("{}\n{}\n{}", text, options.capture, invocation.path);
    text += fmt::format("{} {} [{}]\n", input.name, input.digest, fmt::join(input.shape, ","));
  }
  return text;
}

// Returns a seed of 48 bits, which every reader of JSON keeps.
uint64_t seed_of(const StressOptions& options, const std::string& identity) {
  const std::string digest = digest_of(fmt::format("{}\n{}", options.seed, identity));
  return std::stoull(digest.substr(digest.size() - 12), nullptr, 16);
}

// Returns what the call is and what is simulated, but not where it was recorded.
std::string key_of(const std::string& identity, const capture::Invocation& invocation, const Json& described) {
  Json conventions;
  put_conventions(conventions, invocation);
  return digest_of(identity + line_of(conventions) + line_of(described));
}

// Returns what is simulated, with the call's own seed; without where it was recorded.
Json what_is_simulated(const StressOptions& options, const Simulated& simulated, const std::string& identity) {
  Json described = describe(simulated, options);
  described.erase("capture");
  described.erase("invocation");
  described["seed"] = seed_of(options, identity);
  return described;
}

void leave_out(Outcome& outcome, int64_t id, const std::string& why) {
  outcome["not_simulated"].push_back({{"id", id}, {"why", why}});
}

void add_error(Outcome& outcome, const std::string& capture, int64_t id, std::string why) {
  if (why.starts_with(capture + ": ")) why.erase(0, capture.size() + 2);
  leave_out(outcome, id, why);
  outcome["status"] = kBadInput;
  if (outcome.contains("error")) return;  // the first, of several calls; not_simulated has all
  outcome["error"] = fmt::format("{}: invocation {}: {}", capture, id, why);
}

// Distinct, in the order in which they occur.
Json call_labels(const Outcome& outcome) {
  Json labels = Json::array();
  for (const Json& call : outcome["calls"]) {
    const bool is_new = call.contains("label") && std::ranges::find(labels, call["label"]) == labels.end();
    if (is_new) labels.push_back(call["label"]);
  }
  return labels;
}

// Numbers drawn in a run.
uint64_t cost_of(const stress::Plan& plan) {
  uint64_t numbers = 0;
  for (const auto& input : plan.slices.outline->inputs()) numbers += static_cast<uint64_t>(input.tensor.elements());
  return numbers * static_cast<uint64_t>(plan.slices.count);
}

// Returns each call once, where it comes first.
std::vector<Work> work_of(const std::vector<Outcome>& outcomes) {
  std::vector<Work> work;
  std::set<std::string> known;
  for (const Outcome& outcome : outcomes) {
    for (const Json& call : outcome.value("calls", Json::array())) {
      if (!known.insert(call["key"]).second) continue;
      const auto capture = outcome["capture"].get<std::string>();
      work.push_back({fmt::format("{}, invocation {}", capture, call["invocation"]),
                      {{"capture", capture}, {"invocation", call["invocation"]}, {"key", call["key"]}},
                      call["cost"].get<uint64_t>()});
    }
  }
  return work;
}

// Puts what was found for its calls into an outcome. `found`: by key.
void complete(Outcome& outcome, const std::map<std::string, Json>& found) {
  const Json planned = std::exchange(outcome["calls"], Json::array());
  for (Json call : planned) {
    const Json& result = found.at(call["key"]);
    if (result.contains("error")) {
      outcome["interrupted"] = outcome["interrupted"].get<bool>() || result["interrupted"].get<bool>();
      add_error(outcome, outcome["capture"], call["invocation"], result["error"]);
      continue;
    }
    const bool fails = result["result"]["failure_probability"]["failures"].get<int64_t>() > 0;
    if (fails && outcome["status"] == kWithinTolerance) outcome["status"] = kDrift;
    outcome["interrupted"] = outcome["interrupted"].get<bool>() || result["result"]["interrupted"].get<bool>();
    call.update(result);
    outcome["calls"].push_back(std::move(call));
  }
}

}  // namespace

StressOptions SimulatedCalls::options_for(const Options& of_one) const {
  StressOptions options = options_;
  static_cast<Options&>(options) = of_one;
  return options;
}

void SimulatedCalls::plan_call(const StressOptions& options, const capture::IsolatedReader& reader,
                               const Pairing& pairing, int64_t id, Outcome& outcome) const {
  const capture::Invocation invocation = pairing.invocation(id);
  if (const std::string why = why_not_replayed(reader, invocation); !why.empty()) {
    return leave_out(outcome, id, why);
  }
  const Simulated simulated = plan_simulation(options, reader, invocation);
  const std::string identity = identity_of(options, simulated);
  Json call = {{"invocation", id}};
  if (!invocation.facts.label.empty()) call["label"] = invocation.facts.label;
  call["kernel"] = invocation.facts.kernel;
  call["key"] = key_of(identity, invocation, what_is_simulated(options, simulated, identity));
  call["cost"] = cost_of(simulated.plan);
  outcome["calls"].push_back(std::move(call));
}

Outcome SimulatedCalls::plan(const Options& of_one) const {
  const StressOptions options = options_for(of_one);
  if (StopSignals::received()) {
    return {{"capture", options.capture},
            {"status", kBadInput},
            {"error", options.capture + ": interrupted before it was simulated"},
            {"interrupted", true}};
  }
  const capture::IsolatedReader reader(options.capture);
  const Pairing pairing(options, reader);
  Outcome outcome = {
      {"capture", options.capture}, {"status", kWithinTolerance}, {"calls", Json::array()}, {"interrupted", false}};
  const auto environment = reader.run().environment;
  if (const auto rank = environment.find("RANK"); rank != environment.end()) outcome["rank"] = rank->second;
  for (const int64_t id : pairing.chosen()) {
    try {
      plan_call(options, reader, pairing, id, outcome);
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {  // the other calls are simulated
      add_error(outcome, options.capture, id, error.what());
    }
  }
  if (Json labels = call_labels(outcome); !labels.empty()) outcome["labels"] = std::move(labels);
  if (outcome["calls"].empty() && !outcome.contains("error")) {
    const Json& first = outcome["not_simulated"].front();
    outcome["status"] = kUnavailable;
    outcome["error"] =
        fmt::format("{}: no call can be simulated; invocation {}: {}", options.capture, first["id"], first["why"]);
  }
  return outcome;
}

// Simulates a call that was planned before, perhaps by another rank.
Json SimulatedCalls::simulate_call(const Options& of_one, const Json& call) const {
  try {
    if (StopSignals::received()) throw BadInput("interrupted before it was simulated");
    StressOptions options = options_for(of_one);
    options.capture = call["capture"].get<std::string>();
    const capture::IsolatedReader reader(options.capture);
    const Pairing pairing(options, reader);
    Simulated simulated = plan_simulation(options, reader, pairing.invocation(call["invocation"]));
    Json result = what_is_simulated(options, simulated, identity_of(options, simulated));
    simulated.plan.seed = result["seed"];
    stress::Tally tally;
    stress::stress(simulated.plan, effort_of(options), {}, {}, tally);
    if (tally.runs == 0) throw BadInput("interrupted before the first run ended");
    result["failure_probability"] = to_json(stress::proportion(tally.failures, tally.runs, options.confidence));
    result["elements_out_of_tolerance"] = tally.elements;
    result["by_cause"] = proportions_of(tally.by_cause, tally, options.confidence);
    result["by_tensor"] = proportions_of(tally.by_tensor, tally, options.confidence);
    result["interrupted"] = StopSignals::received();
    return {{"result", result}, {"failing", {{"runs", tally.failing}, {"by_cause", tally.failing_by_cause}}}};
  } catch (const std::bad_alloc&) {
    return {{"error", "out of memory: the capture is too large for this machine"}, {"interrupted", false}};
  } catch (const std::exception& error) {
    return {{"error", error.what()}, {"interrupted", StopSignals::received()}};
  }
}

void SimulatedCalls::simulate(std::vector<Outcome>& outcomes) const {
  const std::vector<Work> work = work_of(outcomes);
  std::vector<Json> results = over_work(options_, ranks_, "call", work, [&](const Options& of_one, const Json& call) {
    return simulate_call(of_one, call);
  });
  std::map<std::string, Json> found;
  for (size_t i = 0; i < work.size(); ++i) found[work[i].what["key"]] = std::move(results[i]);
  for (Outcome& outcome : outcomes) {
    if (outcome.contains("calls")) complete(outcome, found);
  }
}

}  // namespace msda::replay
