#include "replay/report/joined.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "recorder/text/shell.h"
#include "recorder/text/words.h"
#include "replay/base/errors.h"
#include "replay/base/json.h"
#include "replay/base/words.h"
#include "replay/calls/operator_row.h"

namespace msda::replay {

using analysis::AtFault;
using analysis::thousands;

namespace {

// What groups must have in common to be joined: members of a group, and of its invocation.
constexpr std::initializer_list<const char*> kOfGroup = {"tensor", "cause", "at_fault", "advisory"};
constexpr std::initializer_list<const char*> kOfHelp = {"help", "type", "stages"};

// Returns the members of an invocation: operator, kernel, and the conventions that do not differ with the sizes of a
// call.
const std::vector<std::string>& grouping_members() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> names{"operator", "kernel"};
    for (const OperatorRow& row : operator_rows()) {
      for (const ConventionRow& convention : row.conventions) {
        if (convention.groups && std::ranges::find(names, convention.name) == names.end()) {
          names.push_back(convention.name);
        }
      }
    }
    return names;
  }();
  return all;
}

bool is_advice(const Json& group) { return group.contains("advisory"); }

// Copies what is there.
template <class Names = std::initializer_list<const char*>>
void copy_some(const Json& from, Json& to, const Names& names) {
  for (const auto& name : names) {
    if (from.contains(name)) to[name] = from[name];
  }
}

bool same_place(const Json& a, const Json& b) {
  const auto is_same = [&](const std::string& name) {
    return a.contains(name) == b.contains(name) && (!a.contains(name) || a[name] == b[name]);
  };
  return std::ranges::all_of(kOfGroup, is_same) && std::ranges::all_of(grouping_members(), is_same) &&
         is_same("tolerance_given");
}

// Keeps what both share.
void keep_shared(Json& shared, const Json& added) {
  for (auto it = shared.begin(); it != shared.end();) {
    it = added.contains(it.key()) && added[it.key()] == it.value() ? std::next(it) : shared.erase(it);
  }
}

double distance(const Json& worst) {
  const auto& observed = worst["observed"];
  const auto& expected = worst["expected"];
  if (!observed.is_number() || !expected.is_number()) return HUGE_VAL;  // NaN and infinities
  return std::abs(observed.get<double>() - expected.get<double>());
}

// Returns the part of a capture's outcome that says which capture it is.
Json origin(const Json& outcome, int64_t count) {
  Json from = {{"capture", outcome["capture"]}, {"count", count}};
  copy_some(outcome, from, {"rank", "labels"});
  return from;
}

// Advice on a tensor for a cause for which it is out of tolerance anyway.
bool is_reported_otherwise(const Json& group, const Json& groups) {
  return is_advice(group) && std::any_of(groups.begin(), groups.end(), [&](const Json& candidate) {
           return !is_advice(candidate) && candidate["tensor"] == group["tensor"] &&
                  candidate["cause"] == group["cause"];
         });
}

void join_group(Json& groups, const Json& outcome, const Json& group) {
  const auto known =
      std::find_if(groups.begin(), groups.end(), [&](const Json& candidate) { return same_place(candidate, group); });
  const auto count = group["count"].get<int64_t>();
  Json worst = group["worst"];
  worst["capture"] = outcome["capture"];
  if (known == groups.end()) {
    Json first = group;
    first["worst"] = std::move(worst);
    first["captures"] = Json::array({origin(outcome, count)});
    groups.push_back(std::move(first));
    return;
  }
  Json& into = *known;
  into["count"] = into["count"].get<int64_t>() + count;
  keep_shared(into["shared"], group["shared"]);
  if (distance(worst) > distance(into["worst"])) {
    into["worst"] = std::move(worst);
    for (const char* member : kOfHelp) into.erase(member);
    copy_some(group, into, kOfHelp);
  }
  Json& captures = into["captures"];
  if (captures.back()["capture"] == outcome["capture"]) {
    captures.back()["count"] = captures.back()["count"].get<int64_t>() + count;
  } else {
    captures.push_back(origin(outcome, count));
  }
}

// The gravest first, advice last; then what is in the most captures.
void sort_groups(Json& groups) {
  const auto rank = [](const Json& group) {
    return std::tuple(is_advice(group), at_fault_of(group["at_fault"]),
                      -static_cast<int64_t>(group["captures"].size()));
  };
  std::stable_sort(groups.begin(), groups.end(), [&](const Json& a, const Json& b) { return rank(a) < rank(b); });
}

// `surveys`: captures whose survey is shown; `varying`: those in which a kernel varies.
std::string surveys_text(int64_t surveys, int64_t varying) {
  return fmt::format("Kernels vary in {} of {} {}.", thousands(varying), thousands(surveys),
                     text::plural(surveys, "survey"));
}

std::string summary_of(int64_t captures, int64_t drifting, int64_t faulty, int64_t unread, int64_t not_compared,
                       const std::string& of_surveys) {
  std::string text = fmt::format("{} of {} out of tolerance.", thousands(drifting), count_text(captures, "capture"));
  if (!of_surveys.empty()) text = captures == 0 ? of_surveys : text + " " + of_surveys;
  if (faulty > 0) text += fmt::format(" {} with a race or reads of unwritten memory.", count_text(faulty, "capture"));
  if (not_compared > 0) text += fmt::format(" {} with nothing to compare.", count_text(not_compared, "capture"));
  if (unread > 0) text += fmt::format(" {} could not be read or judged.", count_text(unread, "capture"));
  return text;
}

Json verdict_of(const Json& captures) {
  AtFault gravest = AtFault::kNone;
  Grade worst = Grade::kGood;
  Json causes = Json::object();
  int64_t drifting = 0, faulty = 0, unread = 0, not_compared = 0, surveys = 0, varying = 0;
  for (const Json& capture : captures) {
    if (capture.contains("survey")) {
      ++surveys;
      varying += capture["status"] == kDrift;
      worst = std::max(worst, capture["survey"]["grade"].get<Grade>());
      continue;
    }
    if (capture.contains("error")) {
      ++unread;
      worst = std::max(worst, Grade::kUndecided);
      continue;
    }
    worst = std::max(worst, capture["verdict"]["grade"].get<Grade>());
    faulty += capture["status"] == kDrift && capture["verdict"]["causes"].empty();  // by --poison alone
    gravest = std::min(gravest, at_fault_of(capture["verdict"]["at_fault"]));
    not_compared += !capture["verdict"]["compared"].get<bool>();
    drifting += !capture["verdict"]["causes"].empty();
    for (const auto& [cause, count] : capture["verdict"]["causes"].items()) {
      causes[cause] = causes.value(cause, int64_t{0}) + count.get<int64_t>();
    }
  }
  const std::string of_surveys = surveys > 0 ? surveys_text(surveys, varying) : "";
  const auto all = static_cast<int64_t>(captures.size()) - surveys;
  return {{"at_fault", name_of(gravest)},
          {"summary", summary_of(all, drifting, faulty, unread, not_compared, of_surveys)},
          {"out_of_tolerance", drifting},
          {"unread", unread},
          {"grade", worst},
          {"causes", causes}};
}

std::string origin_text(const Json& from) {
  std::vector<std::string> whose;
  if (from.contains("rank")) whose.push_back(fmt::format("rank {}", from["rank"]));
  if (from.contains("labels")) {
    const Json& labels = from["labels"];
    whose.push_back(labels.front().get<std::string>());
    if (labels.size() > 1) whose.back() += fmt::format(" and {} more", labels.size() - 1);
  }
  std::string text = text::unbroken(from["capture"].get<std::string>());
  if (!whose.empty()) text += fmt::format(" ({})", fmt::join(whose, ", "));
  return fmt::format("{}: {}", text, count_text(from["count"], "element"));
}

std::string worst_element(const Json& group) {
  return fmt::format("{}[{}]", group["tensor"], fmt::join(group["worst"]["index"].get<std::vector<int64_t>>(), ","));
}

void add_worst(Page& page, const Json& group) {
  const Json& worst = group["worst"];
  page.labelled("worst",
                {{fmt::format("{}, invocation {}: {}", worst["capture"], worst["invocation"], worst_element(group))}});
  const auto against = worst["against"].get<std::string>();
  std::string values =
      fmt::format("recorded {}, {} {}", number_text(worst["observed"]), against, number_text(worst["expected"]));
  if (against != "float64") values += fmt::format(", float64 {}", number_text(worst["float64"]));
  page.labelled("what", {{values}});
  page.labelled("why", {{worst["why"].get<std::string>()}});
}

std::string shared_text(const Json& shared) {
  std::vector<std::string> parts;
  for (const auto& [dimension, index] : shared.items()) {
    parts.push_back(index.is_string() ? index.get<std::string>()
                                      : fmt::format("{} {}", dimension, index.get<int64_t>()));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

void add_help(Page& page, const Json& group, const std::string& flags) {
  page.labelled("help", {{group["help"].get<std::string>()}});
  if (group.contains("type")) page.line(group["type"].get<std::string>(), 9);
  if (!group.contains("stages")) return;
  const Json& worst = group["worst"];
  page.line(fmt::format("msda-replay stages {} --invocation {}{} --element '{}'",
                        text::shell_word(worst["capture"].get<std::string>()), worst["invocation"], flags,
                        worst_element(group)),
            9);
}

void add_group_text(Page& page, const Json& group, const ReportSettings& settings) {
  constexpr size_t kMostListed = 8;
  const Json& captures = group["captures"];
  page.blank();
  add_title(page, {group["cause"], at_fault_of(group["at_fault"]), is_advice(group), group["count"], group["tensor"],
                   group["tolerance_given"]});
  const std::string shared = shared_text(group["shared"]);
  const auto kernel = group["kernel"].get<std::string>();
  page.labelled(
      "where", {{fmt::format("in {}{}{}", count_text(static_cast<int64_t>(captures.size()), "capture"),
                             shared.empty() ? "" : ", all in " + shared, kernel.empty() ? "" : ", kernel " + kernel)}});
  add_worst(page, group);
  add_help(page, group, settings.capture_flags);
  const size_t listed = settings.verbose ? captures.size() : std::min(captures.size(), kMostListed);
  page.labelled("in", {{origin_text(captures[0])}});
  for (size_t i = 1; i < listed; ++i) page.paragraph({{origin_text(captures[i])}}, 9, 11);
  if (listed < captures.size()) {
    page.line(fmt::format("and {} more (--verbose lists them, --json too)",
                          count_text(static_cast<int64_t>(captures.size() - listed), "capture")),
              9);
  }
}

}  // namespace

AtFault at_fault_of(const Json& name) {
  for (const AtFault party : {AtFault::kObserved, AtFault::kReference, AtFault::kConvention, AtFault::kTolerance}) {
    if (name == name_of(party)) return party;
  }
  return AtFault::kNone;
}

Json shortened(const Json& result) {
  Json outcome = {
      {"verdict", result["verdict"]}, {"invocations", result["invocations"].size()}, {"groups", Json::array()}};
  copy_some(result, outcome, {"not_replayed"});
  for (const Json& invocation : result["invocations"]) {
    for (const Json& group : invocation["groups"]) {
      if (is_reported_otherwise(group, invocation["groups"])) continue;
      Json kept;
      copy_some(group, kept, kOfGroup);
      copy_some(group, kept, {"count"});
      copy_some(invocation, kept, grouping_members());
      copy_some(group, kept, {"shared"});
      copy_some(group, kept, kOfHelp);
      kept["tolerance_given"] = !invocation["tolerance"].is_null();
      kept["worst"]["invocation"] = invocation["id"];
      copy_some(invocation["findings"][group["worst"].get<size_t>()], kept["worst"],
                {"index", "observed", "expected", "float64", "against", "why"});
      outcome["groups"].push_back(std::move(kept));
    }
  }
  return outcome;
}

Json join(const std::vector<Json>& outcomes) {
  Json joined = {{"captures", Json::array()}, {"verdict", Json::object()}, {"groups", Json::array()}};
  for (const Json& outcome : outcomes) {
    Json entry;
    copy_some(
        outcome, entry,
        {"capture", "status", "error", "verdict", "invocations", "not_replayed", "poison", "survey", "rank", "labels"});
    joined["captures"].push_back(std::move(entry));
    if (!outcome.contains("groups")) continue;
    for (const Json& group : outcome["groups"]) join_group(joined["groups"], outcome, group);
  }
  sort_groups(joined["groups"]);
  joined["verdict"] = verdict_of(joined["captures"]);
  return joined;
}

Page joined_text(const Json& joined, const ReportSettings& settings) {
  Page page(settings.terminal);
  const Json& verdict = joined["verdict"];
  const auto summary = verdict["summary"].get<std::string>();
  if (settings.quiet) {
    page.line(summary);
    return page;
  }
  const Grade grade = verdict["grade"];
  page.paragraph({{grade == Grade::kWrong  ? Style::kWrong
                   : grade == Grade::kGood ? Style::kGood
                                           : Style::kDoubtful,
                   summary}});
  for (const Json& group : joined["groups"]) add_group_text(page, group, settings);
  Lines lines;
  for (const Json& capture : joined["captures"]) {
    if (capture.contains("error") || !settings.verbose) continue;
    lines.add("{}: {}", capture["capture"], capture["verdict"]["summary"]);
  }
  if (!lines.empty()) page.blank();
  page.append(lines);
  if (!joined["groups"].empty()) {
    page.blank();
    page.line("msda-replay run CAPTURE reports all of one capture.");
  }
  return page;
}

}  // namespace msda::replay
