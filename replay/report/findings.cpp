#include "replay/report/findings.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <stdexcept>

#include "recorder/capture/isolated_reader.h"
#include "recorder/text/words.h"
#include "replay/base/captures.h"
#include "replay/base/errors.h"
#include "replay/base/same_file.h"
#include "replay/base/state_file.h"
#include "replay/calls/load_operator.h"
#include "replay/report/ci_formats.h"
#include "replay/report/words.h"

namespace msda::replay {
namespace {

using text::counted;

constexpr const char* kIdentity[] = {"test", "kernel", "operator", "tensor", "cause", "at_fault", "pattern"};

// Returns the mistake without the numbers that differ with the inputs, or in what way parts of the tensor are wrong.
std::string pattern_of(const analysis::Group& group) {
  static const std::regex number("[0-9]+");
  if (!group.as_if.empty()) return std::regex_replace(group.as_if, number, "#");
  std::set<std::string> kinds;
  for (const analysis::Pattern& pattern : group.patterns)
    kinds.insert(pattern.kind == analysis::Pattern::Kind::kRatio ? "ratio" : "offset");
  return kinds.size() == 1 ? *kinds.begin() : "";
}

Json finding_of(const analysis::Group& group, const InvocationResult& result) {
  const capture::CallFacts& facts = result.invocation.facts;
  const GroupTitle title = {name_of(group.cause), group.at_fault,          group.advisory,
                            group.elements,       name_of(group.gradient), result.tolerance.has_value()};
  return {{"test", facts.label},
          {"kernel", facts.kernel},
          {"operator", operator_of(result.invocation)},
          {"tensor", title.tensor},
          {"cause", title.cause},
          {"at_fault", name_of(group.at_fault)},
          {"pattern", pattern_of(group)},
          {"level", grade_of(title)},
          {"message", fmt::format("{}: {}", title_of(title), result.report.findings[group.farthest].why)},
          {"invocation", result.invocation.id}};
}

void add_poison(Json& findings, const std::optional<PoisonResult>& poison, const std::string& test,
                const std::string& kernel, int64_t invocation) {
  if (!poison || !poison->is_faulty()) return;
  const char* verdict = name_of(poison->verdict());
  findings.push_back({{"test", test},
                      {"kernel", kernel},
                      {"operator", ""},
                      {"tensor", ""},
                      {"cause", verdict},
                      {"at_fault", name_of(analysis::AtFault::kObserved)},
                      {"pattern", ""},
                      {"level", "error"},
                      {"message", fmt::format("launched with other contents of unwritten memory: {}", verdict)},
                      {"invocation", invocation}});
}

// Returns the path below the folder that was named, or the file's name: what does not change with where captures lie.
std::string name_below(const std::vector<std::string>& named, const std::string& capture) {
  namespace fs = std::filesystem;
  for (const std::string& folder : named) {
    const fs::path below = fs::path(capture).lexically_relative(folder);
    if (!below.empty() && below != "." && *below.begin() != "..") return below.string();
  }
  return fs::path(capture).filename().string();
}

// Returns the findings of a file that --write-baseline wrote. Throws BadInput.
Json read_baseline(const std::string& path, const std::string& command) {
  const auto fail = [&](const std::string& why) {
    return BadInput(
        fmt::format("--baseline {}: {}; write one: msda-replay {} ... --write-baseline FILE", path, why, command));
  };
  try {
    const auto kept = read_kept_json(path);
    if (!kept) throw fail("no such file");
    if (kept->at("schema") != "baseline.schema.json") throw fail("is no baseline");
    if (const std::string writer = text_at(*kept, "command"); writer != command)
      throw fail(fmt::format("is a baseline of {}", writer));
    Json findings = Json::array();
    for (const Json& finding : kept->at("findings")) findings.push_back(identity_of(finding));
    return findings;
  } catch (const Json::exception&) {
    throw fail("is damaged, or no baseline");
  } catch (const std::invalid_argument&) {
    throw fail("is damaged, or no baseline");
  }
}

std::string label_of(const Json& finding) { return text_at(finding, "test") + ": " + title_of(finding); }

}  // namespace

bool is_known(const Json& finding) { return finding["known"].get<bool>(); }

Json identity_of(const Json& finding) {
  Json identity;
  for (const char* name : kIdentity) identity[name] = text_at(finding, name);
  return identity;
}

std::string title_of(const Json& finding) {
  std::string title = text_at(finding, "cause");
  if (const std::string tensor = text_at(finding, "tensor"); !tensor.empty()) title += " in " + tensor;
  if (const std::string kernel = text_at(finding, "kernel"); !kernel.empty()) title += ", kernel " + kernel;
  return title;
}

Json run_findings(const std::vector<InvocationResult>& results, const std::vector<Relaunched>& relaunched) {
  Json findings = Json::array();
  for (const InvocationResult& result : results) {
    for (const analysis::Group& group : result.report.groups) {
      if (result.compared && !group.advisory) findings.push_back(finding_of(group, result));
    }
    const capture::CallFacts& facts = result.invocation.facts;
    add_poison(findings, result.poison, facts.label, facts.kernel, result.invocation.id);
  }
  for (const Relaunched& launch : relaunched) add_poison(findings, launch.poison, "", launch.kernel, launch.id);
  return findings;
}

TrackedFindings::TrackedFindings(const Options& options, std::string command)
    : options_(options), command_(std::move(command)) {
  if (!options.baseline.empty()) known_ = read_baseline(options.baseline, command_);
  if (options.github && options.json == "-") throw BadInput("--github prints, as --json - does: give --json a file");
  // Tallies of many nights lie in a folder, which the first one makes; check() says what is wrong with it.
  std::error_code ignored;
  if (!options.tally.empty())
    std::filesystem::create_directories(std::filesystem::path(options.tally).parent_path(), ignored);
  for (const OutputFile& file : outputs()) {
    refuse_same_outputs(file.path, options.json);
    file.check();
  }
}

std::vector<OutputFile> TrackedFindings::outputs() const {
  std::vector<OutputFile> files = {{"--write-baseline", options_.write_baseline},
                                   {"--tally", options_.tally},
                                   {"--junit", options_.junit, FileKind::kJUnit},
                                   {"--sarif", options_.sarif, FileKind::kSarif}};
  std::erase_if(files, [](const OutputFile& file) { return file.path.empty(); });
  return files;
}

void TrackedFindings::take(const std::vector<Json>& outcomes) {
  std::set<std::string> known, seen;
  for (const Json& finding : known_) known.insert(line_of(finding));
  for (const Json& outcome : outcomes) {
    Tested tested;
    tested.capture = text_at(outcome, "capture");
    tested.name = name_below(options_.captures, tested.capture);
    tested.error = outcome.value("error", "");
    tested.tests = outcome.value("labels", std::vector<std::string>());
    for (Json finding : outcome.value("findings", Json::array())) {
      if (text_at(finding, "test").empty()) finding["test"] = tested.name;
      finding["capture"] = tested.capture;
      if (std::ranges::find(tested.tests, text_at(finding, "test")) == tested.tests.end())
        tested.tests.push_back(text_at(finding, "test"));
      const std::string identity = line_of(identity_of(finding));
      finding["known"] = known.contains(identity);
      (is_known(finding) ? with_known_ : with_new_).insert(tested.capture);
      if (seen.insert(identity).second) findings_.push_back(std::move(finding));
    }
    if (tested.tests.empty()) tested.tests.push_back(tested.name);
    if (tested.error.empty()) count(outcome, tested);
    captures_.push_back(std::move(tested));
  }
}

// A test fails for a finding once in a capture, however many calls have it; simulated runs are counted as they fail.
void TrackedFindings::count(const Json& outcome, const Tested& tested) {
  const auto test_of = [&](const std::string& label) { return label.empty() ? tested.name : label; };
  const bool has_runs = outcome.contains("trials");
  const Json runs = outcome.value("trials", Json::object());
  for (const auto& [label, count] : runs.items()) trials_[test_of(label)] += count.get<int64_t>();
  for (size_t i = 0; !has_runs && i < tested.tests.size(); ++i) ++trials_[tested.tests[i]];
  std::set<std::string> here;
  for (Json finding : outcome.value("findings", Json::array())) {
    finding["test"] = test_of(text_at(finding, "test"));
    const std::string identity = line_of(identity_of(finding));
    failures_[identity] += has_runs ? count_at(finding, "failures") : int64_t{here.insert(identity).second};
  }
}

// Returns what `report --trend` draws of this night (docs/tally.schema.json).
Json TrackedFindings::tally() const {
  std::string recorded;
  std::set<std::string> gpus;
  int64_t unread = 0;
  for (const Tested& tested : captures_) {
    unread += !tested.error.empty();
    if (!tested.error.empty()) continue;
    const capture::IsolatedReader reader(tested.capture);
    recorded = std::max(recorded, reader.created());
    const auto facts = reader.run().facts;
    if (const auto gpu = facts.find("gpu"); gpu != facts.end()) gpus.insert(gpu->second);
  }
  Json json = {{"command", command_}, {"recorded", recorded}, {"gpus", gpus}, {"unread", unread}, {"tests", trials_}};
  json["findings"] = Json::array();
  for (const auto& [identity, failures] : failures_) {
    json["findings"].push_back(Json::parse(identity));
    json["findings"].back()["failures"] = failures;
  }
  return with_schema("tally", json);
}

size_t TrackedFindings::count_known() const { return static_cast<size_t>(std::ranges::count_if(findings_, is_known)); }

Json TrackedFindings::comparison() const {
  Json json = {{"file", options_.baseline}, {"known", 0}, {"new", Json::array()}, {"gone", Json::array()}};
  json["known"] = count_known();
  std::set<std::string> found;
  for (const Json& finding : findings_) {
    found.insert(line_of(identity_of(finding)));
    if (!is_known(finding)) json["new"].push_back(identity_of(finding));
  }
  for (const Json& finding : known_) {
    if (!found.contains(line_of(finding))) json["gone"].push_back(finding);
  }
  return json;
}

void TrackedFindings::add_to(Json& result) const {
  if (!has_baseline()) return;
  result["baseline"] = comparison();
  if (!result.contains("captures")) return;
  for (Json& capture : result["captures"]) forgive_known(capture);
}

void TrackedFindings::print(const Terminal& terminal) const {
  if (has_baseline()) print_comparison(terminal);
  if (options_.github) print_raw(annotations_of(*this));
}

void TrackedFindings::print_comparison(const Terminal& terminal) const {
  constexpr size_t kMostColumns = 80;
  Page page({std::min(terminal.width, kMostColumns), terminal.colour});
  const Json json = comparison();
  const auto known = count_at(json, "known"), fresh = std::ssize(json["new"]), gone = std::ssize(json["gone"]);
  const std::string is_new = fresh == 0 ? "none is new" : fmt::format("{} {} new", fresh, fresh == 1 ? "is" : "are");
  const std::string not_found =
      gone == 0 ? "" : fmt::format("; {} of the baseline {} not found", gone, gone == 1 ? "was" : "were");
  if (!options_.quiet) page.blank();
  page.paragraph({{fmt::format("{} {} in the baseline, {}{}.", counted(known, "finding"), known == 1 ? "is" : "are",
                               is_new, not_found)}});
  for (const char* which : {"new", "gone"}) {
    for (const Json& finding : json[which]) {
      if (!options_.quiet) page.labelled(which, {{label_of(finding)}});
    }
  }
  print_raw(page.text());
}

Json TrackedFindings::baseline() const {
  std::map<std::string, Json> sorted;  // so that a change of one finding changes few lines
  for (const Json& finding : findings_) sorted.emplace(line_of(identity_of(finding)), identity_of(finding));
  Json json = with_schema("baseline", {{"command", command_}, {"findings", Json::array()}});
  for (auto& [line, identity] : sorted) json["findings"].push_back(std::move(identity));
  return json;
}

void TrackedFindings::write_reports() const {
  for (const OutputFile& file : outputs()) {
    if (file.kind == FileKind::kJUnit) file.write(junit_of(*this));
    if (file.kind == FileKind::kSarif) file.write(sarif_of(*this));
  }
}

void TrackedFindings::forgive_known(Json& outcome) const {
  const std::string capture = text_at(outcome, "capture");
  if (outcome["status"] == kDrift && with_known_.contains(capture) && !with_new_.contains(capture))
    outcome["status"] = kWithinTolerance;
}

void TrackedFindings::publish(std::vector<Json>& outcomes) const {
  write_reports();
  if (!options_.tally.empty()) OutputFile{"--tally", options_.tally}.write(text_of(tally()));
  if (!options_.write_baseline.empty())
    OutputFile{"--write-baseline", options_.write_baseline}.write(text_of(baseline()));
  for (Json& outcome : outcomes) forgive_known(outcome);
}

int TrackedFindings::judge_one(const std::string& capture, const std::function<int()>& task) {
  try {
    return task();
  } catch (const std::exception& error) {
    if (captures_.empty()) take({{{"capture", capture}}});
    captures_.front().error = error.what();
    if (options_.github) print_raw(annotations_of(*this));
    write_reports();
    throw;
  }
}

}  // namespace msda::replay
