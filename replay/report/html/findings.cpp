#include "replay/report/html/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "replay/base/json.h"
#include "replay/report/help.h"
#include "replay/report/html/drawings.h"

namespace msda::replay {

using analysis::Finding;
using analysis::Group;
using analysis::thousands;

namespace {

GroupTitle title_for(const Group& group, const InvocationResult& result) {
  return {name_of(group.cause), group.at_fault,          group.advisory,
          group.elements,       name_of(group.gradient), result.tolerance.has_value()};
}

// A row of a description list.
void add_row(Html& html, const char* name, const std::string& text) {
  if (text.empty()) return;
  html.add("dt", name);
  html.add("dd", text);
}

void add_drawings(Html& html, const Finding& finding, const SampleView& sample, const PixelView* pixel) {
  const auto drawings = html.in("div", {{"class", "drawings"}});
  draw_cells(html, finding, sample);
  draw_jump(html, finding);
  if (pixel != nullptr) draw_pixel(html, *pixel);
}

// Returns what a list of facts shows of a number, a text, or a list of them.
std::string plain(const analysis::Evidence& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{:.9g}", value.get<double>());
  return line_of(value);
}

bool is_table(const analysis::Evidence& value) {
  return value.is_array() && !value.empty() && value.front().is_object();
}

// A list of objects as a table, a column for each.
void add_sides(Html& html, const analysis::Evidence& objects) {
  const auto scroll = html.in("div", {{"class", "scroll"}});
  const auto table = html.in("table", {{"class", "evidence"}});
  std::vector<std::string> names;
  for (const auto& object : objects) {
    for (const auto& [name, value] : object.items()) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  for (const std::string& name : names) {
    const auto row = html.in("tr");
    html.add("th", {{"scope", "row"}}, name);
    for (const auto& object : objects) html.add("td", object.contains(name) ? plain(object[name]) : "");
  }
}

void add_evidence(Html& html, const Finding& finding) {
  if (finding.evidence.empty()) return;
  const auto details = html.in("details", {{"class", "evidence"}});
  html.add("summary", "Evidence");
  {
    const auto list = html.in("dl", {{"class", "facts"}});
    for (const auto& [name, value] : finding.evidence.items()) {
      if (is_table(value)) continue;
      constexpr size_t kMost = 400;
      std::string text = plain(value);
      if (text.size() > kMost) text = text.substr(0, kMost) + " ... (all of it: --json)";
      html.add("dt", name);
      html.add("dd", {{"class", "mono"}}, text);
    }
  }
  for (const auto& [name, value] : finding.evidence.items()) {
    if (is_table(value)) add_sides(html, value);
  }
}

// Apart, and what is allowed.
void add_values(Html& html, const Finding& finding, const InvocationResult& result) {
  const auto scroll = html.in("div", {{"class", "scroll"}});
  const auto table = html.in("table", {{"class", "values"}});
  const auto add = [&](const char* style, const std::string& name, const std::string& number) {
    const auto row = html.in("tr", {{"class", style}});
    html.add("th", {{"scope", "row"}}, name);
    html.add("td", number);
  };
  add("observed-row", "recorded", fmt::format("{:.9g}", finding.observed));
  add("expected-row", finding.against, fmt::format("{:.9g}", finding.expected));
  if (finding.against != "float64") add("", "float64", fmt::format("{:.9g}", finding.float64));
  add("", "apart", fmt::format("{:.3g}", std::abs(finding.observed - finding.expected)));
  if (result.tolerance) {
    add("", "allowed",
        fmt::format("{:.3g}", result.tolerance->atol + result.tolerance->rtol * std::abs(finding.expected)));
  }
}

void add_group(Html& html, const InvocationResult& result, const ListedFinding& worst, const FindingsPlace& place) {
  const Group& group = result.report.groups[worst.group];
  const Finding& finding = result.report.findings[worst.finding];
  const GroupTitle title = title_for(group, result);
  const bool several = group.elements > finding.count;
  const auto card = html.in("article", {{"class", fmt::format("group {}", grade_of(title))},
                                        {"id", fmt::format("{}-group{}", place.prefix, worst.group)}});
  {
    const auto chips = html.in("p", {{"class", "chips"}});
    add_chip(html, grade_of(title), grade_of(title));
    add_chip(html, "cause", title.cause);
    add_chip(html, "plain", fmt::format("at fault: {}", party_of(group.at_fault, title.tolerance_given)));
  }
  html.add("h4", heading_of(title));
  {
    const auto columns = html.in("div", {{"class", "worst"}});
    {
      const auto list = html.in("dl", {{"class", "described"}});
      if (several) {
        add_row(html, "where", whereabouts_of(group, result));
        add_row(html, "how", patterns_of(group));
      }
      html.add("dt", several ? "worst" : "element");
      {
        const auto text = html.in("dd");
        html.add("code", element_name(finding));
        html.text(" " + place_of(finding, result));
      }
      add_row(html, "why", finding.why);
      html.add("dt", "what to do");
      const auto text = html.in("dd");
      const Help help = help_for(group, result);
      html.text(help.text);
      if (help.stages) {
        add_command(html, fmt::format("msda-replay stages {} --element '{}'", place.commands, element_name(finding)));
      }
    }
    add_values(html, finding, result);
  }
  add_drawings(html, finding, worst.sample, worst.pixel ? &*worst.pixel : nullptr);
  add_evidence(html, finding);
}

// One element of the list, closed at first.
void add_element(Html& html, const InvocationResult& result, const ListedFinding& listed, const FindingsPlace& place) {
  const Finding& finding = result.report.findings[listed.finding];
  const std::string cause = name_of(finding.cause), name = element_name(finding);
  const auto details = html.in("details", {{"class", "finding"},
                                           {"id", fmt::format("{}-{}", place.prefix, listed.finding)},
                                           {"data-tensor", name_of(finding.gradient)},
                                           {"data-cause", cause}});
  {
    const auto summary = html.in("summary");
    {
      const auto element = html.in("span", {{"class", "element mono"}});
      html.text(name);
      if (finding.count > 1) html.text(fmt::format(" and {} more", thousands(finding.count - 1)));
    }
    {
      const auto chips = html.in("span", {{"class", "chips"}});
      add_chip(html, finding.advisory ? "note" : "cause", finding.advisory ? cause + ", advice" : cause);
    }
    html.add("span", {{"class", "number"}}, fmt::format("{:.7g}", finding.observed));
    html.add("span", {{"class", "number"}}, fmt::format("{:.7g}", finding.expected));
    html.add("span", {{"class", "number"}}, fmt::format("{:.3g}", std::abs(finding.observed - finding.expected)));
  }
  {
    const auto list = html.in("dl", {{"class", "described"}});
    add_row(html, "where", place_of(finding, result));
    add_row(html, "values", values_text(finding, result));
    add_row(html, "why", finding.why);
    add_row(html, "at fault", party_of(finding.at_fault, result.tolerance.has_value()));
  }
  add_drawings(html, finding, listed.sample, listed.pixel ? &*listed.pixel : nullptr);
  add_evidence(html, finding);
}

// Buttons that show the elements of one tensor or cause alone.
void add_filters(Html& html, const InvocationResult& result, const Pictures& pictures) {
  std::vector<std::string> tensors, causes;
  const auto note = [](std::vector<std::string>& names, const char* name) {
    if (std::ranges::find(names, name) == names.end()) names.emplace_back(name);
  };
  for (const ListedFinding& listed : pictures.listed) {
    const Finding& finding = result.report.findings[listed.finding];
    note(tensors, name_of(finding.gradient));
    note(causes, name_of(finding.cause));
  }
  const auto bar = html.in("div", {{"class", "filters"}, {"hidden", ""}});
  {
    const auto search = html.in("label", {{"class", "search"}});
    html.add("span", "Filter");
    html.empty("input", {{"type", "search"}, {"placeholder", "index, place, reason"}, {"autocomplete", "off"}});
  }
  const auto buttons = [&](const char* what, const std::vector<std::string>& names) {
    if (names.size() < 2) return;
    const auto group = html.in("span", {{"class", "choices"}, {"role", "group"}, {"aria-label", what}});
    for (const std::string& name : names) {
      html.add("button", {{"type", "button"}, {"aria-pressed", "false"}, {"data-key", what}, {"data-value", name}},
               name);
    }
  };
  buttons("tensor", tensors);
  buttons("cause", causes);
  html.add("span", {{"class", "quiet shown"}, {"role", "status"}}, "");
  const auto keys = html.in("span", {{"class", "quiet keys"}});
  for (const auto& [key, text] :
       {std::pair{"j", ""}, {"k", " next, previous "}, {"Enter", " open "}, {"/", " filter"}}) {
    html.add("kbd", key);
    html.text(text);
  }
}

}  // namespace

std::string heading_of(const GroupTitle& title) {
  std::string heading = title_of(title);
  heading.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(heading.front())));
  return heading;
}

void add_chip(Html& html, const std::string& kind, const std::string& text) {
  html.add("span", {{"class", "chip " + kind}}, text);
}

void add_command(Html& html, const std::string& command) {
  const auto pre = html.in("pre", {{"class", "command"}, {"tabindex", "0"}});
  html.add("code", command);
}

void add_groups(Html& html, const InvocationResult& result, const Pictures& pictures, const FindingsPlace& place) {
  const auto& groups = result.report.groups;
  int64_t advised = 0, reported = 0;
  for (const ListedFinding& listed : pictures.listed) {
    const Group& group = groups[listed.group];
    if (listed.finding != group.farthest) continue;
    if (const int64_t known = group.advisory ? reported_elsewhere(group, groups) : 0; known > 0) {
      advised += group.elements;
      reported += known;
      continue;
    }
    add_group(html, result, listed, place);
  }
  if (reported == 0) return;
  html.add("p", {{"class", "quiet"}},
           fmt::format("A test against grid_sample in float32 fails in {}, {} above for the same cause.",
                       elements_text(advised),
                       reported == advised ? "reported" : thousands(reported) + " of them reported"));
}

void add_elements(Html& html, const InvocationResult& result, const Pictures& pictures, const FindingsPlace& place) {
  int64_t all = 0, shown = 0;
  for (const Group& group : result.report.groups) all += group.elements;
  for (const ListedFinding& listed : pictures.listed) shown += result.report.findings[listed.finding].count;
  const auto section = html.in("section", {{"class", "elements"}, {"id", place.prefix + "-elements"}});
  html.add("h3", "Elements");
  html.add("p", {{"class", "quiet"}},
           shown >= all
               ? fmt::format("{} out of tolerance, advice included.", elements_text(all))
               : fmt::format("{} of {} out of tolerance, advice included: of each group the worst, and others spread "
                             "over it. run --json has the indices of all.",
                             thousands(shown), elements_text(all)));
  add_filters(html, result, pictures);
  const auto list = html.in("div", {{"class", "list"}});
  {
    const auto head = html.in("div", {{"class", "list-head"}, {"aria-hidden", "true"}});
    for (const char* name : {"element", "cause"}) html.add("span", name);
    for (const char* name : {"recorded", "expected", "apart"}) html.add("span", {{"class", "number"}}, name);
  }
  for (const ListedFinding& listed : pictures.listed) add_element(html, result, listed, place);
}

}  // namespace msda::replay
