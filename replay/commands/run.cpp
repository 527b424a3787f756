// msda-replay run: every mode, every comparison, every finding, and the verdict.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "recorder/text/shell.h"
#include "replay/base/errors.h"
#include "replay/base/output.h"
#include "replay/calls/damage.h"
#include "replay/calls/loaded_call.h"
#include "replay/commands/commands.h"
#include "replay/commands/explain.h"
#include "replay/many/many.h"
#include "replay/report/joined.h"
#include "replay/report/result_text.h"

namespace msda::replay {
namespace {

// What became of the invocations.
struct Found {
  std::vector<InvocationResult> results;
  std::vector<Relaunched> relaunched;
  std::vector<NotReplayed> not_replayed;
};

using Report = std::function<void(const std::string& step)>;

// A kernel that is not the operator's, of which `why` tells: it is launched again, where that can be.
void relaunch(const Options& options, const capture::IsolatedReader& reader, Original& original,
              const capture::Invocation& invocation, const std::string& why, const Report& report, Found& found) {
  const auto begun = std::chrono::steady_clock::now();
  std::vector<std::string> altered = altered_tensors(reader, invocation);
  refuse_altered(options, altered);
  auto outcome = original.run(invocation, begun, report);
  if (outcome.result) {
    found.relaunched.push_back({invocation.id, invocation.facts.kernel, *std::move(outcome.result),
                                std::move(outcome.poison), std::move(altered)});
    return;
  }
  const std::string& left_out = outcome.left_out;
  found.not_replayed.push_back(
      {invocation.id, left_out.empty() ? why : why + "; mode original is left out: " + left_out});
}

Found find_all(const Options& options, const capture::IsolatedReader& reader) {
  std::optional<SavedReplays> saved;
  if (!options.save_replays.empty()) saved.emplace(options.save_replays, reader.run());
  const Pairing pairing(options, reader);
  const std::vector<int64_t>& ids = pairing.chosen();
  const Progress progress(!options.quiet);
  Original original(options, reader);
  Devices devices(options);
  Found found;
  for (const int64_t id : ids) {
    const capture::Invocation invocation = reader.invocation(id);
    if (const std::string why = why_not_replayed(invocation); !why.empty()) {
      const auto report = [&](const std::string& step) { progress.show(fmt::format("invocation {}: {}", id, step)); };
      relaunch(options, reader, original, invocation, why, report, found);
      continue;
    }
    const std::string count = ids.size() > 1 ? fmt::format(" ({} of {})", found.results.size() + 1, ids.size()) : "";
    // Explaining reads neither the recorded stages nor all of the calls beside it; a damaged capture gets no verdict at
    // all.
    std::vector<std::string> beside = altered_among(reader, stage_tensors_of(invocation));
    add_altered(beside, pairing.altered_beside(id));
    refuse_altered(options, beside);
    found.results.push_back(explain_invocation(options, reader, pairing, original, devices, id, count, progress,
                                               saved ? &*saved : nullptr));
    add_altered(found.results.back().altered, beside);
  }
  if (saved) saved->close();
  progress.show("");
  return found;
}

// "Launched with other contents of unwritten memory: 1 race, 2 deterministic."; empty without --poison.
std::string poison_summary(const Found& found) {
  std::map<PoisonVerdict, int64_t, std::greater<>> counts;
  const auto count = [&](const auto& results) {
    for (const auto& one : results) {
      if (one.poison) ++counts[one.poison->verdict()];
    }
  };
  count(found.results);
  count(found.relaunched);
  std::vector<std::string> texts;
  for (const auto& [verdict, launches] : counts) texts.push_back(fmt::format("{} {}", launches, name_of(verdict)));
  return texts.empty() ? ""
                       : fmt::format("Launched with other contents of unwritten memory: {}.", fmt::join(texts, ", "));
}

Conclusion conclude(const Found& found) {
  Conclusion conclusion;
  std::vector<analysis::Verdict> verdicts;
  for (const InvocationResult& result : found.results) {
    if (result.compared) verdicts.push_back(result.report.verdict);
    conclusion.damaged = conclusion.damaged || !result.altered.empty();
  }
  for (const Relaunched& one : found.relaunched) conclusion.damaged = conclusion.damaged || !one.altered.empty();
  conclusion.compared = !verdicts.empty();
  conclusion.verdict = analysis::combine(verdicts);
  if (!conclusion.compared) {
    conclusion.verdict.summary = found.relaunched.empty()
                                     ? kNothingToCompare
                                     : "The recorded machine code was launched again; there is nothing to judge it by.";
  }
  if (const std::string poisoned = poison_summary(found); !poisoned.empty()) {
    std::string& summary = conclusion.verdict.summary;
    summary = conclusion.compared ? summary + " " + poisoned : poisoned;
  }
  return conclusion;
}

// Whether --poison found a race, or that a kernel reads what nobody wrote.
bool is_faulty(const Found& found) {
  const auto faulty = [](const auto& one) { return one.poison && one.poison->is_faulty(); };
  return std::ranges::any_of(found.results, faulty) || std::ranges::any_of(found.relaunched, faulty);
}

int status_of(const Conclusion& conclusion, const Found& found) {
  return conclusion.verdict.causes.empty() && !is_faulty(found) ? kWithinTolerance : kDrift;
}

std::string others_text(size_t others) {
  return others == 0 ? "" : fmt::format(" and {} other{}", others, others == 1 ? "" : "s");
}

[[noreturn]] void refuse_not_replayed(const Options& options, const std::vector<NotReplayed>& not_replayed) {
  const size_t others = not_replayed.size() - 1;
  if (others > 0 && !options.quiet && options.json != "-") print(to_text(not_replayed));
  throw Unavailable(fmt::format("{}: invocation {} is not replayed: {}{}; msda-replay show tells what was recorded",
                                options.capture, not_replayed.front().id, not_replayed.front().why,
                                others > 0 ? fmt::format(", nor are the {} others", others) : ""));
}

[[noreturn]] void refuse_nothing_to_compare(const Options& options, const std::vector<InvocationResult>& results) {
  const size_t others = results.size() - 1;
  throw BadInput(
      fmt::format("{}: invocation {}{} {} nothing to compare: there are no gradients in its outputs; record the call "
                  "again, or write what its kernel gave into {}/outputs (docs/capture-format.md)",
                  options.capture, results.front().invocation.id, others_text(others), others == 0 ? "has" : "have",
                  results.front().invocation.path));
}

ReportSettings report_settings(const Options& options) {
  std::string flags = text::shell_word(options.capture);
  if (options.reference) flags += fmt::format(" --reference {}", *options.reference);
  if (options.atol) flags += fmt::format(" --atol {}", *options.atol);
  if (options.rtol) flags += fmt::format(" --rtol {}", *options.rtol);
  return {options.quiet, options.verbose, terminal_of_stdout(options.colour), flags};
}

// Distinct, in the order in which they occur.
std::vector<std::string> labels_of(const std::vector<InvocationResult>& results) {
  std::vector<std::string> labels;
  for (const InvocationResult& result : results) {
    const std::string& label = result.invocation.facts.label;
    if (!label.empty() && std::ranges::find(labels, label) == labels.end()) labels.push_back(label);
  }
  return labels;
}

Outcome outcome_of_one(const Options& options) {
  const capture::IsolatedReader reader(options.capture);
  const Found found = find_all(options, reader);
  const auto& [results, relaunched, not_replayed] = found;
  if (results.empty() && relaunched.empty()) refuse_not_replayed(options, not_replayed);
  const Conclusion conclusion = conclude(found);
  if (!conclusion.compared && relaunched.empty()) refuse_nothing_to_compare(options, results);
  Outcome outcome = {{"capture", options.capture}, {"status", status_of(conclusion, found)}};
  outcome.update(shortened(to_json(options.capture, results, relaunched, not_replayed, conclusion)));
  if (std::string poisoned = poison_summary(found); !poisoned.empty()) outcome["poison"] = std::move(poisoned);
  const auto environment = reader.run().environment;
  if (const auto rank = environment.find("RANK"); rank != environment.end()) outcome["rank"] = rank->second;
  if (const auto labels = labels_of(results); !labels.empty()) outcome["labels"] = labels;
  return outcome;
}

void report_many(const Options& options, const std::vector<Outcome>& outcomes) {
  const nlohmann::ordered_json joined = join(outcomes);
  Lines poisoned;
  for (const Outcome& one : outcomes) {
    if (!one.contains("poison")) continue;
    poisoned.add("{}: {}", one["capture"].get<std::string>(), one["poison"].get<std::string>());
  }
  for (const Outcome& one : outcomes) {
    if (one.contains("error")) print_error(one["error"].get<std::string>());
  }
  if (options.json != "-") {
    print_raw(joined_text(joined, {options.quiet, options.verbose, terminal_of_stdout(options.colour), ""}).text());
    print(poisoned);
  }
  if (!options.json.empty()) write_json(options.json, joined);
}

int run_one(const Options& options) {
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
  if (options.json != "-")
    print_raw(to_text(options.capture, results, relaunched, not_replayed, conclusion, report_settings(options)).text());
  if (!options.json.empty())
    write_json(options.json, to_json(options.capture, results, relaunched, not_replayed, conclusion));
  if (!conclusion.compared && relaunched.empty()) refuse_nothing_to_compare(options, results);
  return status_of(conclusion, found);
}

int run(Options& options) {
  check_numbers(options);
  const Ranks ranks;
  // mpirun hands its ranks a terminal, even where it writes to a file itself.
  if (ranks.count() > 1 && options.colour == "auto") options.colour = "never";
  if (takes_many(options, ranks)) {
    if (!options.save_replays.empty())
      throw BadInput("--save-replays: takes the replays of one capture; name only one");
    return over_captures(options, ranks, outcome_of_one, [&](const auto& outcomes) { report_many(options, outcomes); });
  }
  options.capture = options.captures.front();
  return run_one(options);
}

}  // namespace

void add_run_command(CLI::App& app, int& status) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("run", "Replay, compare, and explain what is out of tolerance (the main job)");
  add_captures(*command, *options);
  add_replay(*command, *options);
  command->add_flag("--verbose", options->verbose,
                    "Print every invocation, the tables of comparisons, and more examples");
  command
      ->add_option("--save-replays", options->save_replays,
                   "Write the gradients of every replay to this new file, as the results of a capture")
      ->type_name("FILE");
  command->add_option("--color", options->colour, "When to print in colours")
      ->option_text("auto|always|never")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  command->callback([options, &status] { status = run(*options); });
}

}  // namespace msda::replay
