#include "replay/commands/failure_probability.h"

#include <fmt/format.h>

#include <chrono>
#include <stdexcept>

#include "analysis/causes/finding.h"
#include "replay/base/errors.h"
#include "replay/base/state_file.h"
#include "replay/base/stop_signals.h"

namespace msda::replay {

namespace stress = analysis::stress;

namespace {

// Steps of the curve: the test's own tolerance times these.
constexpr double kAbove[] = {1, 3, 10, 100, 1000, 1e4, 1e5, 1e6}, kBelow[] = {0.1, 0.3};

template <size_t kCount>
std::vector<double> times(const double (&factors)[kCount], double tolerance) {
  std::vector<double> all;
  for (const double factor : factors) {
    if (tolerance > 0 || all.empty()) all.push_back(factor * tolerance);
  }
  return all;
}

OutputFile state_file(const StressOptions& options) { return {"--state", options.state}; }

// Returns the runs so far, as --state keeps them.
Json state_of(const Json& described, const StressOptions& options, const stress::Tally& tally) {
  Json state = {{"simulation", described}, {"confidence", options.confidence}, {"runs", tally.runs}};
  state["simulation"].erase("capture");
  state["failures"] = tally.failures;
  state["elements"] = tally.elements;
  state["by_cause"] = tally.by_cause;
  state["by_tensor"] = tally.by_tensor;
  state["by_atol"] = tally.by_atol;
  state["by_rtol"] = tally.by_rtol;
  state["digest"] = digest_of(state);
  return state;
}

// Counts that runs can have: the file may have been edited, or made.
stress::Tally tally_of(const Json& state) {
  stress::Tally tally;
  tally.runs = whole_number(state.at("runs"), 0, kMostRuns);
  tally.failures = whole_number(state.at("failures"), 0, tally.runs);
  tally.elements = whole_number(state.at("elements"), 0, INT64_MAX / 2);
  for (const auto& [name, count] : state.at("by_cause").items())
    tally.by_cause[name] = whole_number(count, 0, tally.runs);
  for (const auto& [name, count] : state.at("by_tensor").items())
    tally.by_tensor[name] = whole_number(count, 0, tally.runs);
  for (const Json& count : state.at("by_atol")) tally.by_atol.push_back(whole_number(count, 0, tally.runs));
  for (const Json& count : state.at("by_rtol")) tally.by_rtol.push_back(whole_number(count, 0, tally.runs));
  return tally;
}

// No runs if there is no file yet.
stress::Tally read_tally(const Json& described, const StressOptions& options) {
  const auto refuse = [&](const char* why) { return BadInput(fmt::format("--state {}: {}", options.state, why)); };
  try {
    auto state = read_state(options.state);
    if (!state) return {};
    Json same = described;
    same.erase("capture");
    if (state->at("simulation") != same)
      throw refuse("it is of another simulation; give another file, or the same flags");
    const auto digest = state->at("digest").get<std::string>();
    state->erase("digest");
    if (digest_of(*state) != digest) throw refuse("it is damaged; delete it, or give another file");
    return tally_of(*state);
  } catch (const Json::exception&) {
  } catch (const std::invalid_argument&) {
  }
  throw refuse("not a state of stress; delete it, or give another file");
}

// Returns what the failures depend on: the same inputs once more, another order, another arithmetic, other inputs.
Json by_source(const StressOptions& options, const Simulated& simulated, const Json& inputs) {
  const analysis::Call& call = simulated.loaded->call();
  const stress::Plan& plan = simulated.plan;
  const int threads = static_cast<int>(options.threads);
  const auto misses = [&](const analysis::Arithmetic& observed, const analysis::Arithmetic& expected, uint64_t seed) {
    return stress::count_misses(call, observed, expected, plan.criterion, {}, seed, threads);
  };
  analysis::Arithmetic fixed = plan.observed;
  fixed.mode = MSDA_MODE_DETERMINISTIC;
  Json sources = on_recorded_inputs(simulated, threads);
  constexpr int64_t kOrders = 20;
  int64_t failing = 0, orders = 0;
  for (; orders < kOrders && !StopSignals::received(); ++orders) {
    failing += misses(plan.observed, plan.expected, options.seed + static_cast<uint64_t>(orders)) > 0;
  }
  sources["other_order"] = to_json(stress::proportion(failing, orders, options.confidence));
  sources["other_arithmetic"] = Json::array();
  for (const auto& arithmetic : call.arithmetics()) {
    const int64_t elements = misses(fixed, arithmetic, 0);
    sources["other_arithmetic"].push_back(
        {{"against", arithmetic.name}, {"fails", elements > 0}, {"elements", elements}});
  }
  sources["other_inputs"] = inputs;
  return sources;
}

Json curve_json(const std::vector<double>& limits, const std::vector<int64_t>& counts, const char* name,
                const stress::Tally& tally, double confidence) {
  Json points = Json::array();
  for (size_t i = 0; i < limits.size(); ++i) {
    Json point = {{name, limits[i]}};
    point.update(to_json(stress::proportion(i < counts.size() ? counts[i] : 0, tally.runs, confidence)));
    points.push_back(point);
  }
  return points;
}

// Returns how often the test would fail with other tolerances: tighter ones from fewer runs, in which more elements are
// looked at.
Json curve(const StressOptions& options, const stress::Plan& plan, const stress::Tally& tally,
           const std::vector<double>& atols, const std::vector<double>& rtols, stress::Effort effort) {
  const analysis::Tolerance& own = plan.criterion.tolerance;
  auto below_atol = times(kBelow, own.atol), below_rtol = times(kBelow, own.rtol);
  stress::Plan closer = plan;
  closer.look = {below_atol.front(), below_rtol.front()};
  effort.first = 0;
  effort.most_runs = options.curve_runs;
  effort.width = 0;
  effort.progress = nullptr;
  stress::Tally closer_tally;
  if (options.curve_runs > 0) stress::stress(closer, effort, below_atol, below_rtol, closer_tally);
  if (closer_tally.runs == 0) {
    below_atol.clear();
    below_rtol.clear();
  }
  Json curve = {{"atol", curve_json(below_atol, closer_tally.by_atol, "atol", closer_tally, options.confidence)},
                {"rtol", curve_json(below_rtol, closer_tally.by_rtol, "rtol", closer_tally, options.confidence)}};
  for (const auto& point : curve_json(atols, tally.by_atol, "atol", tally, options.confidence))
    curve["atol"].push_back(point);
  for (const auto& point : curve_json(rtols, tally.by_rtol, "rtol", tally, options.confidence))
    curve["rtol"].push_back(point);
  return curve;
}

}  // namespace

stress::Effort effort_of(const StressOptions& options) {
  stress::Effort effort;
  effort.most_runs = options.runs;
  effort.least_runs = options.least_runs;
  effort.width = options.width;
  effort.confidence = options.confidence;
  effort.threads = static_cast<int>(options.threads);
  effort.stop = &StopSignals::received;
  return effort;
}

Json proportions_of(const std::map<std::string, int64_t>& counts, const stress::Tally& tally, double confidence) {
  Json parts = Json::object();
  for (const auto& [name, failures] : counts)
    parts[name] = to_json(stress::proportion(failures, tally.runs, confidence));
  return parts;
}

Json simulate_failures(const StressOptions& options, const Simulated& simulated) {
  const stress::Plan& plan = simulated.plan;
  const bool by_tolerance = !plan.criterion.factor;
  const Json described = describe(simulated, options);
  const auto atols = times(kAbove, plan.criterion.tolerance.atol), rtols = times(kAbove, plan.criterion.tolerance.rtol);
  const Progress progress(!options.quiet);
  const StopSignals stop;
  stress::Tally tally = options.state.empty() ? stress::Tally() : read_tally(described, options);
  auto written = std::chrono::steady_clock::now();
  const auto keep = [&](const stress::Tally& so_far) {
    if (!options.state.empty()) state_file(options).write(text_of(state_of(described, options, so_far)));
    written = std::chrono::steady_clock::now();
  };
  stress::Effort effort = effort_of(options);
  effort.first = tally.runs;
  effort.most_runs = std::max<int64_t>(0, options.runs - tally.runs);
  effort.progress = [&](const stress::Tally& so_far) {
    const auto known = stress::proportion(so_far.failures, so_far.runs, options.confidence);
    progress.show(fmt::format("{} runs: {}", so_far.runs, percent(to_json(known))));
    if (std::chrono::steady_clock::now() - written > std::chrono::seconds(5)) keep(so_far);
  };
  const auto before = stress::proportion(tally.failures, tally.runs, options.confidence);
  if (before.high - before.low > options.width || tally.runs < options.least_runs)
    stress::stress(plan, effort, atols, rtols, tally);
  keep(tally);
  if (tally.runs == 0) throw BadInput("interrupted before the first run ended");

  Json result = described;
  if (const std::string content = content_of(simulated.invocation); !content.empty()) result["content"] = content;
  const auto known = stress::proportion(tally.failures, tally.runs, options.confidence);
  result["failure_probability"] = to_json(known);
  result["confidence"] = options.confidence;
  result["elements_out_of_tolerance"] = tally.elements;
  result["by_cause"] = proportions_of(tally.by_cause, tally, options.confidence);
  result["by_tensor"] = proportions_of(tally.by_tensor, tally, options.confidence);
  progress.show("the recorded inputs");
  result["by_source"] = by_source(options, simulated, result["failure_probability"]);
  if (by_tolerance) {
    progress.show("other tolerances");
    result["curve"] = curve(options, plan, tally, atols, rtols, effort);
  }
  result["examples"] = Json::array();
  for (const auto& example : tally.examples) {
    result["examples"].push_back({{"run", example.run},
                                  {"slice", example.miss.slice},
                                  {"tensor", example.miss.gradient.name()},
                                  {"index", example.index},
                                  {"observed", analysis::number(example.miss.observed)},
                                  {"expected", analysis::number(example.miss.expected)},
                                  {"cause", name_of(example.miss.cause)}});
  }
  result["interrupted"] = StopSignals::received();
  progress.show("");
  return result;
}

void check_probability(const Json& stress) {
  const auto check_numbers = [](const Json& object, std::initializer_list<const char*> names) {
    for (const char* name : names) object.at(name).get<double>();
  };
  check_numbers(stress, {"invocation", "confidence"});
  check_numbers(stress.at("criterion"), {"atol", "rtol"});
  check_numbers(stress.at("failure_probability"), {"estimate", "low", "high", "failures", "runs"});
  for (const char* name : {"capture", "observed", "against"}) stress.at(name).get<std::string>();
  stress.value("content", "");
  stress.at("interrupted").get<bool>();
  for (const char* parts : {"by_cause", "by_tensor"}) {
    for (const auto& [name, part] : stress.at(parts).items()) check_numbers(part, {"estimate", "low", "high"});
  }
  if (!stress.contains("curve")) return;
  for (const char* name : {"atol", "rtol"}) {
    for (const Json& point : stress["curve"].at(name)) check_numbers(point, {name, "estimate", "low", "high"});
  }
}

}  // namespace msda::replay
