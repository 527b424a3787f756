// msda-replay advise: the mask and the tolerance with which a test is sound, and which faults it then still finds.
#include "analysis/stress/advise.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

#include "replay/base/errors.h"
#include "replay/base/stop_signals.h"
#include "replay/commands/advice.h"
#include "replay/commands/commands.h"
#include "replay/commands/flags.h"
#include "replay/commands/new_command.h"
#include "replay/commands/simulation.h"

namespace msda::replay {
namespace {

namespace stress = analysis::stress;

struct AdviseOptions : SimulationOptions {
  bool markdown = false, patch = false;
  int64_t check_runs = 0;  // with the advised tolerance; 0: as many as `runs`
};

constexpr double kShare = 1e-6;                  // of runs that may fail
constexpr int64_t kRuns = 500, kSlices = 8'000;  // simulated at least, unless --runs says otherwise
constexpr int64_t kElements = 400;               // in which faults are planted, of each gradient

int64_t chosen_runs(const AdviseOptions& options, const stress::Plan& plan) {
  return options.runs != 0 ? options.runs : std::max(kRuns, kSlices / plan.slices.count);
}

// Extrapolates to runs that were not simulated only if the tail has at least so many slices.
constexpr size_t kLeastTail = 50;
bool shows_tail(const stress::Tally& tally) { return tally.needed_atol.size() >= kLeastTail; }

// Returns the atol that all slices need, of those that need more than `least`.
double seen_atol(const stress::Tally& tally, double least) {
  return tally.needed_atol.empty() ? least : std::ranges::max(tally.needed_atol);
}

// Returns the atol with which all but kShare of the runs pass; `least`: from which on the tally knows what slices need.
double needed_atol(const stress::Plan& plan, const stress::Tally& tally, double least) {
  const int64_t slices = plan.slices.count;
  return stress::tolerance_of_all_but(kShare / static_cast<double>(slices), tally.needed_atol, tally.runs * slices,
                                      least);
}

// Upwards, to two digits.
double rounded_up(double x) {
  if (!(x > 0)) return 0;
  const double unit = std::pow(10.0, std::floor(std::log10(x)) - 1);
  return std::stod(fmt::format("{:.1e}", std::ceil(x / unit - 1e-9) * unit));
}

stress::Tally simulate(const AdviseOptions& options, const stress::Plan& plan, int64_t first, int64_t runs,
                       const Progress& progress, const char* step) {
  stress::Effort effort;
  effort.first = first;
  effort.most_runs = runs;
  effort.width = 0;
  effort.threads = static_cast<int>(options.threads);
  effort.stop = &StopSignals::received;
  effort.progress = [&](const stress::Tally& so_far) { progress.show(fmt::format("{}: {} runs", step, so_far.runs)); };
  stress::Tally tally;
  stress::stress(plan, effort, {}, {}, tally);
  if (StopSignals::received())
    throw BadInput("interrupted: there is no advice without all runs; fewer of them: --runs N");
  return tally;
}

// A fault that shows in less than a tenth of the elements that it changes counts as a blind spot, not as found.
bool is_found(const stress::Fault& fault) { return fault.found * 10 >= fault.tried; }

// Returns whether a gradient of 0 in place of the right one would pass.
bool passes_zeros(const std::vector<stress::Fault>& faults) {
  return std::ranges::any_of(
      faults, [](const stress::Fault& fault) { return fault.text == stress::kZeroThroughout && !is_found(fault); });
}

// Returns which faults the test finds, in words and numbers.
Json mutation_score(const std::vector<stress::Fault>& faults) {
  Json json = {{"kinds", faults.size()}, {"found", 0}, {"score", 1.0}, {"faults", Json::array()}};
  int64_t found = 0;
  for (const stress::Fault& fault : faults) {
    found += is_found(fault);
    json["faults"].push_back({{"tensor", fault.tensor},
                              {"as_if", fault.text},
                              {"elements", fault.tried},
                              {"out_of_tolerance", fault.found}});
  }
  json["found"] = found;
  if (!faults.empty()) json["score"] = static_cast<double>(found) / static_cast<double>(faults.size());
  return json;
}

Json blind_spots(const std::vector<stress::Fault>& faults) {
  Json json = Json::array();
  for (const stress::Fault& fault : faults) {
    if (!is_found(fault)) json.push_back({{"tensor", fault.tensor}, {"as_if", fault.text}});
  }
  return json;
}

// A pull request fixes a failure that was seen, and neither it nor its code may hide one.
void check_there_is_a_change(const AdviseOptions& options, const Json& advice) {
  const Json& seen = advice["as_it_is"]["failure_probability"];
  const std::string call = fmt::format("{}: invocation {}", options.capture, advice["invocation"]);
  if (!advice["advised"]["sound"].get<bool>()) {
    throw Unavailable(call +
                      ": with the tolerance that the test needs, gradients of 0 would pass; compare with another "
                      "reference: --against");
  }
  if (options.markdown && seen["failures"] == 0) {
    const auto runs = seen["runs"].get<int64_t>();
    throw Unavailable(fmt::format(
        "{}: none of {} simulated runs fails, so there is nothing to fix: --runs N simulates more", call, runs));
  }
}

int run_advise(const AdviseOptions& options) {
  check_range("--runs", options.runs, 0, kMostRuns);
  check_range("--check-runs", options.check_runs, 0, kMostRuns);
  if (options.markdown && options.patch) throw BadInput("--markdown prints the patch, too: give one of them");
  const capture::IsolatedReader reader(options.capture);
  Simulated simulated = plan_simulation(options, reader);
  if (simulated.plan.criterion.factor) throw BadInput("--criterion anchored:K: advise is for tests with a tolerance");
  const Progress progress(true);
  const StopSignals stop;
  const analysis::Call& call = simulated.loaded->call();
  constexpr double kConfidence = 0.95;
  stress::Plan plan = simulated.plan;
  const analysis::Tolerance own = plan.criterion.tolerance;
  const auto faults_of = [&](const analysis::Tolerance& tolerance, const stress::Mask& mask) {
    return stress::plant_faults(call, tolerance, mask, kElements);
  };

  Json advice = describe(simulated, options);
  const int64_t runs = chosen_runs(options, plan);
  const stress::Tally as_it_is = simulate(options, plan, 0, runs, progress, "as it is");
  const double seen_now = seen_atol(as_it_is, own.atol);
  const double needed_now = shows_tail(as_it_is) ? needed_atol(plan, as_it_is, own.atol) : seen_now;
  const bool blind = passes_zeros(faults_of({needed_now, own.rtol}, {}));
  Json& now = advice["as_it_is"];
  now = on_recorded_inputs(simulated, static_cast<int>(options.threads));
  now["failure_probability"] = to_json(stress::proportion(as_it_is.failures, as_it_is.runs, kConfidence));
  now["atol"] = blind || !shows_tail(as_it_is) ? Json(nullptr) : Json(needed_now);
  now["seen_atol"] = seen_now;
  now["extrapolated"] = shows_tail(as_it_is);
  now["blind"] = blind;
  now["mutation"] = mutation_score(faults_of(own, {}));

  // A mask is for jumps: nothing is left out of a test that none makes fail.
  if (as_it_is.failures > 0) plan.mask.units = stress::units_needed(call, plan.observed, plan.expected);
  plan.look = {own.atol / 4, own.rtol};
  const stress::Tally masked = simulate(options, plan, 0, runs, progress, "looking closer");
  const double needed = needed_atol(plan, masked, own.atol / 4);
  const double atol = needed > own.atol ? rounded_up(1.25 * needed) : own.atol;
  plan.criterion.tolerance.atol = atol;
  plan.look = {INFINITY, INFINITY};
  const int64_t check_runs = options.check_runs == 0 ? runs : options.check_runs;
  const stress::Tally checked = simulate(options, plan, runs, check_runs, progress, "with this advice");
  const auto faults = faults_of(plan.criterion.tolerance, plan.mask);
  const char* mask = !(plan.mask.units > 0) ? "none" : call.jumps().scattered ? "grad_output" : "gradients";
  advice["advised"] = {
      {"units", plan.mask.units}, {"atol", atol}, {"rtol", own.rtol}, {"needed_atol", needed}, {"runs", masked.runs}};
  advice["advised"]["mask"] = mask;
  advice["advised"]["seen_atol"] = seen_atol(masked, own.atol / 4);
  advice["advised"]["extrapolated"] = shows_tail(masked);
  advice["advised"]["sound"] = !passes_zeros(faults);
  advice["advised"]["failure_probability"] = to_json(stress::proportion(checked.failures, checked.runs, kConfidence));
  advice["advised"]["mutation"] = mutation_score(faults);
  advice["blind_spots"] = blind_spots(faults);
  advice["patch"] = patch_of(advice, *simulated.loaded);
  progress.show("");
  if (!options.json.empty()) write_json(options.json, "advise", advice);
  if (options.json == "-") return kWithinTolerance;
  if (options.patch || options.markdown) check_there_is_a_change(options, advice);
  if (options.patch) {
    print_raw(advice["patch"].get<std::string>());
  } else if (options.markdown) {
    print_raw(to_markdown(advice));
  } else {
    print(advice_text(advice));
  }
  return kWithinTolerance;
}

}  // namespace

void add_advise_command(CLI::App& app, int& status) {
  const auto [command, options] = new_command<AdviseOptions>(
      app, status, "advise",
      "Advise a mask and a tolerance that make the test sound, and say which faults it then finds", run_advise);
  add_capture(command, options);
  add_simulation(command, options);
  add_count(command, "--runs", options.runs,
            "Runs of each of the three simulations; 0: as many as it takes to extrapolate, at least 500");
  add_count(command, "--check-runs", options.check_runs,
            "Further runs that check the advised tolerance; 0: as many as --runs");
  command.add_flag("--markdown", options.markdown, "Print the advice as the text of a pull request");
  command.add_flag("--patch", options.patch, "Print the advised comparison as Python code");
  add_operator(command);
  command.footer("Exit status: 0 advice was given, 2 bad usage or bad input, 3 no tolerance makes the test sound.");
}

}  // namespace msda::replay
