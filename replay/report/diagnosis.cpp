#include "replay/report/diagnosis.h"

#include <fmt/format.h>

#include "replay/base/words.h"
#include "replay/report/help.h"

namespace msda::replay {

using analysis::AtFault;
using analysis::Finding;
using analysis::Group;

namespace {

void add_example(Page& page, const char* label, const Finding& f, const InvocationResult& result) {
  std::string where = fmt::format("{}: {}", element_name(f), place_of(f, result));
  if (f.count > 1) where += fmt::format(", and {} after it", count_text(f.count - 1, "element"));
  page.labelled(label, {{where}});
  page.labelled("what", {{values_text(f, result)}});
  page.labelled("why", {{f.why}});
}

// Further examples for --verbose.
void add_more_examples(Page& page, const Group& group, const InvocationResult& result) {
  constexpr size_t kMost = 4;
  size_t shown = 0;
  for (size_t i = 0; i < result.report.findings.size() && shown < kMost; ++i) {
    const Finding& f = result.report.findings[i];
    if (i == group.farthest || !group.contains(f)) continue;
    add_example(page, "also", f, result);
    ++shown;
  }
}

}  // namespace

void add_title(Page& page, const GroupTitle& group) {
  const bool wrong = group.at_fault == AtFault::kObserved || group.at_fault == AtFault::kReference;
  const Style style = group.advisory ? Style::kLabel : wrong ? Style::kWrong : Style::kDoubtful;
  page.paragraph({{style, fmt::format("{}[{}]", grade_of(group), group.cause)},
                  {Style::kBold, ":"},
                  {" "},
                  {Style::kBold, title_of(group)}},
                 0, 2);
}

void add_diagnosis(Page& page, const Group& group, const InvocationResult& result, const ReportSettings& settings,
                   bool several) {
  const Finding& farthest = result.report.findings[group.farthest];
  add_title(page, {name_of(group.cause), group.at_fault, group.advisory, group.elements, name_of(group.gradient),
                   result.tolerance.has_value()});
  const std::string what = patterns_of(group);
  // A finding may stand for all elements of the group, as they lie one behind the other.
  const bool is_described = group.elements > farthest.count || (group.elements > 1 && !what.empty());
  if (is_described) {
    page.labelled("where", {{whereabouts_of(group, result)}});
    if (!what.empty()) page.labelled("what", {{what}});
  }
  add_example(page, is_described ? "worst" : "where", farthest, result);
  if (settings.verbose) add_more_examples(page, group, result);
  const GroupHelp help = help_for(group, result);
  page.labelled("help", {{help.text}});
  if (!help.type.empty()) page.line(help.type, 9);
  if (help.shows_stages) {
    const std::string invocation = several ? fmt::format(" --invocation {}", result.invocation.id) : "";
    page.line(fmt::format("msda-replay stages {}{} --element '{}'", settings.capture_flags, invocation,
                          element_name(farthest)),
              9);
  }
}

}  // namespace msda::replay
