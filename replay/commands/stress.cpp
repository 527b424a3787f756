// msda-replay stress: the probability that a test fails, from simulated runs with inputs drawn anew.
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <memory>
#include <set>
#include <string>

#include "recorder/text/words.h"
#include "replay/base/errors.h"
#include "replay/commands/commands.h"
#include "replay/commands/failure_probability.h"
#include "replay/commands/flags.h"
#include "replay/commands/joined_failures.h"
#include "replay/commands/simulated_calls.h"
#include "replay/many/many.h"
#include "replay/report/findings.h"

namespace msda::replay {
namespace {

std::string source_text(const Json& source) {
  return source["fails"].get<bool>() ? "fails, " + text::counted(count_at(source, "elements"), "element") : "passes";
}

Lines stress_text(const Json& result, bool quiet) {
  Lines lines;
  const Json& probability = result["failure_probability"];
  lines.add("The test fails in {} of runs: {} of {} simulated, {:g} % interval.", percent(probability),
            probability["failures"], probability["runs"], 100 * result["confidence"].get<double>());
  if (result["interrupted"].get<bool>()) lines.add("Interrupted: this is the result so far.");
  if (quiet) return lines;
  lines.append(describe_text(result));
  lines.append(another_kernel_text(result["by_source"]));
  lines.blank();
  const auto table = [&](const char* title, const Json& parts) {
    lines.add("{}", title);
    for (const auto& [name, part] : parts.items()) lines.add("  {:<28} {}", name, percent(part));
  };
  if (!result["by_cause"].empty()) table("By cause (runs with such an element)", result["by_cause"]);
  table("By tensor", result["by_tensor"]);
  const Json& source = result["by_source"];
  lines.add("By source");
  if (source.contains("recorded")) lines.add("  {:<28} {}", "what was recorded", source_text(source["recorded"]));
  lines.add("  {:<28} {}", "the recorded inputs again", source_text(source["same_inputs"]));
  lines.add("  {:<28} {} of {} fail", "in other orders of addition", source["other_order"]["failures"],
            source["other_order"]["runs"]);
  for (const auto& arithmetic : source["other_arithmetic"]) {
    lines.add("  {:<28} {}", "against " + arithmetic["against"].get<std::string>(), source_text(arithmetic));
  }
  lines.add("  {:<28} {}", "other inputs", percent(source["other_inputs"]));
  if (!result.contains("curve")) return lines;
  for (const char* name : {"atol", "rtol"}) {
    lines.add("With another {}", name);
    Json tighter;  // the point before, with a tighter tolerance
    for (const auto& point : result["curve"][name]) {
      // With a looser tolerance, the runs that pass with a tighter one pass, too.
      const bool is_known = !tighter.is_null() && tighter["failures"] == 0 && tighter["runs"] == point["runs"];
      tighter = point;
      if (is_known) continue;
      lines.add("  {:<28g} {}{}", point[name].get<double>(), percent(point),
                point["runs"] == probability["runs"] ? "" : fmt::format(", of {} runs", point["runs"]));
    }
  }
  return lines;
}

void check_stress_flags(const StressOptions& options) {
  if (!(options.width > 0 && options.width <= 1))
    throw BadInput(fmt::format("--width {}: above 0, at most 1", options.width));
  if (!(options.confidence > 0 && options.confidence < 1)) {
    throw BadInput(fmt::format("--confidence {}: between 0 and 1", options.confidence));
  }
  check_range("--runs", options.runs, 1, kMostRuns);
  check_range("--least-runs", options.least_runs, 0, options.runs);
  if (options.curve_runs < 0) throw BadInput(fmt::format("--curve-runs {}: from 0 on", options.curve_runs));
}

// Adds the causes for which simulated runs of a call failed. `result`: of the call, as in docs/stress.schema.json.
// `counts`: whether no other call has the same runs.
void add_findings_of(Json& findings, const std::string& label, const std::string& kernel, int64_t invocation,
                     const Json& result, bool counts = true) {
  const Json& probability = result["failure_probability"];
  if (probability["failures"] == 0) return;
  for (const auto& [cause, part] : result["by_cause"].items()) {
    findings.push_back({{"test", label},
                        {"kernel", kernel},
                        {"operator", result["operator"]},
                        {"tensor", ""},
                        {"cause", cause},
                        {"at_fault", ""},
                        {"pattern", ""},
                        {"level", "warning"},
                        {"message", fmt::format("the test fails in {} of runs, for {} in {}", percent(probability),
                                                cause, percent(part))},
                        {"invocation", invocation},
                        {"failures", counts ? part["failures"] : Json(0)}});
  }
}

int stress_one(const StressOptions& options, TrackedFindings& findings) {
  const capture::IsolatedReader reader(options.capture);
  const Simulated simulated = plan_simulation(options, reader);
  Json result = simulate_failures(options, simulated);
  const capture::CallFacts& facts = simulated.invocation.facts;
  std::vector<Outcome> outcomes(1);
  outcomes[0] = {{"capture", options.capture},
                 {"status", result["failure_probability"]["failures"] == 0 ? kWithinTolerance : kDrift},
                 {"trials", {{facts.label, result["failure_probability"]["runs"]}}},
                 {"findings", Json::array()}};
  add_findings_of(outcomes[0]["findings"], facts.label, facts.kernel, simulated.invocation.id, result);
  findings.take(outcomes);
  if (simulated.others > 0 && !options.quiet) {
    print_error(fmt::format("note: {} other calls in the capture; --invocation chooses one, or all", simulated.others));
  }
  if (options.json != "-") {
    print(stress_text(result, options.quiet));
    findings.print(terminal_of_stdout(options.colour));
  }
  findings.add_to(result);
  if (!options.json.empty()) write_json(options.json, "stress", result);
  findings.publish(outcomes);
  return outcomes[0]["status"];
}

void check_many(const StressOptions& options) {
  check_numbers(options);
  if (!options.state.empty()) throw BadInput("--state: keeps the runs of one call; name one capture, and one call");
  check_range("--runs", options.runs, 1, analysis::stress::Tally::kMostListed);
}

void report_failures(const StressOptions& options, std::vector<Outcome>& outcomes, TrackedFindings& findings) {
  Json joined = join_failures(outcomes, options.confidence);
  print_errors(outcomes);
  std::set<std::string> counted;  // calls of equal inputs, recorded several times, have one simulation
  for (Outcome& outcome : outcomes) {
    outcome["findings"] = Json::array();
    outcome["trials"] = Json::object();
    for (const Json& call : outcome.value("calls", Json::array())) {
      const std::string label = call.value("label", "");
      const bool counts =
          counted.insert((label.empty() ? text_at(outcome, "capture") : label) + text_at(call, "key")).second;
      const int64_t runs = counts ? count_at(call["result"]["failure_probability"], "runs") : 0;
      outcome["trials"][label] = outcome["trials"].value(label, int64_t{0}) + runs;
      add_findings_of(outcome["findings"], label, call["kernel"], call["invocation"], call["result"], counts);
    }
  }
  findings.take(outcomes);
  if (options.json != "-") {
    print(joined_failures_text(joined, options.quiet, options.verbose));
    findings.print(terminal_of_stdout(options.colour));
  }
  findings.add_to(joined);
  if (!options.json.empty()) write_json(options.json, "stress-many", joined);
  findings.publish(outcomes);
}

// `every_call`: --invocation all was given, and did not only happen to be so.
int run_stress(StressOptions& options, bool every_call) {
  check_stress_flags(options);
  TrackedFindings findings(options, "stress");
  const Ranks ranks;
  if (!takes_many(options, ranks) && !every_call) {
    options.capture = options.captures.front();
    return findings.judge_one(options.capture, [&] { return stress_one(options, findings); });
  }
  check_many(options);
  const SimulatedCalls calls(options, ranks);
  return over_captures(
      options, ranks, [&](const Options& of_one) { return calls.plan(of_one); },
      [&](auto& outcomes) { report_failures(options, outcomes, findings); },
      [&](auto& outcomes) { calls.simulate(outcomes); });
}

}  // namespace

void add_stress_command(CLI::App& app, int& status) {
  auto options = std::make_shared<StressOptions>();
  CLI::App* command =
      app.add_subcommand("stress", "Simulate the test with other inputs: how often does it fail, and why");
  add_captures(*command, *options);
  add_simulation(*command, *options);
  add_count(*command, "--runs", options->runs, "Most runs of each call; default 100000");
  add_count(*command, "--least-runs", options->least_runs, "Fewest runs, however narrow the interval is");
  command->add_option("--width", options->width, "End the runs when the interval is this narrow; default 0.015")
      ->type_name("X");
  command->add_option("--confidence", options->confidence, "Confidence of the intervals; default 0.95")->type_name("X");
  add_count(*command, "--curve-runs", options->curve_runs,
            "Runs that try tolerances tighter than the test's; default 40, 0: none");
  command->add_option("--state", options->state, "Keep the runs in this file, and continue from it")->type_name("FILE");
  command->add_flag("--quiet", options->quiet, "Print the probability only");
  command
      ->add_flag("--verbose", options->verbose,
                 "With several captures: also list the tests that never failed, and every place of each test")
      ->excludes("--quiet");
  add_findings(*command, *options);
  add_operator(*command);
  command->footer(
      "Exit status: 0 no simulated run failed, 1 one did, 2 bad usage or bad input, 3 the kernels are not replayed.");
  command->callback([options, command, &status] {
    const bool every_call = command->count("--invocation") > 0 && options->invocation == "all";
    status = run_stress(*options, every_call);
  });
}

}  // namespace msda::replay
