// msda-replay survey: which launches of a program vary, and why.
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>

#include "recorder/text/shell.h"
#include "recorder/writer/installation.h"
#include "recorder/writer/program_file.h"
#include "replay/base/captures.h"
#include "replay/base/errors.h"
#include "replay/base/options.h"
#include "replay/base/output.h"
#include "replay/commands/commands.h"
#include "replay/commands/flags.h"
#include "replay/commands/new_command.h"
#include "replay/doctor/spawn.h"
#include "replay/many/many.h"
#include "replay/report/findings.h"
#include "replay/report/terminal.h"
#include "replay/survey/joined.h"
#include "replay/survey/print.h"

namespace msda::replay {
namespace {

struct SurveyOptions : Options {
  std::vector<std::string> words;  // captures, or a command
  std::string output = "survey.h5", kernel;
  int64_t runs = 2, memory = 50, patience = 10, from = 0, to = 0, seconds = 0;
  std::string label;
  bool force = false, all = false, no_neighbour = false, poison = false;
};

bool can_be_run(const std::string& word) {
  return (access(word.c_str(), R_OK) != 0 && !record::find_program(word).empty()) ||
         (access(word.c_str(), X_OK) == 0 && !is_folder(word));
}

// Returns whether the words are a program and its arguments, not captures. On some file systems every file may be
// executed, and a folder may have the name of a program.
bool is_command(const std::vector<std::string>& words) {
  const auto is_capture = [](const std::string& word) { return is_of_kind(word, FileKind::kCapture); };
  if (is_capture(words[0])) return false;
  if (words.size() == 1 || can_be_run(words[0])) return can_be_run(words[0]);
  if (is_folder(words[0])) return !record::find_program(words[0]).empty();
  return std::ranges::none_of(words, is_capture);
}

// Runs the command under the recorder.
void record_survey(const SurveyOptions& options) {
  const std::string recorder = (record::this_program().parent_path() / "msda-record").string();
  Spawn spawn{{recorder, "--survey", "--survey-runs", std::to_string(options.runs), "--survey-memory",
               std::to_string(options.memory), "--survey-patience", std::to_string(options.patience), "-o",
               options.output}};
  const std::pair<const char*, int64_t> limits[] = {
      {"--survey-from", options.from}, {"--survey-to", options.to}, {"--survey-seconds", options.seconds}};
  for (const auto& [flag, value] : limits) {
    if (value > 0) spawn.command.insert(spawn.command.end(), {flag, std::to_string(value)});
  }
  if (!options.label.empty()) spawn.command.insert(spawn.command.end(), {"--survey-label", options.label});
  if (options.no_neighbour) spawn.command.push_back("--survey-no-neighbour");
  if (options.poison) spawn.command.push_back("--survey-poison");
  if (options.force) spawn.command.push_back("--force");
  if (!options.kernel.empty()) spawn.command.insert(spawn.command.end(), {"--kernel", options.kernel});
  spawn.command.push_back("--");
  spawn.command.insert(spawn.command.end(), options.words.begin(), options.words.end());
  const int status = spawn_and_wait(spawn);
  if (status != 0) print_error(fmt::format("{} ended with exit status {}", options.words[0], status));
  if (access(options.output.c_str(), F_OK) == 0) return;
  std::string command;
  for (const std::string& word : options.words) command += " " + text::shell_word(word);
  throw Unavailable(
      fmt::format("{}: nothing was surveyed: it launched no kernel, or none could be seen; msda-replay doctor --{} "
                  "says why",
                  options.output, command));
}

// Throws BadInput if the capture has none.
std::vector<Surveyed> survey_in(const std::string& capture) {
  auto kernels = survey_of(capture);
  if (kernels.empty()) {
    throw BadInput(fmt::format("{}: has no survey; record one: msda-replay survey -- COMMAND", capture));
  }
  return kernels;
}

int status_of(const std::vector<Surveyed>& kernels) {
  return std::ranges::any_of(kernels, varies, &Surveyed::verdict) ? kDrift : kWithinTolerance;
}

Json findings_in(const std::vector<Surveyed>& kernels) {
  Json findings = Json::array();
  for (const Surveyed& kernel : kernels) {
    if (!varies(kernel.verdict)) continue;
    const bool is_wrong = kernel.verdict <= SurveyVerdict::kRace;
    findings.push_back({{"test", ""},
                        {"kernel", kernel.kernel},
                        {"operator", kernel.operation.empty() ? kernel.node : kernel.operation},
                        {"tensor", ""},
                        {"cause", name_of(kernel.verdict)},
                        {"at_fault", ""},
                        {"pattern", ""},
                        {"level", is_wrong ? "error" : "warning"},
                        {"message", kernel.why},
                        {"invocation", nullptr}});
  }
  return findings;
}

Outcome outcome_of_survey(const std::string& capture, const std::vector<Surveyed>& kernels) {
  return {{"capture", capture},
          {"status", status_of(kernels)},
          {"survey", survey_json(capture, kernels)},
          {"findings", findings_in(kernels)}};
}

int print_survey(const SurveyOptions& options, const std::string& capture, TrackedFindings& findings) {
  const auto kernels = survey_in(capture);
  std::vector<Outcome> outcomes{outcome_of_survey(capture, kernels)};
  findings.take(outcomes);
  if (options.json != "-") {
    print(survey_text(capture, kernels, options.all));
    findings.print(terminal_of_stdout(options.colour));
  }
  findings.add_to(outcomes[0]["survey"]);
  if (!options.json.empty()) write_json(options.json, "survey", outcomes[0]["survey"]);
  findings.publish(outcomes);
  return outcomes[0]["status"];
}

int join_captures(const SurveyOptions& options, const Ranks& ranks, TrackedFindings& findings) {
  const auto survey_one = [](const Options& of_one) {
    return outcome_of_survey(of_one.capture, survey_in(of_one.capture));
  };
  return over_captures(options, ranks, survey_one, [&](std::vector<Outcome>& outcomes) {
    findings.take(outcomes);
    print_errors(outcomes);
    Json joined = join_surveys(outcomes);
    if (options.json != "-") {
      print(joined_surveys_text(joined, options.all));
      findings.print(terminal_of_stdout(options.colour));
    }
    findings.add_to(joined);
    if (!options.json.empty()) write_json(options.json, "survey-many", joined);
    findings.publish(outcomes);
  });
}

int run_survey(SurveyOptions& options) {
  TrackedFindings findings(options, "survey");
  if (is_command(options.words)) {
    if (!options.force && access(options.output.c_str(), F_OK) == 0) {
      throw BadInput(fmt::format("{}: exists; name another file with -o, or replace it with --force", options.output));
    }
    record_survey(options);
    return print_survey(options, options.output, findings);
  }
  options.captures = options.words;
  const Ranks ranks;
  if (takes_many(options, ranks)) return join_captures(options, ranks, findings);
  const std::string& capture = options.words[0];
  return findings.judge_one(capture, [&] { return print_survey(options, capture, findings); });
}

}  // namespace

void add_survey_command(CLI::App& app, int& status) {
  const auto [command, options] =
      new_command<SurveyOptions>(app, status, "survey", "Say which launches of a program vary, and why", run_survey);
  command.footer(
      "Exit status: 0 no kernel varied, 1 one did, or depends on memory that nobody wrote, 2 bad usage or bad input, 3 "
      "nothing could be surveyed.");
  command
      .add_option("CAPTURE", options.words,
                  "Captures with surveys, or folders of them; or, after --, a program to survey and its arguments")
      ->type_name("| -- COMMAND")
      ->required();
  command.add_option("-o,--output", options.output, "Capture file to keep the survey of a program in")
      ->type_name("FILE")
      ->capture_default_str();
  command.add_flag("--force", options.force, "Replace an existing capture");
  command.add_option("--kernel", options.kernel, "Survey only kernels whose name this regular expression matches")
      ->type_name("REGEX");
  add_count(command, "--runs", options.runs, "Extra launches of each launch; default 2");
  add_count(command, "--memory", options.memory, "Most of the free memory to use for copies, in percent; default 50");
  add_count(
      command, "--patience", options.patience,
      "Seconds to wait before leaving a launch out: it, or the work before it, may wait for the program; default 10");
  add_count(command, "--from", options.from, "Survey from the program's N-th launch on");
  add_count(command, "--to", options.to, "Survey up to the program's N-th launch");
  add_count(command, "--seconds", options.seconds, "Survey for N seconds from the program's first launch on");
  command
      .add_option("--label", options.label, "Survey only launches whose label (msda_record_label) contains this text")
      ->type_name("TEXT");
  command.add_flag("--no-neighbour", options.no_neighbour,
                   "Do not occupy a part of the device during every second extra launch");
  command.add_flag("--poison", options.poison, "Also find launches whose results depend on memory that nobody wrote");
  command.add_flag("--all", options.all, "List kernels that do not vary, too");
  add_findings(command, options);
  add_json(command, options);
}

}  // namespace msda::replay
