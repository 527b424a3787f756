// msda-replay run: every mode, every comparison, every finding, and the verdict.
#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "replay/commands.h"
#include "replay/errors.h"
#include "replay/explain.h"
#include "replay/loaded_call.h"
#include "replay/output.h"

namespace msda::replay {
namespace {

int run(const Options& options) {
  check_numbers(options);
  const capture::IsolatedReader reader(options.capture);
  const auto ids = chosen_invocations(options, reader);
  const Progress progress(!options.quiet);
  Original original(options, reader);
  Devices devices(options);
  std::vector<InvocationResult> results;
  std::vector<Relaunched> relaunched;
  std::vector<NotReplayed> not_replayed;
  std::vector<analysis::Verdict> verdicts;
  for (const int64_t id : ids) {
    const auto begun = std::chrono::steady_clock::now();
    const capture::Invocation invocation = reader.invocation(id);
    if (const std::string why = why_not_replayed(invocation); !why.empty()) {
      auto outcome = original.run(invocation, begun, [&](const std::string& step) {
        progress.show(fmt::format("invocation {}: {}", id, step));
      });
      if (outcome.result) {
        relaunched.push_back({id, invocation.facts.kernel, *std::move(outcome.result)});
      } else {
        const std::string& left_out = outcome.left_out;
        not_replayed.push_back({id, left_out.empty() ? why : why + "; mode original is left out: " + left_out});
      }
      continue;
    }
    const std::string count = ids.size() > 1 ? fmt::format(" ({} of {})", results.size() + 1, ids.size()) : "";
    results.push_back(explain_invocation(options, reader, original, devices, id, count, progress));
    verdicts.push_back(results.back().report.verdict);
    for (const std::string& path : results.back().altered) {
      print_error(fmt::format("warning: {}: {} is not what was recorded, its digest differs", options.capture, path));
    }
  }
  progress.show("");
  if (results.empty() && relaunched.empty() && !not_replayed.empty()) {
    const bool listed = ids.size() > 1 && !options.quiet && options.json != "-";
    if (listed) print(to_text(not_replayed));
    throw Unavailable(fmt::format("{}: invocation {} is not replayed: {}{}; msda-replay show tells what was recorded",
                                  options.capture, ids.front(), not_replayed.front().why,
                                  ids.size() > 1 ? fmt::format(", nor are the {} others", ids.size() - 1) : ""));
  }
  analysis::Verdict verdict = analysis::combine(verdicts);
  if (verdicts.empty())
    verdict.summary = "The recorded machine code was launched again; there is nothing to judge it by.";
  if (options.json != "-") print(to_text(options.capture, results, relaunched, not_replayed, verdict, options.quiet));
  if (!options.json.empty())
    write_json(options.json, to_json(options.capture, results, relaunched, not_replayed, verdict));
  return verdict.causes.empty() ? kWithinTolerance : kDrift;
}

}  // namespace

void add_run_command(CLI::App& app, int& status) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("run", "Replay, compare, and explain what is out of tolerance (the main job)");
  add_capture(*command, *options);
  add_replay(*command, *options);
  command->callback([options, &status] { status = run(*options); });
}

}  // namespace msda::replay
