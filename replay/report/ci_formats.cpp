#include "replay/report/ci_formats.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <initializer_list>
#include <set>
#include <string_view>
#include <utility>

#include "recorder/text/escape.h"
#include "recorder/text/shell.h"

namespace msda::replay {
namespace {

// Returns the text without control characters and bytes that are not UTF-8, and with some characters replaced.
std::string with_escapes(std::string_view text, std::initializer_list<std::pair<char, std::string_view>> replacements) {
  std::string result;
  for (const char c : text::escaped(text)) {
    const auto found = std::ranges::find(replacements, c, &std::pair<char, std::string_view>::first);
    if (found != replacements.end()) {
      result += found->second;
    } else {
      result += c;
    }
  }
  return result;
}

// Text of an element or an attribute.
std::string xml(std::string_view text) {
  return with_escapes(text, {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}});
}

// "cell_boundary in grad_value, kernel k, and 2 more"
std::string titles_text(const std::vector<const Json*>& findings) {
  const std::string first = title_of(*findings.front());
  return findings.size() == 1 ? first : fmt::format("{}, and {} more", first, findings.size() - 1);
}

std::string failure_of(const TrackedFindings& findings, const std::vector<const Json*>& failed) {
  std::string text;
  for (const Json* finding : failed)
    text += xml(text_at(*finding, "message")) + "\n" + xml(explaining_command(findings, *finding)) + "\n";
  return fmt::format("      <failure type=\"{}\" message=\"{}\">{}</failure>\n", xml(text_at(*failed.front(), "cause")),
                     xml(titles_text(failed)), text);
}

// What stands in the test's <testcase>, and what the suite counts.
struct TestCase {
  std::string body;
  bool fails = false, has_error = false;
};

TestCase case_of(const TrackedFindings& findings, const std::string& test, const std::string& error) {
  std::vector<const Json*> failed, known;
  for (const Json& finding : findings.all()) {
    if (text_at(finding, "test") == test) (is_known(finding) ? known : failed).push_back(&finding);
  }
  TestCase result{"", !failed.empty(), !error.empty()};
  if (!failed.empty()) result.body += failure_of(findings, failed);
  if (!error.empty()) result.body += fmt::format("      <error message=\"{}\"/>\n", xml(error));
  if (!known.empty())
    result.body += fmt::format("      <system-out>In the baseline: {}</system-out>\n", xml(titles_text(known)));
  return result;
}

}  // namespace

std::string file_of_test(const std::string& test) {
  const std::string file = test.substr(0, test.find("::"));
  return file != test && file.ends_with(".py") ? file : "";
}

std::string explaining_command(const TrackedFindings& findings, const Json& finding) {
  const Json& invocation = finding["invocation"];
  return fmt::format("msda-replay {} {}{}", findings.command(), text::shell_word(text_at(finding, "capture")),
                     invocation.is_null() ? "" : fmt::format(" --invocation {}", invocation.get<int64_t>()));
}

std::string junit_of(const TrackedFindings& findings) {
  std::string cases;
  std::set<std::string> tests;
  int64_t failures = 0, errors = 0;
  for (const TrackedFindings::Tested& tested : findings.captures()) {
    for (const std::string& test : tested.tests) {
      if (!tests.insert(test).second) continue;
      const TestCase added = case_of(findings, test, tested.error);
      cases += fmt::format("    <testcase classname=\"msda-replay.{}\" name=\"{}\">\n{}    </testcase>\n",
                           findings.command(), xml(test), added.body);
      failures += added.fails;
      errors += added.has_error;
    }
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"msda-replay\">\n"
      "  <testsuite name=\"msda-replay {}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"0\">\n{}"
      "  </testsuite>\n</testsuites>\n",
      findings.command(), tests.size(), failures, errors, cases);
}

std::string annotations_of(const TrackedFindings& findings) {
  const auto property = [](const std::string& text) {
    return with_escapes(text, {{'%', "%25"}, {':', "%3A"}, {',', "%2C"}});
  };
  const auto data = [](const std::string& text) { return with_escapes(text, {{'%', "%25"}}); };
  std::string lines;
  for (const Json& finding : findings.all()) {
    if (is_known(finding)) continue;
    const std::string test = text_at(finding, "test"), file = file_of_test(test);
    lines += fmt::format("::{} title={}{}::{}%0A{}\n", text_at(finding, "level"),
                         property(test + ": " + title_of(finding)), file.empty() ? "" : ",file=" + property(file),
                         data(text_at(finding, "message")), data(explaining_command(findings, finding)));
  }
  for (const TrackedFindings::Tested& tested : findings.captures()) {
    if (!tested.error.empty())
      lines += fmt::format("::error title={}::{}\n", property(tested.capture), data(tested.error));
  }
  return lines;
}

}  // namespace msda::replay
