#include "replay/commands/explain_all.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iterator>
#include <map>
#include <optional>

#include "recorder/text/shell.h"
#include "recorder/text/words.h"
#include "replay/base/errors.h"
#include "replay/base/output.h"
#include "replay/calls/damage.h"
#include "replay/modes/saved_replays.h"
#include "replay/report/findings.h"
#include "replay/report/joined.h"
#include "replay/report/result_text.h"

namespace msda::replay {
namespace {

using ReportStep = std::function<void(const std::string& step)>;

// Launches a kernel that is not the operator's again, if that can be done; `why` says why it is not the operator's.
void relaunch(const Options& options, const capture::IsolatedReader& reader, Original& original,
              const capture::Invocation& invocation, const std::string& why, const ReportStep& report, Found& found) {
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

void save_replays(SavedReplays& saved, const capture::Invocation& invocation, const analysis::Material& material) {
  std::vector<analysis::Side> sides = {material.float64};
  std::ranges::copy_if(material.replays, std::back_inserter(sides),
                       [](const auto& side) { return side.source == analysis::Source::kReplay; });
  saved.add(invocation, *material.call, sides);
}

// "Launched with other contents of unwritten memory: 1 race, 2 deterministic."; empty without --poison.
std::string poison_summary(const Found& found) {
  std::map<PoisonVerdict, int64_t, std::greater<>> counts;
  const auto count = [&](const auto& results) {
    for (const auto& result : results) {
      if (result.poison) ++counts[result.poison->verdict()];
    }
  };
  count(found.results);
  count(found.relaunched);
  std::vector<std::string> texts;
  for (const auto& [verdict, launches] : counts) texts.push_back(fmt::format("{} {}", launches, name_of(verdict)));
  return texts.empty() ? ""
                       : fmt::format("Launched with other contents of unwritten memory: {}.", fmt::join(texts, ", "));
}

template <class Result>
bool is_faulty(const Result& result) {
  return result.poison && result.poison->is_faulty();
}

std::string others_text(size_t others) {
  return others == 0 ? "" : " and " + text::counted(static_cast<int64_t>(others), "other");
}

}  // namespace

Found find_all(const Options& options, const capture::IsolatedReader& reader, const Look& look) {
  std::optional<SavedReplays> saved;
  if (!options.save_replays.empty()) saved.emplace(options.save_replays, reader.run());
  const Look look_and_save = [&](const LoadedCall& loaded, const analysis::Material& material,
                                 InvocationResult& result) {
    if (saved) save_replays(*saved, result.invocation, material);
    if (look) look(loaded, material, result);
  };
  const Pairing pairing(options, reader);
  const std::vector<int64_t>& ids = pairing.chosen();
  const Progress progress(!options.quiet);
  Original original(options, reader);
  Devices devices(options);
  Found found;
  for (const int64_t id : ids) {
    const capture::Invocation invocation = reader.invocation(id);
    if (const std::string why = why_not_replayed(reader, invocation); !why.empty()) {
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
    found.results.push_back(
        explain_invocation(options, reader, pairing, original, devices, id, count, progress, look_and_save));
    add_altered(found.results.back().altered, beside);
  }
  if (saved && !(found.results.empty() && found.relaunched.empty())) saved->publish();
  progress.show("");
  return found;
}

Conclusion conclude(const Found& found) {
  Conclusion conclusion;
  std::vector<analysis::Verdict> verdicts;
  for (const InvocationResult& result : found.results) {
    if (result.compared) verdicts.push_back(result.report.verdict);
    conclusion.damaged = conclusion.damaged || !result.altered.empty();
    conclusion.faulty = conclusion.faulty || is_faulty(result);
  }
  for (const Relaunched& relaunched : found.relaunched) {
    conclusion.damaged = conclusion.damaged || !relaunched.altered.empty();
    conclusion.faulty = conclusion.faulty || is_faulty(relaunched);
  }
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

int status_of(const Conclusion& conclusion) {
  return conclusion.verdict.causes.empty() && !conclusion.faulty ? kWithinTolerance : kDrift;
}

std::vector<std::string> labels_of(const std::vector<InvocationResult>& results) {
  std::vector<std::string> labels;
  for (const InvocationResult& result : results) {
    const std::string& label = result.invocation.facts.label;
    if (!label.empty() && std::ranges::find(labels, label) == labels.end()) labels.push_back(label);
  }
  return labels;
}

void refuse_not_replayed(const Options& options, const std::vector<NotReplayed>& not_replayed) {
  const size_t others = not_replayed.size() - 1;
  if (others > 0 && !options.quiet && options.json != "-") print(to_text(not_replayed));
  throw Unavailable(fmt::format("{}: invocation {} is not replayed: {}{}; msda-replay show prints what was recorded",
                                options.capture, not_replayed.front().id, not_replayed.front().why,
                                others > 0 ? fmt::format(", nor are the {} others", others) : ""));
}

void refuse_nothing_to_compare(const Options& options, const std::vector<InvocationResult>& results) {
  const size_t others = results.size() - 1;
  throw BadInput(
      fmt::format("{}: invocation {}{} {} nothing to compare: there are no gradients in its outputs; record the call "
                  "again, or write what its kernel gave into {}/outputs (docs/capture-format.md)",
                  options.capture, results.front().invocation.id, others_text(others), others == 0 ? "has" : "have",
                  results.front().invocation.path));
}

nlohmann::ordered_json outcome_of(const Options& options, const capture::IsolatedReader& reader, const Found& found) {
  const auto& [results, relaunched, not_replayed] = found;
  if (results.empty() && relaunched.empty()) refuse_not_replayed(options, not_replayed);
  const Conclusion conclusion = conclude(found);
  if (!conclusion.compared && relaunched.empty()) refuse_nothing_to_compare(options, results);
  nlohmann::ordered_json outcome = {{"capture", options.capture}, {"status", status_of(conclusion)}};
  outcome.update(shortened(to_json(options.capture, results, relaunched, not_replayed, conclusion)));
  outcome["findings"] = run_findings(results, relaunched);
  if (std::string poisoned = poison_summary(found); !poisoned.empty()) outcome["poison"] = std::move(poisoned);
  const auto environment = reader.run().environment;
  if (const auto rank = environment.find("RANK"); rank != environment.end()) outcome["rank"] = rank->second;
  if (const auto labels = labels_of(results); !labels.empty()) outcome["labels"] = labels;
  return outcome;
}

std::string comparison_flags(const Options& options) {
  std::string flags;
  if (options.reference) flags += fmt::format(" --reference {}", *options.reference);
  if (options.atol) flags += fmt::format(" --atol {}", *options.atol);
  if (options.rtol) flags += fmt::format(" --rtol {}", *options.rtol);
  if (options.customary) flags += " --customary";
  if (options.damaged) flags += " --damaged";
  return flags;
}

std::string flags_of(const Options& options) {
  return text::shell_word(options.capture) +
         (options.invocation == "all" ? "" : " --invocation " + text::shell_word(options.invocation)) +
         comparison_flags(options);
}

}  // namespace msda::replay
