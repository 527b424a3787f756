#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <vector>

#include "recorder/writer/version.h"
#include "replay/base/state_file.h"
#include "replay/report/ci_formats.h"
#include "replay/report/explained_words.h"

namespace msda::replay {
namespace {

// Returns a path as a URI: of an absolute path with its scheme, of another one relative to where the command runs.
std::string uri_of(const std::string& path) {
  std::string uri = path.starts_with('/') ? "file://" : "";
  for (const char c : path) {
    const bool plain =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || std::string_view("-._~/").find(c) != std::string_view::npos;
    uri += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return uri;
}

Json text_json(const std::string& text) { return {{"text", text}}; }

// A rule says what a cause means, as docs/causes.md and docs/survey.md do.
Json rule_of(const std::string& cause, const std::string& command) {
  const std::string_view meant_as = command == "survey" ? "verdict of a survey" : "cause of a finding";
  const auto& words = explained_words();
  auto word = std::ranges::find_if(words, [&](const auto& w) { return w.name == cause && w.meant_as == meant_as; });
  if (word == words.end()) word = std::ranges::find(words, cause, &ExplainedWord::name);
  std::string explanation = word != words.end() ? word->explanation : cause;
  explanation.erase(0, explanation.find_first_not_of('\n'));
  std::string paragraph = explanation.substr(0, explanation.find("\n\n"));
  std::ranges::replace(paragraph, '\n', ' ');
  return {{"id", cause},
          {"shortDescription", text_json(paragraph.substr(0, paragraph.find(". ")))},
          {"fullDescription", text_json(paragraph)},
          {"help", {{"text", explanation}, {"markdown", explanation}}}};
}

// GitHub shows a finding in the file of its test; without one, at the capture.
Json location_of(const Json& finding) {
  const std::string test = text_at(finding, "test"), file = file_of_test(test);
  return {{"physicalLocation",
           {{"artifactLocation", {{"uri", uri_of(file.empty() ? text_at(finding, "capture") : file)}}},
            {"region", {{"startLine", 1}}}}},
          {"logicalLocations", Json::array({Json{{"fullyQualifiedName", test}}})}};
}

Json result_of(const TrackedFindings& findings, const Json& finding) {
  Json result = {{"ruleId", finding["cause"]},
                 {"level", finding["level"]},
                 {"message", text_json(fmt::format("{}: {}\n{}", title_of(finding), text_at(finding, "message"),
                                                   explaining_command(findings, finding)))},
                 {"locations", Json::array({location_of(finding)})},
                 {"partialFingerprints", {{"primaryLocationLineHash", replay::digest_of(identity_of(finding))}}}};
  if (findings.has_baseline()) result["baselineState"] = is_known(finding) ? "unchanged" : "new";
  return result;
}

// Captures that could not be read or judged.
Json notifications_of(const TrackedFindings& findings) {
  Json notifications = Json::array();
  for (const TrackedFindings::Tested& tested : findings.captures()) {
    if (!tested.error.empty()) notifications.push_back({{"level", "error"}, {"message", text_json(tested.error)}});
  }
  return notifications;
}

}  // namespace

std::string sarif_of(const TrackedFindings& findings) {
  Json rules = Json::array(), results = Json::array();
  std::vector<std::string> causes;
  for (const Json& finding : findings.all()) {
    const std::string cause = text_at(finding, "cause");
    if (std::ranges::find(causes, cause) == causes.end()) {
      causes.push_back(cause);
      rules.push_back(rule_of(cause, findings.command()));
    }
    results.push_back(result_of(findings, finding));
  }
  const Json notifications = notifications_of(findings);
  const Json driver = {{"name", "msda-replay"}, {"version", record::version()}, {"rules", rules}};
  const Json invocation = {{"executionSuccessful", notifications.empty()},
                           {"toolExecutionNotifications", notifications}};
  const Json run = {{"tool", {{"driver", driver}}},
                    {"automationDetails", {{"id", fmt::format("msda-replay/{}/", findings.command())}}},
                    {"invocations", Json::array({invocation})},
                    {"results", results}};
  return text_of({{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
                  {"version", "2.1.0"},
                  {"runs", Json::array({run})}});
}

}  // namespace msda::replay
