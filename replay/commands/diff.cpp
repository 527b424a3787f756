// msda-replay diff: what differs between two captures or invocations, the first divergence first.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <filesystem>

#include "recorder/text/numbers.h"
#include "replay/base/errors.h"
#include "replay/base/json.h"
#include "replay/base/output.h"
#include "replay/base/progress.h"
#include "replay/calls/loaded_call.h"
#include "replay/commands/commands.h"
#include "replay/commands/diff_trails.h"
#include "replay/commands/flags.h"
#include "replay/commands/new_command.h"
#include "replay/diff/differences.h"
#include "replay/diff/facts.h"
#include "replay/diff/print.h"
#include "replay/diff/slices.h"
#include "replay/diff/surveys.h"

namespace msda::replay {
namespace {

struct DiffOptions : Options {
  std::string a, b;
  std::vector<std::string> more;  // runs to compare with A, too
  std::string page;
  bool slices = false;
};

// "FILE" or "FILE:INVOCATION".
struct Named {
  std::string file;
  std::optional<int64_t> invocation;
};

Named named_by(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || std::filesystem::exists(text)) return {text, std::nullopt};
  const auto number = text::parse_number<int64_t>(std::string_view(text).substr(colon + 1));
  if (!number) return {text, std::nullopt};
  return {text.substr(0, colon), number};
}

std::vector<int64_t> ids_of(const Named& named, const capture::IsolatedReader& reader) {
  if (!named.invocation) return reader.invocation_ids();
  return {*named.invocation};
}

// One invocation for --slices: the only one of a capture, or the named one.
LoadedCall call_for_slices(const DiffOptions& options, const Operand& operand) {
  if (operand.ids.size() != 1) {
    const std::string name = operand.ids.empty() ? "" : fmt::format(": name one, as FILE:{}", operand.ids.front());
    throw BadInput(fmt::format("{}: has {} invocations, and --slices compares one{}", operand.reader.path(),
                               operand.ids.size(), name));
  }
  capture::Invocation invocation = operand.reader.invocation(operand.ids.front());
  if (const std::string why = why_not_replayed(operand.reader, invocation); !why.empty()) {
    throw Unavailable(fmt::format("{}: invocation {} cannot be sliced: {}", operand.reader.path(), invocation.id, why));
  }
  Options of_one = options;
  of_one.capture = operand.reader.path();  // for messages
  return LoadedCall(of_one, operand.reader, invocation);
}

Json batches_json(const std::vector<ReplayedBatches>& all) {
  Json json = Json::array();
  for (const auto& [mode, batches, different] : all) {
    json.push_back({{"mode", mode}, {"batches", batches}, {"different", different}});
  }
  return json;
}

Json compare_slices(const DiffOptions& options, const Operand& a, const Operand& b) {
  const LoadedCall of_a = call_for_slices(options, a), of_b = call_for_slices(options, b);
  const auto threads = static_cast<int>(options.threads);
  Json json = {{"equal_batches", Json::array()}};
  for (const auto& batches : equal_batches(of_a.call(), of_a.recorded(), of_b.call(), of_b.recorded())) {
    Json gradients = Json::array();
    for (const auto& [tensor, different, total] : batches.gradients) {
      gradients.push_back({{"tensor", tensor}, {"different", different}, {"total", total}});
    }
    json["equal_batches"].push_back({{"a", batches.a}, {"b", batches.b}, {"gradients", gradients}});
  }
  json["replayed_a"] = batches_json(replay_batches(of_a.call(), of_a.recorded(), options.seed, threads));
  json["replayed_b"] = batches_json(replay_batches(of_b.call(), of_b.recorded(), options.seed, threads));
  return json;
}

// Returns whether a batch that both recorded has other bits. Replays of mode atomic differ by their nature, and decide
// nothing.
bool slices_differ(const Json& slices) {
  for (const Json& pair : slices["equal_batches"]) {
    for (const Json& gradient : pair["gradients"]) {
      if (gradient["different"] != 0) return true;
    }
  }
  for (const char* which : {"replayed_a", "replayed_b"}) {
    for (const Json& replay : slices[which]) {
      if (replay["mode"] == "deterministic" && !replay["different"].empty()) return true;
    }
  }
  return false;
}

bool has_survey(const capture::IsolatedReader& reader) { return !reader.survey().empty(); }

// Returns whether surveys are to be compared: of whole captures. A survey's kept launches can be compared by their
// numbers.
bool are_surveys(const DiffOptions& options, const Named& name_a, const Named& name_b, const capture::IsolatedReader& a,
                 const capture::IsolatedReader& b) {
  if (options.slices || name_a.invocation || name_b.invocation) return false;
  const bool has_a = has_survey(a), has_b = has_survey(b);
  if (has_a == has_b) return has_a;
  const std::string& survey = has_a ? a.path() : b.path();
  const std::string& plain = has_a ? b.path() : a.path();
  throw BadInput(
      fmt::format("{}: is a survey, and {} is none: compare it with another survey, or name one invocation "
                  "of each, as {}:0",
                  survey, plain, survey));
}

int diff_surveys(const DiffOptions& options, const capture::IsolatedReader& a, const capture::IsolatedReader& b) {
  SurveyDifferences differences = find_survey_differences(survey_of(a.path()), survey_of(b.path()));
  differences.runs = differing_runs(a, b, differences.facts);
  print_result(survey_differences_text(differences, options.quiet), options.json, "diff-survey",
               survey_differences_json(options.a, options.b, differences));
  return differences.found.empty() ? 0 : kDrift;
}

// Runs by what msda-record --trail recorded of them.
std::optional<TrailsToCompare> trails_of(const DiffOptions& options) {
  TrailsToCompare trails{{options.a, options.b}, options.page, options.json, options.quiet};
  trails.operands.insert(trails.operands.end(), options.more.begin(), options.more.end());
  if (!are_trails(trails.operands)) {
    if (!options.more.empty()) throw BadInput("diff: of captures without trails, name two");
    if (!options.page.empty()) throw BadInput("--page draws runs with trails only");
    return std::nullopt;
  }
  if (options.slices) throw BadInput("--slices compares calls in captures, not trails");
  return trails;
}

int run_diff(const DiffOptions& options) {
  if (const auto trails = trails_of(options)) return diff_trails(*trails);
  const Named name_a = named_by(options.a), name_b = named_by(options.b);
  const Progress progress(!options.quiet);
  progress.show("diff: reading");
  const capture::IsolatedReader reader_a(name_a.file), reader_b(name_b.file);
  if (are_surveys(options, name_a, name_b, reader_a, reader_b)) {
    progress.show("");
    return diff_surveys(options, reader_a, reader_b);
  }
  const Operand a{reader_a, ids_of(name_a, reader_a)}, b{reader_b, ids_of(name_b, reader_b)};
  if (a.ids.empty() && b.ids.empty()) {
    throw BadInput(
        fmt::format("{} and {}: hold no calls to compare; msda-replay doctor -- COMMAND says why none were "
                    "recorded",
                    options.a, options.b));
  }
  const Differences differences = find_differences(a, b);
  bool equal = differences.are_none();
  Json json = differences_json(options.a, options.b, differences);
  if (options.slices) {
    json["slices"] = compare_slices(options, a, b);
    // Calls of other sizes differ in everything: what is asked is whether their common batches do.
    equal = !slices_differ(json["slices"]);
    json["equal"] = equal;
  }
  progress.show("");
  print_result(differences_text(differences, json, options.quiet), options.json, "diff", json);
  return equal ? 0 : kDrift;
}

}  // namespace

void add_diff_command(CLI::App& app, int& status) {
  const auto [command, options] = new_command<DiffOptions>(
      app, status, "diff", "Compare two runs, captures or invocations, and name the first divergence first", run_diff);
  command
      .add_option("A", options.a,
                  "Capture file, or FILE:INVOCATION; a run with trails may be a folder, with a file for each rank")
      ->required()
      ->type_name("");
  command.add_option("B", options.b, "What to compare A with, given as A is")->required()->type_name("");
  command.add_option("C", options.more, "Further runs with trails, each compared with A")->type_name("");
  command.add_option("--page", options.page, "Also draw runs with trails beside each other, on this page of HTML")
      ->type_name("FILE");
  command.add_flag("--slices", options.slices,
                   "Instead check batch invariance: compare batches of equal inputs, and replay every batch alone");
  add_seed(command, options.seed, "Seed that orders the additions of the atomic replays of --slices");
  add_threads(command, options);
  add_damaged(command, options);
  add_json(command, options);
  command.add_flag("--quiet", options.quiet, "Print the first line only");
  add_operator(command);
  command.footer("Exit status: 0 equal, 1 different, 2 bad usage or bad input, 3 a call cannot be sliced (--slices).");
}

}  // namespace msda::replay
