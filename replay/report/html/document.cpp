#include "replay/report/html/document.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <span>

#include "recorder/text/shell.h"
#include "replay/base/json.h"
#include "replay/calls/damage.h"
#include "replay/report/html/findings.h"
#include "replay/report/html/frame.h"
#include "replay/report/html/joined_surveys.h"
#include "replay/report/html/sections.h"
#include "replay/report/html/writer.h"
#include "replay/report/joined.h"
#include "replay/report/words.h"

namespace msda::replay {

using analysis::AtFault;
using analysis::thousands;

namespace {

// A grade's colour and word.
struct Chip {
  const char* style;
  const char* word;
};
// `grade` as name_of(Grade) has it; `drifts`: elements are out of tolerance.
Chip chip_of(std::string_view grade, bool drifts) {
  const char* style = grade == name_of(Grade::kWrong) ? "error" : grade == name_of(Grade::kGood) ? "good" : "warning";
  if (drifts) return {style, "Drift"};
  // Without elements out of tolerance only surveys drift.
  return {style, grade == name_of(Grade::kDrift)   ? "Varies"
                 : grade == name_of(Grade::kWrong) ? "Faulty"
                 : grade == name_of(Grade::kGood)  ? "Within tolerance"
                                                   : "Undecided"};
}

// The first sentence is the headline; what it has in brackets stands under it.
void add_headline(Html& html, const std::string& summary) {
  const size_t bracket = summary.find(" ("), end = summary.find(". ");
  const size_t close = bracket < end ? summary.find(").", bracket) : std::string::npos;
  const size_t first = close != std::string::npos ? close + 2 : end != std::string::npos ? end + 1 : summary.size();
  {
    const auto heading = html.in("h1");
    const std::string sentence = summary.substr(0, first);
    html.text(close != std::string::npos ? sentence.substr(0, bracket) : sentence);
    if (close != std::string::npos)
      html.add("span", {{"class", "aside"}}, " " + summary.substr(bracket + 2, close - bracket - 2) + ".");
  }
  if (first < summary.size()) html.add("p", {{"class", "lead"}}, summary.substr(first + 1));
}

int64_t out_of_tolerance(const Conclusion& conclusion) {
  int64_t all = 0;
  for (const auto& [cause, count] : conclusion.verdict.causes) all += count;
  return all;
}

void add_top(Html& html, const ReportedCapture& report) {
  const analysis::Verdict& verdict = report.conclusion.verdict;
  const Chip grade = chip_of(name_of(grade_of(report.conclusion)), !verdict.causes.empty());
  const auto header = html.in("header", {{"class", std::string("top ") + grade.style}});
  {
    const auto line = html.in("p", {{"class", "brand"}});
    html.add("span", "msda-replay");
    html.add("span", {{"class", "mono"}}, std::filesystem::path(report.capture).filename().string());
  }
  {
    const auto chips = html.in("p", {{"class", "chips"}});
    add_chip(html, grade.style, grade.word);
    for (const auto& [cause, count] : verdict.causes)
      add_chip(html, "cause", fmt::format("{} {}", name_of(cause), thousands(count)));
  }
  add_headline(html, headline(verdict.summary, report.conclusion.damaged));
  const auto figures = html.in("dl", {{"class", "figures"}});
  add_figure(html, "out of tolerance", elements_text(out_of_tolerance(report.conclusion)));
  const AtFault at_fault = report.conclusion.faulty ? AtFault::kObserved : verdict.at_fault;
  add_figure(html, "at fault", party_of(at_fault, verdict.tolerance_given));
  add_figure(html, "invocations",
             thousands(static_cast<int64_t>(report.invocations.size() + report.relaunched.size() +
                                            report.not_replayed.size())));
  if (const Json& facts = report.shown["run"]["facts"]; facts.contains("gpu"))
    add_figure(html, "recorded on", plain_text(facts["gpu"]));
  if (const auto created = report.shown["created"].get<std::string>(); !created.empty())
    add_figure(html, "written", created);
}

// As a terminal shows them.
void add_lines(Html& html, const Lines& lines) {
  const auto pre = html.in("pre", {{"class", "text"}, {"tabindex", "0"}});
  std::string_view rest = lines.text();
  for (size_t end; (end = rest.find('\n')) != std::string_view::npos; rest.remove_prefix(end + 1)) {
    html.text(rest.substr(0, end));
    html.end_line();
  }
}

// A section that can be folded, with a heading.
template <class Fill>
void add_section(Html& html, const std::string& id, const char* title, Fill&& fill) {
  const auto section = html.in("section", {{"id", id}});
  html.add("h3", title);
  fill();
}

void add_notes(Html& html, const InvocationResult& result) {
  const auto note = [&](const std::string& text) { html.add("p", {{"class", "note"}}, text); };
  if (!result.compared) note("Nothing to compare: it has no gradients in its outputs.");
  for (const std::string& path : result.altered) note(path + " is not what was recorded, its digest differs.");
  for (const std::string& text : result.notes) note(text);
  if (!result.original_left_out.empty()) note("Mode original is left out: " + result.original_left_out);
  if (result.original) add_lines(html, to_text(*result.original));
  if (result.poison) add_lines(html, to_text(*result.poison));
  for (const RecordedOrder& order : result.recorded_order) {
    note(
        fmt::format("recorded_order: {}: the order of additions was found for {} of {} pixels; {} of {} elements have "
                    "the recorded bits.",
                    name_of(order.gradient), thousands(order.in_order), thousands(order.pixels), thousands(order.equal),
                    thousands(order.total)));
  }
  for (const auto& [mode, repeats] : result.repeats) {
    for (const auto gradient : result.call->gradients()) {
      note(fmt::format("{} runs of {}: {} results of {}, spread {:.3g}.", repeats.runs, mode,
                       repeats.distinct[gradient.place()], name_of(gradient), repeats.spread[gradient.place()]));
    }
  }
}

std::string prefix_of(const ReportedInvocation& invocation) {
  return fmt::format("i{}", invocation.result.invocation.id);
}

// Adds what the page shows of one invocation beside its findings.
void add_details(Html& html, const ReportedInvocation& invocation, const Json& kernels) {
  const std::string prefix = prefix_of(invocation);
  const InvocationResult& result = invocation.result;
  add_section(html, prefix + "-comparisons", "Comparisons", [&] { add_comparisons(html, result); });
  if (!invocation.pictures.maps.empty()) {
    add_section(html, prefix + "-maps", "Where the errors are", [&] { add_maps(html, invocation.pictures); });
    add_section(html, prefix + "-ulp", "How large the errors are",
                [&] { add_histograms(html, invocation.pictures, result); });
  }
  if (!invocation.stages.empty())
    add_section(html, prefix + "-stages", "Stages", [&] { add_stages(html, invocation.stages, invocation.elements); });
  if (!invocation.order.empty())
    add_section(html, prefix + "-order", "Order of additions", [&] { add_order(html, invocation.order); });
  if (!invocation.stress.empty())
    add_section(html, prefix + "-stress", "Failure probability", [&] { add_probability(html, invocation.stress); });
  if (!invocation.shown.empty())
    add_section(html, prefix + "-launch", "Launch", [&] { add_launch(html, invocation.shown, kernels); });
}

void add_invocation_section(Html& html, const ReportedCapture& report, const ReportedInvocation& invocation) {
  const InvocationResult& result = invocation.result;
  const capture::CallFacts& facts = result.invocation.facts;
  const std::string prefix = prefix_of(invocation);
  const bool several = report.invocations.size() > 1;
  const auto section = html.in("section", {{"class", "invocation"}, {"id", prefix}});
  {
    const auto heading = html.in("h2");
    html.text(fmt::format("Invocation {}", result.invocation.id));
    if (!facts.kernel.empty()) html.add("span", {{"class", "kernel mono"}}, facts.kernel);
  }
  html.add("p", {{"class", "quiet"}},
           fmt::format("{}; {}; {}", operator_and_conventions(result.invocation), tolerance_text(result),
                       result.call->text_of_sizes()));
  if (!facts.label.empty()) html.add("p", {{"class", "quiet"}}, "Recorded in " + facts.label);
  add_notes(html, result);
  const FindingsPlace place{prefix,
                            report.flags + (several ? fmt::format(" --invocation {}", result.invocation.id) : "")};
  if (result.report.groups.empty()) {
    const bool good = grade_of(conclusion_of(result)) == Grade::kGood;
    if (result.compared) html.add("p", {{"class", good ? "note good" : "note"}}, "Nothing is out of tolerance.");
  } else {
    html.add("h3", {{"id", prefix + "-findings"}}, "Findings");
    add_groups(html, result, invocation.pictures, place);
    add_elements(html, result, invocation.pictures, place);
  }
  // If there are many invocations, those without findings are folded.
  if (several && result.report.groups.empty()) {
    const auto details = html.in("details", {{"class", "maps"}});
    html.add("summary", "Comparisons, errors, stages, launch");
    add_details(html, invocation, report.shown["run"]["kernels"]);
  } else {
    add_details(html, invocation, report.shown["run"]["kernels"]);
  }
}

// A list shows so many calls, and says how many more there are.
constexpr int64_t kMostCallsListed = 1000;

void add_more(Html& html, int64_t all) {
  if (all > kMostCallsListed)
    html.add("p", {{"class", "quiet"}}, fmt::format("And {} more.", thousands(all - kMostCallsListed)));
}

// Adds one line for each invocation that is like too many others.
void add_brief(Html& html, const ReportedCapture& report) {
  const int64_t all = std::ranges::count_if(report.invocations, &ReportedInvocation::is_brief);
  if (all == 0) return;
  const auto section = html.in("section", {{"id", "brief"}});
  html.add("h2", "Invocations in brief");
  html.add("p",
           "Only the first invocations of each kind of finding, and the first without any, are shown in full. To show "
           "another one:");
  add_command(html, fmt::format("msda-replay report {} --invocation N -o invocation.html", report.flags));
  {
    const auto table = html.in("table", {{"class", "captures"}});
    int64_t rows = 0;
    for (const ReportedInvocation& invocation : report.invocations) {
      if (!invocation.is_brief || rows++ >= kMostCallsListed) continue;
      const auto row = html.in("tr");
      html.add("td", fmt::format("Invocation {}", invocation.result.invocation.id));
      html.add("td", {{"class", "wrap"}}, conclusion_of(invocation.result).verdict.summary);
    }
  }
  add_more(html, all);
}

void add_others(Html& html, const ReportedCapture& report) {
  if (report.relaunched.empty() && report.not_replayed.empty()) return;
  const auto section = html.in("section", {{"id", "others"}});
  html.add("h2", "Other invocations");
  if (!report.relaunched.empty()) add_lines(html, to_text(report.relaunched));
  const auto all = static_cast<int64_t>(report.not_replayed.size());
  for (const auto& [id, why] :
       std::span(report.not_replayed).first(static_cast<size_t>(std::min(all, kMostCallsListed))))
    html.add("p", {{"class", "note"}}, fmt::format("Invocation {} is not replayed: {}", id, why));
  add_more(html, all);
}

void add_reproduce(Html& html, const ReportedCapture& report) {
  const auto section = html.in("section", {{"id", "reproduce"}});
  html.add("h2", "How to reproduce");
  const auto say = [&](const char* text, const std::string& command) {
    html.add("p", text);
    add_command(html, command);
  };
  say("This verdict, on any machine, without a GPU:", "msda-replay run " + report.flags);
  if (!report.conclusion.verdict.causes.empty()) {
    say("The smallest call that fails for the same cause:",
        fmt::format("msda-replay minimize {} -o small.h5", report.flags));
  }
  say("How often the test fails with other inputs:", "msda-replay stress " + report.stress_flags);
  if (const Json& argv = report.shown["run"]["argv"]; !argv.empty()) {
    std::vector<std::string> words;
    for (const Json& word : argv) words.push_back(text::shell_word(word.get<std::string>()));
    say("What was recorded:", fmt::format("{}", fmt::join(words, " ")));
  }
  html.add("p", {{"class", "quiet"}},
           fmt::format("Captured with msda-replay {}, reported with {}.",
                       report.shown["tool_version"].get<std::string>(), report.version));
}

std::vector<Link> links_of(const ReportedCapture& report) {
  std::vector<Link> links;
  constexpr size_t kMost = 12;
  const bool single = report.invocations.size() == 1;
  for (const ReportedInvocation& invocation : report.invocations) {
    const std::string prefix = prefix_of(invocation);
    if (invocation.is_brief) continue;
    if (!single) {
      if (links.size() < kMost)
        links.push_back({prefix, fmt::format("Invocation {}", invocation.result.invocation.id)});
      continue;
    }
    if (!invocation.result.report.groups.empty()) {
      links.push_back({prefix + "-findings", "Findings"});
      links.push_back({prefix + "-elements", "Elements"});
    }
    links.push_back({prefix + "-comparisons", "Comparisons"});
    if (!invocation.pictures.maps.empty()) {
      links.push_back({prefix + "-maps", "Error maps"});
      links.push_back({prefix + "-ulp", "Error sizes"});
    }
    if (!invocation.stages.empty()) links.push_back({prefix + "-stages", "Stages"});
    if (!invocation.order.empty()) links.push_back({prefix + "-order", "Order"});
    if (!invocation.stress.empty()) links.push_back({prefix + "-stress", "Probability"});
    if (!invocation.shown.empty()) links.push_back({prefix + "-launch", "Launch"});
  }
  if (std::ranges::any_of(report.invocations, &ReportedInvocation::is_brief)) links.push_back({"brief", "In brief"});
  if (!report.relaunched.empty() || !report.not_replayed.empty()) links.push_back({"others", "Others"});
  links.push_back({"program", "Program"});
  links.push_back({"reproduce", "Reproduce"});
  return links;
}

}  // namespace

std::string html_of(const ReportedCapture& report) {
  Html body;
  add_top(body, report);
  {
    const auto frame = body.in("div", {{"class", "frame"}});
    add_navigation(body, links_of(report));
    const auto main = body.in("main");
    for (const ReportedInvocation& invocation : report.invocations) {
      if (!invocation.is_brief) add_invocation_section(body, report, invocation);
    }
    add_brief(body, report);
    add_others(body, report);
    {
      const auto section = body.in("section", {{"id", "program"}});
      body.add("h2", "Program and machine");
      add_program(body, report.shown["run"]);
    }
    add_reproduce(body, report);
  }
  return page_of_html(fmt::format("{}: {}", std::filesystem::path(report.capture).filename().string(),
                                  report.conclusion.verdict.summary),
                      body);
}

namespace {

void add_top(Html& html, const Json& verdict, size_t captures) {
  const Chip grade = chip_of(verdict["grade"].get<std::string>(), !verdict["causes"].empty());
  const auto header = html.in("header", {{"class", std::string("top ") + grade.style}});
  {
    const auto line = html.in("p", {{"class", "brand"}});
    html.add("span", "msda-replay");
    html.add("span", fmt::format("{} captures", captures));
  }
  {
    const auto chips = html.in("p", {{"class", "chips"}});
    add_chip(html, grade.style, grade.word);
    for (const auto& [cause, count] : verdict["causes"].items())
      add_chip(html, "cause", fmt::format("{} {}", cause, thousands(count)));
  }
  add_headline(html, verdict["summary"]);
}

std::string value_text(const Json& number) {
  return number.is_number() ? fmt::format("{:.9g}", number.get<double>()) : number.get<std::string>();
}

using PageOf = std::map<std::string, std::string>;

// A group of all captures.
void add_joined_group(Html& html, const Json& group, const PageOf& page_of) {
  const GroupTitle title{group["cause"],  at_fault_of(group["at_fault"]), group.contains("advisory"), group["count"],
                         group["tensor"], group["tolerance_given"]};
  const auto card = html.in("article", {{"class", fmt::format("group {}", replay::grade_of(title))}});
  {
    const auto chips = html.in("p", {{"class", "chips"}});
    add_chip(html, replay::grade_of(title), replay::grade_of(title));
    add_chip(html, "cause", title.cause);
    add_chip(html, "plain",
             fmt::format("{} capture{}", group["captures"].size(), group["captures"].size() == 1 ? "" : "s"));
  }
  html.add("h4", heading_of(title));
  const Json& worst = group["worst"];
  {
    const auto list = html.in("dl", {{"class", "described"}});
    const auto add = [&](const char* name, const std::string& text) {
      html.add("dt", name);
      html.add("dd", text);
    };
    html.add("dt", "worst");
    {
      const auto text = html.in("dd");
      html.add("code", fmt::format("{}[{}]", title.tensor, fmt::join(worst["index"].get<std::vector<int64_t>>(), ",")));
      html.text(fmt::format(", invocation {} of ", worst["invocation"].get<int64_t>()));
      const auto capture = worst["capture"].get<std::string>();
      add_capture_name(html, capture, page_of.at(capture));
    }
    add("values", fmt::format("recorded {}, {} {}", value_text(worst["observed"]), worst["against"].get<std::string>(),
                              value_text(worst["expected"])));
    add("why", worst["why"]);
    add("what to do", group["help"]);
  }
  const auto details = html.in("details", {{"class", "evidence"}});
  html.add("summary", "The captures");
  const auto list = html.in("ul");
  for (const Json& from : group["captures"]) {
    const auto item = html.in("li");
    const auto capture = from["capture"].get<std::string>();
    add_capture_name(html, capture, page_of.at(capture));
    html.text(": " + elements_text(from["count"]));
  }
}

// Returns which process, and which tests, a capture comes from.
std::string origin_of(const Json& capture) {
  std::vector<std::string> whose;
  if (capture.contains("rank")) whose.push_back("rank " + plain_text(capture["rank"]));
  if (capture.contains("labels")) whose.push_back(plain_text(capture["labels"]));
  return fmt::format("{}", fmt::join(whose, ", "));
}

// Returns the badge of a survey, or of a verdict.
Chip chip_of_capture(const Json& judged, bool is_survey) {
  const auto grade = judged["grade"].get<std::string>();
  if (!is_survey) return chip_of(grade, !judged["causes"].empty());
  return {chip_of(grade, false).style, judged["varying"] > 0 ? "Varies" : "Steady"};
}

void add_capture_row(Html& html, const Json& capture, const std::string& page) {
  const bool read = !capture.contains("error");
  const auto row = html.in("tr");
  {
    const auto cell = html.in("td");
    add_capture_name(html, capture["capture"], page);
    if (const std::string origin = origin_of(capture); !origin.empty()) {
      html.add("div", {{"class", "quiet"}}, origin);
    }
  }
  const bool is_survey = capture.contains("survey");
  const Json& judged = read ? capture[is_survey ? "survey" : "verdict"] : capture;
  {
    const Chip grade = read ? chip_of_capture(judged, is_survey) : Chip{"error", "Not read"};
    const auto cell = html.in("td");
    add_chip(html, grade.style, grade.word);
  }
  html.add("td", {{"class", "wrap"}}, judged[read ? "summary" : "error"].get<std::string>());
}

// What was found in the captures without a survey.
void add_joined_findings(Html& html, const Json& joined, const PageOf& page_of) {
  const auto section = html.in("section", {{"id", "findings"}});
  html.add("h2", "Findings");
  if (joined["verdict"]["grade"] == name_of(Grade::kGood)) {
    html.add("p", {{"class", "note good"}}, "Nothing is out of tolerance.");
  } else if (joined["groups"].empty()) {
    html.add("p", {{"class", "note"}}, "Nothing was found out of tolerance in what could be read and compared.");
  }
  for (const Json& group : joined["groups"]) add_joined_group(html, group, page_of);
}

}  // namespace

std::string html_of_index(const Json& joined, const Json& surveys, const std::vector<std::string>& pages,
                          const std::string& version) {
  const Json& captures = joined["captures"];
  PageOf page_of;
  for (size_t i = 0; i < captures.size(); ++i) page_of[captures[i]["capture"]] = pages[i];
  const auto is_survey = [](const Json& capture) { return capture.contains("survey"); };
  const bool has_surveys = std::ranges::any_of(captures, is_survey);
  const bool has_others = !std::ranges::all_of(captures, is_survey);
  std::vector<Link> links{{"captures", "Captures"}};
  if (has_surveys) links.push_back({"surveys", "What varies"});
  if (has_others) links.push_back({"findings", "Findings"});
  Html body;
  add_top(body, joined["verdict"], captures.size());
  {
    const auto frame = body.in("div", {{"class", "frame"}});
    add_navigation(body, links);
    const auto main = body.in("main");
    {
      const auto section = body.in("section", {{"id", "captures"}});
      body.add("h2", "Captures");
      const auto scroll = body.in("div", {{"class", "scroll"}, {"tabindex", "0"}});
      const auto table = body.in("table", {{"class", "captures"}});
      for (size_t i = 0; i < captures.size(); ++i) add_capture_row(body, captures[i], pages[i]);
    }
    if (has_surveys) {
      const auto section = body.in("section", {{"id", "surveys"}});
      body.add("h2", "What varies");
      add_joined_surveys(body, surveys, page_of);
    }
    if (has_others) add_joined_findings(body, joined, page_of);
    body.add("p", {{"class", "quiet"}}, "Reported with msda-replay " + version + ".");
  }
  return page_of_html(joined["verdict"]["summary"], body);
}

}  // namespace msda::replay
