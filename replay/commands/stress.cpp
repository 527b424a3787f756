// msda-replay stress: the probability that a test fails, from simulated runs with inputs drawn anew.
#include <fmt/format.h>

#include <memory>

#include "replay/base/errors.h"
#include "replay/commands/commands.h"
#include "replay/commands/failure_probability.h"
#include "replay/own/own_operator.h"

namespace msda::replay {
namespace {

std::string source_text(const Json& source) {
  return source["fails"].get<bool>()
             ? fmt::format("fails, {} element{}", source["elements"].get<int64_t>(), source["elements"] == 1 ? "" : "s")
             : "passes";
}

Lines to_text(const Json& result, bool quiet) {
  Lines lines;
  const Json& probability = result["failure_probability"];
  lines.add("The test fails in {} of runs: {} of {} simulated, {:g} % interval.", percent(probability),
            probability["failures"].get<int64_t>(), probability["runs"].get<int64_t>(),
            100 * result["confidence"].get<double>());
  if (result["interrupted"].get<bool>()) lines.add("Interrupted: this is what was known then.");
  if (quiet) return lines;
  lines.append(describe_text(result));
  lines.blank();
  const auto table = [&](const char* title, const Json& parts) {
    lines.add("{}", title);
    for (const auto& [name, part] : parts.items()) lines.add("  {:<28} {}", name, percent(part));
  };
  if (!result["by_cause"].empty()) table("By cause (runs with such an element)", result["by_cause"]);
  table("By tensor", result["by_tensor"]);
  const Json& source = result["by_source"];
  lines.add("By source");
  lines.add("  {:<28} {}", "the recorded inputs again", source_text(source["same_inputs"]));
  lines.add("  {:<28} {} of {} fail", "in other orders of addition", source["other_order"]["failures"].get<int64_t>(),
            source["other_order"]["runs"].get<int64_t>());
  for (const auto& other : source["other_arithmetic"]) {
    lines.add("  {:<28} {}", "against " + other["against"].get<std::string>(), source_text(other));
  }
  lines.add("  {:<28} {}", "other inputs", percent(source["other_inputs"]));
  if (!result.contains("curve")) return lines;
  for (const char* name : {"atol", "rtol"}) {
    lines.add("With another {}", name);
    for (const auto& point : result["curve"][name]) {
      lines.add("  {:<28g} {}{}", point[name].get<double>(), percent(point),
                point["runs"] == probability["runs"] ? "" : fmt::format(", of {} runs", point["runs"].get<int64_t>()));
    }
  }
  return lines;
}

void check(const StressOptions& options) {
  if (!(options.width > 0 && options.width <= 1))
    throw BadInput(fmt::format("--width {}: above 0, at most 1", options.width));
  if (!(options.confidence > 0 && options.confidence < 1)) {
    throw BadInput(fmt::format("--confidence {}: between 0 and 1", options.confidence));
  }
  check_range("--runs", options.runs, 1, kMostRuns);
  if (options.curve_runs < 0) throw BadInput(fmt::format("--curve-runs {}: from 0 on", options.curve_runs));
}

int run(const StressOptions& options) {
  check(options);
  const capture::IsolatedReader reader(options.capture);
  const Simulated simulated = plan_simulation(options, reader);
  const Json result = simulate_failures(options, simulated);
  if (simulated.others > 0 && !options.quiet) {
    print_error(fmt::format("note: {} other calls in the capture; --invocation chooses one", simulated.others));
  }
  if (options.json != "-") print(to_text(result, options.quiet));
  if (!options.json.empty()) write_json(options.json, result);
  return result["failure_probability"]["failures"] == 0 ? kWithinTolerance : kDrift;
}

}  // namespace

void add_stress_command(CLI::App& app, int& status) {
  auto options = std::make_shared<StressOptions>();
  CLI::App* command =
      app.add_subcommand("stress", "Simulate the test with other inputs: how often does it fail, and why");
  add_simulation(*command, *options);
  add_count(*command, "--runs", options->runs, "The most runs to simulate");
  command->add_option("--width", options->width, "Stop when the interval is this wide")->type_name("X");
  command->add_option("--confidence", options->confidence, "Of the intervals")->type_name("X");
  add_count(*command, "--curve-runs", options->curve_runs, "Runs for tolerances tighter than the test's; 0 for none");
  command->add_option("--state", options->state, "Continue the runs in this file, and keep them there")
      ->type_name("FILE");
  command->add_flag("--quiet", options->quiet, "Print the probability only");
  add_operator(*command);
  command->callback([options, &status] { status = run(*options); });
}

}  // namespace msda::replay
