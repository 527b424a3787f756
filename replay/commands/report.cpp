// msda-replay report: all that is known of a capture as one page of HTML, and an index page for many captures.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "recorder/capture/digest.h"
#include "recorder/text/shell.h"
#include "recorder/writer/version.h"
#include "replay/base/errors.h"
#include "replay/base/output.h"
#include "replay/base/same_file.h"
#include "replay/base/state_file.h"
#include "replay/commands/commands.h"
#include "replay/commands/explain_all.h"
#include "replay/commands/failure_probability.h"
#include "replay/commands/flags.h"
#include "replay/commands/found_orders.h"
#include "replay/commands/new_command.h"
#include "replay/commands/shown.h"
#include "replay/many/many.h"
#include "replay/report/html/document.h"
#include "replay/report/html/frame.h"
#include "replay/report/joined.h"
#include "replay/report/survey_outcome.h"
#include "replay/report/trend.h"
#include "replay/stages/stage_table.h"
#include "replay/survey/joined.h"
#include "replay/survey/print.h"

namespace msda::replay {
namespace {

namespace fs = std::filesystem;

struct ReportOptions : Options {
  std::string output, stress_json;
  int64_t findings = 1000, stress_runs = 0;
  bool force = false, order = false, no_stages = false, trend = false;
};

// Returns the elements whose stages are shown: the worst of each group, except for advice on elements that another
// group reports.
std::vector<analysis::ElementId> shown_elements(const InvocationResult& result, const analysis::Call& call) {
  constexpr size_t kMost = 6;
  std::vector<analysis::ElementId> elements;
  for (const analysis::Group& group : result.report.groups) {
    if (elements.size() == kMost || (group.advisory && reported_elsewhere(group, result.report.groups) > 0)) continue;
    const analysis::Finding& worst = result.report.findings[group.farthest];
    elements.push_back(call.element_id(worst.gradient, worst.flat));
  }
  return elements;
}

// A page shows so many invocations of one kind in full, and of all kinds so many, and the first of each.
constexpr int kMostAlike = 25, kMostInFull = 50;

// Returns the kind of the first finding; empty without any.
std::string kind_of(const InvocationResult& result) {
  if (result.report.groups.empty()) return "";
  const analysis::Group& first = result.report.groups.front();
  return fmt::format("{} {} {}", name_of(first.cause), name_of(first.at_fault), first.advisory);
}

// Makes the report on one capture.
class Reporter {
 public:
  // `keeps_all`: findings of invocations in brief, too.
  Reporter(const ReportOptions& options, const capture::IsolatedReader& reader, bool keeps_all)
      : options_(options), reader_(reader), keeps_all_(keeps_all), devices_(options), progress_(!options.quiet) {
    const auto chosen = Pairing(options, reader).chosen().size();
    most_listed_ = std::max<size_t>(10, static_cast<size_t>(options.findings) / std::max<size_t>(1, chosen));
  }

  Found find() {
    return find_all(options_, reader_,
                    [this](const LoadedCall& loaded, const analysis::Material& material, InvocationResult& result) {
                      look(loaded, material, result);
                    });
  }

  ReportedCapture report(Found found, const Conclusion& conclusion) {
    ReportedCapture report{
        options_.capture, flags_of(options_), stress_flags(found), shown_capture(options_.capture, reader_), {}, {}, {},
        conclusion,       record::version()};
    for (size_t i = 0; i < found.results.size(); ++i) {
      looked_[i].result = std::move(found.results[i]);
      report.invocations.push_back(std::move(looked_[i]));
    }
    report.relaunched = std::move(found.relaunched);
    report.not_replayed = std::move(found.not_replayed);
    add_stress(report);
    return report;
  }

 private:
  // stress has no --reference; what that chose is named.
  std::string stress_flags(const Found& found) const {
    Options options = options_;
    if (options.reference && !found.results.empty())
      options.invocation = std::to_string(found.results.front().invocation.id);
    options.reference.reset();
    return flags_of(options);
  }

  void look(const LoadedCall& loaded, const analysis::Material& material, InvocationResult& result) {
    ReportedInvocation reported;
    const int alike = ++alike_[kind_of(result)];
    reported.is_brief = alike > kMostAlike || (alike > 1 && in_full_ >= kMostInFull);
    if (reported.is_brief) {
      // A call that is wrong everywhere has megabytes of findings.
      if (!keeps_all_) result.report.verdict = std::exchange(result.report, {}).verdict;
      return looked_.push_back(std::move(reported));
    }
    ++in_full_;
    const int threads = static_cast<int>(options_.threads);
    reported.pictures = take_pictures(material, result.report, result.tolerance, most_listed_, threads);
    reported.shown = shown_invocation(reader_, result.invocation);
    if (!options_.no_stages) {
      const StageTensors recorded(options_, reader_, result.invocation, loaded.call(), loaded.recorded());
      reported.stages = stage_summary(loaded, recorded, threads, devices_, progress_);
      const auto tolerance =
          result.tolerance.value_or(analysis::customary_tolerance(loaded.call().inputs().front().tensor.dtype));
      reported.elements = Json::array();
      for (const auto& element : shown_elements(result, loaded.call())) {
        reported.elements.push_back(stages_of_element(loaded, recorded, element, tolerance));
      }
    }
    if (options_.order) reported.order = order_of(result.invocation);
    looked_.push_back(std::move(reported));
  }

  // Returns the orders of the first gradient that has any.
  Json order_of(const capture::Invocation& invocation) {
    OrderOptions options;
    static_cast<Options&>(options) = options_;
    std::vector<FoundOrders> found;
    std::vector<NoOrders> none;
    find_orders_in(options, reader_, atomics_, invocation, progress_, found, none);
    return found.empty()
               ? Json()
               : to_json(options_.capture, found, none, static_cast<size_t>(options.list))["invocations"].front();
  }

  void add_stress(ReportedCapture& report) {
    Json stress;
    if (!options_.stress_json.empty()) stress = read_stress();
    if (options_.stress_runs > 0 && !report.invocations.empty())
      stress = simulate(report.invocations.front().result.invocation.id);
    if (stress.is_null()) return;
    for (ReportedInvocation& invocation : report.invocations) {
      if (invocation.result.invocation.id != stress["invocation"]) continue;
      if (!options_.stress_json.empty()) refuse_other_call(stress, invocation.result.invocation);
      if (invocation.is_brief) {
        throw BadInput(fmt::format("--stress-json {}: it is of invocation {}, one of many alike; give --invocation {}",
                                   options_.stress_json, invocation.result.invocation.id,
                                   invocation.result.invocation.id));
      }
      invocation.stress = std::move(stress);
      return;
    }
    throw BadInput(fmt::format("--stress-json {}: it is of invocation {}, which is not in this report",
                               options_.stress_json, stress["invocation"].dump()));
  }

  Json read_stress() const {
    const auto not_from_stress = [&] {
      return BadInput(fmt::format("--stress-json {}: not what msda-replay stress --json writes", options_.stress_json));
    };
    try {
      auto kept = read_kept_json(options_.stress_json);
      if (!kept) throw BadInput(fmt::format("--stress-json {}: cannot read it", options_.stress_json));
      Json stress = *std::move(kept);
      check_probability(stress);
      return stress;
    } catch (const Json::exception&) {
      throw not_from_stress();
    } catch (const std::invalid_argument&) {
      throw not_from_stress();
    }
  }

  // By what the calls hold: since the simulation, the capture may have been moved. Simulations by older versions say
  // only where it was.
  void refuse_other_call(const Json& stress, const capture::Invocation& invocation) const {
    const std::string simulated = stress["capture"], content = stress.value("content", ""),
                      here = content_of(invocation);
    const auto differs =
        fmt::format("--stress-json {}: it is of {}, not of {}", options_.stress_json, simulated, options_.capture);
    if (!content.empty() && !here.empty()) {
      if (content != here) throw BadInput(differs + "; --stress N simulates this one");
      return;
    }
    std::error_code missing;
    const fs::path from = fs::path(options_.stress_json).parent_path() / simulated;
    if (fs::equivalent(simulated, options_.capture, missing) || fs::equivalent(from, options_.capture, missing)) return;
    print_error(fmt::format("note: {}, or that has been moved since", differs));
  }

  Json simulate(int64_t invocation) {
    StressOptions options;
    static_cast<Options&>(options) = options_;
    options.invocation = std::to_string(invocation);
    options.runs = options_.stress_runs;
    return simulate_failures(options, plan_simulation(options, reader_));
  }

  const ReportOptions& options_;
  const capture::IsolatedReader& reader_;
  bool keeps_all_;
  AtomicsOfKernels atomics_{reader_};
  Devices devices_;
  const Progress progress_;
  size_t most_listed_;
  int in_full_ = 0;                         // invocations so far
  std::map<std::string, int> alike_;        // of each kind
  std::vector<ReportedInvocation> looked_;  // in the order in which they were explained, without their results
};

OutputFile page_file(const ReportOptions& options, const std::string& path) {
  return {"-o", path, FileKind::kPage, options.force};
}

// Throws BadInput for a file that must not be replaced.
void check_output(const ReportOptions& options, const std::string& path) {
  std::error_code ignored;
  refuse_same_outputs(path, options.json);
  for (const std::string& capture : options.captures) refuse_to_replace(capture, path);
  if (fs::is_directory(path, ignored)) throw BadInput(fmt::format("-o {}: it is a folder; give the page a name", path));
  page_file(options, path).check();
}

// What write_report() returns after it wrote the page; `joins`: other captures follow.
struct WrittenReport {
  Outcome outcome, json;
};
WrittenReport write_report(const ReportOptions& options, const std::string& path, bool joins) {
  const capture::IsolatedReader reader(options.capture);
  Reporter reporter(options, reader, joins || !options.json.empty());
  Found found = reporter.find();
  WrittenReport written;
  written.outcome = outcome_of(options, reader, found);  // throws where there is nothing to report_page
  const Conclusion conclusion = conclude(found);
  if (!options.json.empty())
    written.json = to_json(options.capture, found.results, found.relaunched, found.not_replayed, conclusion);
  page_file(options, path).write(html_of(reporter.report(std::move(found), conclusion)));
  return written;
}

void report_page(const ReportOptions& options, const std::string& summary, const std::string& path) {
  if (options.json == "-") return;
  Lines lines;
  lines.add("{}", summary);
  if (!options.quiet) lines.add_whole(" --> " + path);
  print(lines);
}

// Writes the page of a survey, and returns the survey (docs/survey.schema.json). --invocation asks for the launches
// that it kept. Null if the capture has no survey.
Json write_survey(const ReportOptions& options, const std::string& path) {
  if (options.invocation != "all") return {};
  const auto kernels = survey_of(options.capture);
  if (kernels.empty()) return {};
  Json survey = survey_json(options.capture, kernels);
  const Json outcome = survey_outcome(survey);
  const std::string headline = outcome["summary"];
  page_file(options, path)
      .write(page_of_html(headline, survey_text(options.capture, kernels, false).text(),
                          {{"kind", "survey"},
                           {"survey", survey},
                           {"headline", headline},
                           {"grade", outcome["grade"]},
                           {"word", text::shell_word(options.capture)},
                           {"version", record::version()}}));
  return survey;
}

int status_of_survey(const Json& survey) { return survey_outcome(survey)["varying"] > 0 ? kDrift : kWithinTolerance; }

// Returns nothing if the capture has no survey.
std::optional<int> report_survey(const ReportOptions& options) {
  const Json survey = write_survey(options, options.output);
  if (survey.is_null()) return std::nullopt;
  const Json outcome = survey_outcome(survey);
  report_page(options, fmt::format("{} of {} kernels vary.", outcome["varying"], outcome["kernels"]), options.output);
  if (!options.json.empty()) write_json(options.json, "survey", survey);
  return status_of_survey(survey);
}

int report_one(const ReportOptions& options) {
  check_output(options, options.output);
  if (const auto status = report_survey(options)) return *status;
  const auto [outcome, json] = write_report(options, options.output, false);
  report_page(options, outcome["verdict"]["summary"], options.output);
  if (!options.json.empty()) write_json(options.json, "run", json);
  return outcome["status"];
}

// Returns the name of a capture's page among those of others: its own, and a part of the digest of its path.
std::string page_name(const std::string& capture) {
  std::string name = fs::path(capture).stem().string();
  for (char& c : name) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    if (!plain) c = '_';
  }
  const std::string digest = capture::digest(std::as_bytes(std::span(capture)));
  return fmt::format("{}-{}.html", name.substr(0, 80), digest.substr(digest.find(':') + 1, 8));
}

// Writes the page of one of several captures. What surveys have of each kernel is joined later.
Outcome write_one_of_many(const ReportOptions& options, const std::string& page) {
  Json survey = write_survey(options, page);
  if (survey.is_null()) return write_report(options, page, true).outcome;
  Outcome outcome = {{"capture", options.capture}, {"status", status_of_survey(survey)}};
  outcome["survey"] = std::move(survey);
  return outcome;
}

// Joins the surveys, and returns what all of them show; each capture keeps only its numbers.
Json take_surveys(std::vector<Outcome>& outcomes) {
  std::vector<Outcome> surveys;
  for (Outcome& outcome : outcomes) {
    if (!outcome.contains("survey")) continue;
    surveys.push_back(outcome);
    outcome["survey"] = survey_outcome(surveys.back()["survey"]);
  }
  return join_surveys(surveys);
}

int write_reports(const ReportOptions& options, const Ranks& ranks) {
  const fs::path folder = options.output, index = folder / "index.html";
  if (folder.extension() == ".html") {
    throw BadInput(
        fmt::format("-o {}: of several captures report makes a folder of pages; give a folder's name", options.output));
  }
  if (!options.stress_json.empty()) throw BadInput("--stress-json: it is of one capture; here are several");
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed || !fs::is_directory(folder))
    throw BadInput(fmt::format("-o {}: no folder, and cannot be made one; several captures need one", options.output));
  if (ranks.is_first()) check_output(options, index.string());
  const auto report_one = [&](const Options& of_one) {
    ReportOptions own = options;
    static_cast<Options&>(own) = of_one;
    const std::string page = (folder / page_name(own.capture)).string();
    check_output(own, page);
    own.json.clear();
    Outcome outcome = write_one_of_many(own, page);
    outcome["page"] = page_name(own.capture);
    return outcome;
  };
  return over_captures(options, ranks, report_one, [&](std::vector<Outcome> outcomes) {
    std::vector<std::string> pages;
    for (const Outcome& outcome : outcomes) pages.push_back(outcome.value("page", ""));
    print_errors(outcomes);
    const Json surveys = take_surveys(outcomes), joined = join(outcomes);
    page_file(options, index.string()).write(html_of_index(joined, surveys, pages, record::version()));
    report_page(options, joined["verdict"]["summary"], index.string());
    if (!options.json.empty()) write_json(options.json, "run-many", joined);
  });
}

int report_trend(const ReportOptions& options) {
  if (!options.json.empty()) throw BadInput("--json: --trend has none; the files of --tally have all of its numbers");
  check_output(options, options.output);
  const std::vector<Json> tallies = read_tallies(options.captures);
  page_file(options, options.output).write(html_of_trend(tallies));
  report_page(options, trend_summary(tallies), options.output);
  return kWithinTolerance;
}

int run_report(ReportOptions& options) {
  if (options.trend) return report_trend(options);
  check_numbers(options);
  check_range("--findings", options.findings, 0, 100'000);
  check_range("--stress", options.stress_runs, 0, kMostRuns);
  if (options.stress_runs > 0 && !options.stress_json.empty())
    throw BadInput("--stress and --stress-json: give one of them");
  const Ranks ranks;
  if (takes_many(options, ranks)) return write_reports(options, ranks);
  options.capture = options.captures.front();
  return report_one(options);
}

}  // namespace

void add_report_command(CLI::App& app, int& status) {
  const auto [command, options] = new_command<ReportOptions>(
      app, status, "report",
      "Write what run, stages and show find as one page of HTML; of several captures, a folder of pages", run_report);
  add_captures(command, options);
  command.add_option("-o,--output", options.output, "The page to write; of several captures, the folder")
      ->required()
      ->type_name("FILE.html");
  command.add_flag("--force", options.force, "Replace pages that exist");
  command.add_flag("--trend", options.trend,
                   "CAPTURE is what --tally of run, stress or survey wrote, or a folder of it: draw how often tests "
                   "fail, night by night");
  add_count(command, "--findings", options.findings, "List at most N elements out of tolerance; default 1000");
  command.add_flag("--no-stages", options.no_stages, "Leave out the stages, which take longest");
  command.add_flag("--order", options.order, "Add the order of the atomic additions, as the command order finds it");
  add_count(command, "--stress", options.stress_runs, "Add the failure probability, from at most N simulated runs");
  command.add_option("--stress-json", options.stress_json, "Add the failure probability that stress --json wrote")
      ->type_name("FILE");
  add_replay(command, options);
  add_operator(command);
}

}  // namespace msda::replay
