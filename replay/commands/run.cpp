// msda-replay run: every mode, every comparison, every finding, and the verdict.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>

#include "replay/base/errors.h"
#include "replay/base/output.h"
#include "replay/base/same_file.h"
#include "replay/commands/commands.h"
#include "replay/commands/explain_all.h"
#include "replay/commands/flags.h"
#include "replay/commands/new_command.h"
#include "replay/many/many.h"
#include "replay/report/findings.h"
#include "replay/report/joined.h"
#include "replay/report/result_text.h"

namespace msda::replay {
namespace {

ReportSettings report_settings(const Options& options) {
  return {options.quiet, options.verbose, terminal_of_stdout(options.colour), flags_of(options)};
}

Outcome outcome_of_one(const Options& options) {
  const capture::IsolatedReader reader(options.capture);
  return outcome_of(options, reader, find_all(options, reader));
}

void report_many(const Options& options, const std::vector<Outcome>& outcomes, const TrackedFindings& findings) {
  Json joined = join(outcomes);
  findings.add_to(joined);
  Lines poisoned;
  for (const Outcome& outcome : outcomes) {
    if (!outcome.contains("poison")) continue;
    poisoned.add("{}: {}", outcome["capture"], outcome["poison"]);
  }
  print_errors(outcomes);
  if (options.json != "-") {
    const ReportSettings settings = {options.quiet, options.verbose, terminal_of_stdout(options.colour),
                                     comparison_flags(options)};
    print_raw(joined_text(joined, settings).text());
    print(poisoned);
    findings.print(terminal_of_stdout(options.colour));
  }
  if (!options.json.empty()) write_json(options.json, "run-many", joined);
}

int run_one(const Options& options, TrackedFindings& findings) {
  const capture::IsolatedReader reader(options.capture);
  const Found found = find_all(options, reader);
  const auto& [results, relaunched, not_replayed] = found;
  for (const InvocationResult& result : results) {
    for (const std::string& path : result.altered) {
      print_error(fmt::format("warning: {}: {} is not what was recorded, its digest differs", options.capture, path));
    }
  }
  if (results.empty() && relaunched.empty()) refuse_not_replayed(options, not_replayed);
  const Conclusion conclusion = conclude(found);
  std::vector<Outcome> outcomes(1);
  outcomes[0] = {{"capture", options.capture},
                 {"status", status_of(conclusion)},
                 {"labels", labels_of(results)},
                 {"findings", run_findings(results, relaunched)}};
  findings.take(outcomes);
  if (options.json != "-") {
    print_raw(to_text(options.capture, results, relaunched, not_replayed, conclusion, report_settings(options)).text());
    findings.print(terminal_of_stdout(options.colour));
  }
  if (!options.json.empty()) {
    Json json = to_json(options.capture, results, relaunched, not_replayed, conclusion);
    findings.add_to(json);
    write_json(options.json, "run", json);
  }
  findings.publish(outcomes);
  // The replays that were to be saved are there, whatever there is to compare them with.
  const bool is_done = conclusion.compared || !relaunched.empty() || !options.save_replays.empty();
  if (!is_done) refuse_nothing_to_compare(options, results);
  return outcomes[0]["status"];
}

int run_captures(Options& options) {
  check_numbers(options);
  TrackedFindings findings(options, "run");
  const Ranks ranks;
  // mpirun hands its ranks a terminal, even where it writes to a file itself.
  if (ranks.count() > 1 && options.colour == "auto") options.colour = "never";
  if (takes_many(options, ranks)) {
    if (!options.save_replays.empty())
      throw BadInput("--save-replays: takes the replays of one capture; name only one");
    return over_captures(options, ranks, outcome_of_one, [&](auto& outcomes) {
      findings.take(outcomes);
      report_many(options, outcomes, findings);
      findings.publish(outcomes);
    });
  }
  options.capture = options.captures.front();
  if (!options.save_replays.empty()) refuse_same_outputs(options.save_replays, options.json);
  return findings.judge_one(options.capture, [&] { return run_one(options, findings); });
}

}  // namespace

void add_run_command(CLI::App& app, int& status) {
  const auto [command, options] = new_command<Options>(
      app, status, "run", "Replay, compare, and explain what is out of tolerance (the main job)", run_captures);
  add_captures(command, options);
  add_replay(command, options);
  command
      .add_flag("--verbose", options.verbose, "Print every invocation, the tables of comparisons, and more examples")
      ->excludes("--quiet");
  command.add_option("--save-replays", options.save_replays, "Write the gradients of every replay into a new capture")
      ->type_name("FILE");
  command.add_option("--color", options.colour, "When to print in colours")
      ->option_text("auto|always|never")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  add_findings(command, options);
  add_operator(command);
}

}  // namespace msda::replay
