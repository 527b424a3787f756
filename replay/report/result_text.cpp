// The result of `run` as text: the verdict, then a diagnosis of each group of elements out of tolerance.
#include "replay/report/result_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "recorder/text/words.h"
#include "replay/base/words.h"
#include "replay/calls/conventions.h"
#include "replay/calls/damage.h"
#include "replay/calls/load_operator.h"
#include "replay/calls/operator_row.h"
#include "replay/report/diagnosis.h"
#include "replay/report/words.h"

namespace msda::replay {

using analysis::Gradient;
using analysis::Group;
using analysis::NamedComparison;
using analysis::thousands;

namespace {

// A table for each gradient: a line for each pair of sides.
void append_tables(Lines& lines, const InvocationResult& result) {
  for (const Gradient gradient : result.call->gradients()) {
    Lines rows;
    for (const NamedComparison& c : result.report.comparisons) {
      if (c.gradient != gradient) continue;
      const std::string count =
          fmt::format("{} of {}", thousands(c.comparison.mismatched), thousands(c.comparison.total));
      rows.add("    {:<26} {:>20} {:>8.3g} {:>8.3g} {:>9}", fmt::format("{} : {}", c.observed, c.expected), count,
               c.comparison.max_abs, c.comparison.max_rel, ulp_text(c.comparison.max_ulp));
      if (c.comparison.mismatched > 0) rows.add("      worst: [{}]", fmt::join(c.worst_index, ","));
    }
    if (rows.empty()) continue;
    lines.blank();
    lines.add("  {:<28} {:>20} {:>8} {:>8} {:>9}", name_of(gradient), "out of tolerance", "max abs", "max rel",
              "max ULP");
    lines.append(rows);
  }
}

// Where the replays ran, if not all on the CPU as they were to.
void append_whereabouts(Lines& lines, const InvocationResult& result) {
  std::map<std::string, std::vector<std::string>> by_device;
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const auto& [side, whereabouts] : result.whereabouts) {
    for (const std::string& device : whereabouts.devices) by_device[device].push_back(side);
    if (!whereabouts.why_moved.empty()) by_reason[whereabouts.why_moved].push_back(side);
  }
  if (by_reason.empty() && by_device.size() == 1 && by_device.contains("cpu")) return;
  lines.blank();
  for (const auto& [device, sides] : by_device) lines.add("  on {}: {}", device, fmt::join(sides, ", "));
  for (const auto& [reason, sides] : by_reason) {
    lines.add("  not on a GPU: {}: {}", fmt::join(sides, ", "), reason);
  }
}

void append_repeats(Lines& lines, const InvocationResult& result) {
  for (const auto& [mode, repeats] : result.repeats) {
    if (mode == "original") continue;  // reported above, in more detail
    std::string gradients;
    for (const Gradient gradient : result.call->gradients()) {
      const auto at = gradient.place();
      gradients += fmt::format(" {} {} (spread {:.3g})", name_of(gradient),
                               text::counted(repeats.distinct[at], "result"), repeats.spread[at]);
    }
    lines.add("  {} runs of {}:{}", repeats.runs, mode, gradients);
  }
}

void append_recorded_order(Lines& lines, const InvocationResult& result) {
  for (const RecordedOrder& order : result.recorded_order) {
    const bool all = order.in_order == order.pixels, equal = order.equal == order.total;
    lines.blank();
    lines.add(
        "  recorded_order: {}: the order of additions was found for {} of {} pixels{}; {} of {} elements have the "
        "recorded bits{}",
        name_of(order.gradient), thousands(order.in_order), thousands(order.pixels),
        all ? "" : ", the others are added in the order of the samples", thousands(order.equal), thousands(order.total),
        equal ? ": an exact replay" : "");
  }
}

// Adds a note on advice that concerns elements reported above.
void add_note(Page& page, int64_t elements, int64_t reported) {
  if (reported == 0) return;
  page.blank();
  page.paragraph(
      {{Style::kLabel, "note"},
       {Style::kBold, ":"},
       {fmt::format(" a test against {} in float32 fails in {}, {} above for the same cause", dialect_of_tests(),
                    count_text(elements, "element"),
                    reported == elements ? "reported" : fmt::format("{} of them reported", thousands(reported)))}},
      0, 2);
}

void add_diagnoses(Page& page, const InvocationResult& result, const ReportSettings& settings, bool several) {
  const auto& groups = result.report.groups;
  int64_t advised = 0, reported = 0;
  for (const Group& group : groups) {
    if (const int64_t known = group.advisory ? reported_elsewhere(group, groups) : 0; known > 0) {
      advised += group.elements;
      reported += known;
      continue;
    }
    page.blank();
    add_diagnosis(page, group, result, settings, several);
  }
  add_note(page, advised, reported);
}

void add_heading(Page& page, const InvocationResult& result) {
  const capture::CallFacts& facts = result.invocation.facts;
  const std::string line = source_line_of(result.invocation);
  page.paragraph(
      {{Style::kBold, fmt::format("Invocation {}:", result.invocation.id)},
       {" "},
       {fmt::format("{}, {}{}{}, {}", facts.kernel.empty() ? "(kernel not named)" : facts.kernel, line,
                    line.empty() ? "" : ", ", operator_and_conventions(result.invocation), tolerance_text(result))}},
      0, 2);
  page.paragraph({{result.call->text_of_sizes()}}, 2, 2);
}

// Returns whether there is more to report than that it is within tolerance.
bool has_news(const InvocationResult& result) {
  return !result.report.groups.empty() || !result.altered.empty() || !result.compared || result.original ||
         !result.report.biases.empty() || !result.repeats.empty() || !result.notes.empty() ||
         !result.recorded_order.empty();
}

void add_invocation(Page& page, const InvocationResult& result, const ReportSettings& settings, bool several) {
  page.blank();
  add_heading(page, result);
  page.append(warnings(result.altered));
  if (!result.compared) page.line("nothing to compare: it has no gradients in its outputs", 2);
  for (const std::string& note : result.notes) {
    page.paragraph({{Style::kLabel, "note"}, {Style::kBold, ":"}, {" "}, {note}}, 2, 4);
  }
  for (size_t i = 0; several && i < result.report.biases.size(); ++i) {
    page.paragraph({{Style::kLabel, "note"}, {Style::kBold, ":"}, {" "}, {text_of(result.report.biases[i])}}, 2, 4);
  }
  Lines lines;
  if (settings.verbose) append_tables(lines, result);
  append_whereabouts(lines, result);
  if (result.original) {
    lines.blank();
    lines.append(to_text(*result.original));
  }
  if (result.poison) lines.append(to_text(*result.poison));
  append_repeats(lines, result);
  append_recorded_order(lines, result);
  page.append(lines);
  add_diagnoses(page, result, settings, several);
}

// "0-3, 7"
std::string ids_text(const std::vector<int64_t>& ids) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < ids.size();) {
    size_t end = i + 1;
    while (end < ids.size() && ids[end] == ids[end - 1] + 1) ++end;
    texts.push_back(end - i > 1 ? fmt::format("{}-{}", ids[i], ids[end - 1]) : std::to_string(ids[i]));
    i = end;
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

// Adds one line for the invocations that have nothing more to report.
void add_the_rest(Page& page, const std::vector<int64_t>& ids) {
  if (ids.empty()) return;
  page.blank();
  page.paragraph({{Style::kBold, fmt::format("{} {}:", text::plural(std::ssize(ids), "Invocation"), ids_text(ids))},
                  {" within tolerance (--verbose prints the comparisons)"}},
                 0, 2);
}

void add_invocations(Page& page, const std::vector<InvocationResult>& results, const ReportSettings& settings) {
  constexpr size_t kMostInFull = 20;
  std::vector<int64_t> quiet, further;
  size_t shown = 0;
  for (const InvocationResult& result : results) {
    if (!settings.verbose && !has_news(result) && results.size() > 1) {
      quiet.push_back(result.invocation.id);
    } else if (!settings.verbose && shown >= kMostInFull) {
      further.push_back(result.invocation.id);
    } else {
      add_invocation(page, result, settings, results.size() > 1);
      ++shown;
    }
  }
  if (!further.empty()) {
    page.blank();
    page.paragraph({{Style::kBold, fmt::format("Invocations {}:", ids_text(further))},
                    {" there is more to report of these (--verbose, --json or --invocation)"}},
                   0, 2);
  }
  add_the_rest(page, quiet);
}

Style style_of(const Conclusion& conclusion) {
  const Grade grade = grade_of(conclusion);
  return grade == Grade::kWrong ? Style::kWrong : grade == Grade::kGood ? Style::kGood : Style::kDoubtful;
}

// Once for each reason.
void append_left_out(Lines& lines, const std::vector<InvocationResult>& results) {
  std::map<std::string, std::vector<int64_t>> by_reason;
  for (const auto& result : results) {
    if (!result.original_left_out.empty()) by_reason[result.original_left_out].push_back(result.invocation.id);
  }
  for (const auto& [reason, ids] : by_reason) {
    const std::string which =
        ids.size() == results.size() ? "" : fmt::format(" of invocation {}", fmt::join(ids, ", "));
    lines.blank();
    lines.add("Mode original{} is left out: {}", which, reason);
  }
}

}  // namespace

Lines to_text(const std::vector<NotReplayed>& not_replayed) {
  Lines lines;
  for (const auto& [id, why] : not_replayed) lines.add("Invocation {}: not replayed: {}", id, why);
  return lines;
}

Page to_text(const std::string& capture, const std::vector<InvocationResult>& results,
             const std::vector<Relaunched>& relaunched, const std::vector<NotReplayed>& not_replayed,
             const Conclusion& conclusion, const ReportSettings& settings) {
  Page page(settings.terminal);
  const std::string summary = headline(conclusion.verdict.summary, conclusion.damaged);
  if (settings.quiet) {
    page.line(summary);
    return page;
  }
  page.paragraph({{style_of(conclusion), summary}});
  const std::string_view party = party_of(conclusion.verdict.at_fault, conclusion.verdict.tolerance_given);
  page.paragraph({{fmt::format("{}{}", text::unbroken("--> " + capture),
                               party == "nobody" ? "" : fmt::format(", at fault: {}", party))}},
                 1, 5);
  add_invocations(page, results, settings);
  page.append(to_text(relaunched));
  if (!not_replayed.empty()) {
    page.blank();
    page.append(to_text(not_replayed));
  }
  Lines left_out;
  append_left_out(left_out, results);
  page.append(left_out);
  return page;
}

}  // namespace msda::replay
