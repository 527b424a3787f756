#include "replay/commands/simulated_calls.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <new>
#include <span>
#include <vector>

#include "recorder/capture/digest.h"
#include "replay/base/errors.h"
#include "replay/commands/conventions_json.h"

namespace msda::replay {

namespace stress = analysis::stress;

namespace {

std::string digest_of(const std::string& text) { return capture::digest(std::as_bytes(std::span(text))); }

// What tells the inputs of a test's call from those of others. Those without digests, or with other data than their
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

// Of 48 bits, which every reader of JSON keeps.
uint64_t seed_of(const StressOptions& options, const std::string& identity) {
  const std::string digest = digest_of(fmt::format("{}\n{}", options.seed, identity));
  return std::stoull(digest.substr(digest.size() - 12), nullptr, 16);
}

// What the call is and what is simulated, but not where it was recorded.
std::string key_of(const std::string& identity, const capture::Invocation& invocation, const Json& described) {
  Json conventions;
  put_conventions(conventions, invocation);
  constexpr auto kReplace = Json::error_handler_t::replace;
  return digest_of(identity + conventions.dump(-1, ' ', false, kReplace) + described.dump(-1, ' ', false, kReplace));
}

void leave_out(Outcome& outcome, int64_t id, const std::string& why) {
  outcome["not_simulated"].push_back({{"id", id}, {"why", why}});
}

// Distinct, in the order in which they occur.
Json labels_of(const Outcome& outcome) {
  Json labels = Json::array();
  for (const Json& call : outcome["calls"]) {
    const bool is_new = call.contains("label") && std::ranges::find(labels, call["label"]) == labels.end();
    if (is_new) labels.push_back(call["label"]);
  }
  return labels;
}

// `bad`: messages, of calls with bad input.
void conclude(const StressOptions& options, const std::vector<std::string>& bad, Outcome& outcome) {
  const bool fails = std::ranges::any_of(outcome["calls"], [](const Json& call) {
    return call["result"]["failure_probability"]["failures"].get<int64_t>() > 0;
  });
  outcome["status"] = fails ? kDrift : kWithinTolerance;
  if (!bad.empty()) {
    outcome["status"] = kBadInput;
    const size_t others = bad.size() - 1;
    outcome["error"] =
        bad.front() + (others == 0 ? "" : fmt::format("; {} other call{} too", others, others == 1 ? "" : "s"));
  } else if (outcome["calls"].empty()) {
    const Json& first = outcome["not_simulated"].front();
    throw Unavailable(fmt::format("{}: no call can be simulated; invocation {}: {}", options.capture,
                                  first["id"].get<int64_t>(), first["why"].get<std::string>()));
  }
}

}  // namespace

Json SimulatedCalls::simulate(const StressOptions& options, const Simulated& simulated) const {
  stress::Tally tally;
  stress::stress(simulated.plan, effort_of(options), {}, {}, tally);
  if (tally.runs == 0) throw BadInput("interrupted before the first run ended");
  Json result = describe(simulated, options);
  result.erase("capture");
  result.erase("invocation");
  result["failure_probability"] = to_json(stress::proportion(tally.failures, tally.runs, options.confidence));
  result["elements_out_of_tolerance"] = tally.elements;
  result["by_cause"] = proportions_of(tally.by_cause, tally, options.confidence);
  result["by_tensor"] = proportions_of(tally.by_tensor, tally, options.confidence);
  result["interrupted"] = StopSignals::received();
  return {{"result", result}, {"failing", {{"runs", tally.failing}, {"by_cause", tally.failing_by_cause}}}};
}

void SimulatedCalls::add_call(const StressOptions& options, const capture::IsolatedReader& reader,
                              const Pairing& pairing, int64_t id, Outcome& outcome) {
  const capture::Invocation invocation = pairing.invocation(id);
  if (const std::string why = why_not_replayed(reader, invocation); !why.empty()) {
    return leave_out(outcome, id, why);
  }
  if (StopSignals::received()) throw BadInput("interrupted before it was simulated");
  Simulated simulated = plan_simulation(options, reader, invocation);
  const std::string identity = identity_of(options, simulated);
  simulated.plan.seed = seed_of(options, identity);
  Json described = describe(simulated, options);
  described.erase("capture");
  described.erase("invocation");
  const std::string key = key_of(identity, invocation, described);
  auto known = known_.find(key);
  if (known == known_.end()) known = known_.emplace(key, simulate(options, simulated)).first;
  Json call = {{"invocation", id}, {"key", key}};
  if (!invocation.facts.label.empty()) call["label"] = invocation.facts.label;
  call.update(known->second);
  outcome["calls"].push_back(std::move(call));
}

Outcome SimulatedCalls::outcome_of(const Options& of_one) {
  StressOptions options = options_;
  static_cast<Options&>(options) = of_one;
  if (StopSignals::received()) {
    return {{"capture", options.capture},
            {"status", kBadInput},
            {"error", options.capture + ": interrupted before it was simulated"},
            {"interrupted", true}};
  }
  const capture::IsolatedReader reader(options.capture);
  const Pairing pairing(options, reader);
  Outcome outcome = {{"capture", options.capture}, {"status", kWithinTolerance}, {"calls", Json::array()}};
  const auto environment = reader.run().environment;
  if (const auto rank = environment.find("RANK"); rank != environment.end()) outcome["rank"] = rank->second;
  std::vector<std::string> bad;
  for (const int64_t id : pairing.chosen()) {
    try {
      add_call(options, reader, pairing, id, outcome);
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {  // the other calls are simulated
      const std::string why = error.what();
      leave_out(outcome, id, why);
      bad.push_back(why.starts_with(options.capture) ? why
                                                     : fmt::format("{}: invocation {}: {}", options.capture, id, why));
    }
  }
  if (Json labels = labels_of(outcome); !labels.empty()) outcome["labels"] = std::move(labels);
  outcome["interrupted"] = StopSignals::received();
  conclude(options, bad, outcome);
  return outcome;
}

}  // namespace msda::replay
