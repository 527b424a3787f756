#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <set>
#include <tuple>

#include "replay/damage.h"
#include "replay/result.h"

namespace msda::replay {

using analysis::Finding;
using analysis::Gradient;
using analysis::NamedComparison;

namespace {

// Findings printed in full of each invocation and cause; the rest is counted.
constexpr size_t kMostPrinted = 5;

std::string thousands(int64_t n) {
  std::string digits = std::to_string(n);
  for (int64_t at = static_cast<int64_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

// "batch 0, query 948, head 0, level 0 (64 x 64), point 2, x"
std::string place_of(const Finding& f, const InvocationResult& result) {
  const auto level_text = [&](int64_t l) {
    const auto& level = result.levels[static_cast<size_t>(l)];
    return fmt::format("level {} ({} x {})", l, level.height, level.width);
  };
  if (f.gradient == Gradient::kValue) {
    int64_t l = 0;
    while (l + 1 < static_cast<int64_t>(result.levels.size()) &&
           result.levels[static_cast<size_t>(l + 1)].start <= f.index[1])
      ++l;
    const auto& level = result.levels[static_cast<size_t>(l)];
    const int64_t pixel = f.index[1] - level.start;
    return fmt::format("batch {}, {}, pixel ({}, {}), head {}, channel {}", f.index[0], level_text(l),
                       pixel / level.width, pixel % level.width, f.index[2], f.index[3]);
  }
  std::string place = fmt::format("batch {}, query {}, head {}, {}, point {}", f.index[0], f.index[1], f.index[2],
                                  level_text(f.index[3]), f.index[4]);
  if (f.gradient == Gradient::kSamplingLocations) place += f.index[5] == 0 ? ", x" : ", y";
  return place;
}

void append_finding(Lines& lines, const Finding& f, const InvocationResult& result) {
  std::string where = fmt::format("{}[{}]  {}", name_of(f.gradient), fmt::join(f.index, ","), place_of(f, result));
  if (f.count == 2) where += ", and the element after it";
  if (f.count > 2) where += fmt::format(", and the {} elements after it", f.count - 1);
  lines.add("  {}", where);
  std::string what = fmt::format("recorded {:.9g}, {} {:.9g}", f.observed, f.against, f.expected);
  if (f.against != "float64") what += fmt::format(", float64 {:.9g}", f.float64);
  what += fmt::format(": {:.3g} apart", std::abs(f.observed - f.expected));
  if (result.tolerance) {
    what += fmt::format(", {:.3g} allowed", result.tolerance->atol + result.tolerance->rtol * std::abs(f.expected));
  }
  lines.add("    what: {}", what);
  const std::string at_fault = f.advisory ? "" : fmt::format(", at fault: {}", name_of(f.at_fault));
  lines.add("    why:  {}{}; {}", name_of(f.cause), at_fault, f.why);
}

// Elements of a gradient, and for what cause.
using Told = std::set<std::tuple<Gradient, int64_t, analysis::Cause>>;

// What the findings against the recorded reference tell of.
Told told_against_reference(const InvocationResult& result) {
  Told told;
  for (const Finding& f : result.report.findings) {
    if (f.advisory || f.against != "reference") continue;
    for (int64_t i = 0; i < f.count; ++i) told.insert({f.gradient, f.flat + i, f.cause});
  }
  return told;
}

// How many elements there are of each cause, whether they are findings or not. One that misses both the reference and
// float64 counts once.
std::map<analysis::Cause, int64_t> elements_of(const InvocationResult& result, bool advisory) {
  if (!advisory) return result.report.verdict.causes;
  std::map<analysis::Cause, int64_t> elements;
  for (const auto& set : result.report.judged) {
    if (set.advisory) elements[set.cause] += set.elements;
  }
  return elements;
}

void append_findings(Lines& lines, const InvocationResult& result, bool advisory) {
  const Told against_reference = told_against_reference(result);
  std::vector<const Finding*> findings;
  int64_t told = 0;
  std::map<analysis::Cause, int64_t> left = elements_of(result, advisory);
  for (const Finding& f : result.report.findings) {
    if (f.advisory != advisory) continue;
    if (f.against != "reference" && against_reference.contains({f.gradient, f.flat, f.cause})) {
      if (advisory) {
        told += f.count;
        left[f.cause] -= f.count;
      }
    } else {
      findings.push_back(&f);
    }
  }
  // The farthest apart first; what is not finite before all else.
  const auto apart = [](const Finding* f) {
    const double difference = std::abs(f->observed - f->expected);
    return std::isnan(difference) ? INFINITY : difference;
  };
  std::ranges::stable_sort(findings, [&](const Finding* a, const Finding* b) { return apart(a) > apart(b); });
  std::map<analysis::Cause, size_t> printed;
  for (const Finding* f : findings) {
    if (printed[f->cause]++ >= kMostPrinted) continue;
    append_finding(lines, *f, result);
    left[f->cause] -= f->count;
  }
  for (const auto& [cause, count] : left) {
    if (count <= 0) continue;
    lines.add("  and {} more elements of cause {} (--json lists them)", thousands(count), name_of(cause));
  }
  if (told > 0) lines.add("  in {} of the elements above, for the same cause", told);
}

// A table for each gradient: a line for each pair of sides.
void append_tables(Lines& lines, const InvocationResult& result) {
  for (const Gradient gradient : analysis::kGradients) {
    Lines rows;
    for (const NamedComparison& c : result.report.comparisons) {
      if (c.gradient != gradient) continue;
      const std::string count =
          fmt::format("{} of {}", thousands(c.comparison.mismatched), thousands(c.comparison.total));
      rows.add("    {:<28} {:>22} {:>11.3g} {:>11.3g} {:>13}  [{}]", fmt::format("{} : {}", c.observed, c.expected),
               count, c.comparison.max_abs, c.comparison.max_rel, c.comparison.max_ulp, fmt::join(c.worst_index, ","));
    }
    if (rows.empty()) continue;
    lines.blank();
    lines.add("  {:<30} {:>22} {:>11} {:>11} {:>13}  {}", name_of(gradient), "out of tolerance", "max abs", "max rel",
              "max ULP", "worst element");
    lines.append(rows);
  }
}

std::string tolerance_text(const InvocationResult& result) {
  if (result.tolerance)
    return fmt::format("tolerance atol {:g}, rtol {:g}", result.tolerance->atol, result.tolerance->rtol);
  return "no tolerance recorded or given: drift is what rounding cannot explain";
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
    if (mode == "original") continue;  // told above, and more of it
    std::string gradients;
    for (const Gradient gradient : analysis::kGradients) {
      const auto at = static_cast<size_t>(gradient);
      gradients += fmt::format(" {} {} result{} (spread {:.3g})", name_of(gradient), repeats.distinct[at],
                               repeats.distinct[at] == 1 ? "" : "s", repeats.spread[at]);
    }
    lines.add("  {} runs of {}:{}", repeats.runs, mode, gradients);
  }
}

void append_invocation(Lines& lines, const InvocationResult& result) {
  const capture::CallFacts& facts = result.invocation.facts;
  lines.blank();
  lines.add("Invocation {}: {}, dialect {}, padding {}, align_corners {}, {}", result.invocation.id,
            facts.kernel.empty() ? "(kernel not named)" : facts.kernel, facts.dialect, facts.padding_mode,
            facts.align_corners ? "true" : "false", tolerance_text(result));
  const auto& v = result.value_shape;
  const auto& loc = result.locations_shape;
  lines.add("  batch {}, queries {}, heads {}, channels {}, levels {}, points {}, pixels {}", v[0], loc[1], v[2], v[3],
            loc[3], loc[4], v[1]);
  lines.append(warnings(result.altered));
  if (!result.compared) lines.add("  nothing to compare: it has no gradients in its outputs");
  append_tables(lines, result);
  append_whereabouts(lines, result);
  if (result.original) {
    lines.blank();
    lines.append(to_text(*result.original));
  }
  append_repeats(lines, result);
  const auto& findings = result.report.findings;
  const auto advice = std::ranges::count_if(findings, &Finding::advisory);
  if (advice < static_cast<int64_t>(findings.size())) {
    lines.blank();
    lines.add("Findings");
    append_findings(lines, result, false);
  }
  if (advice > 0) {
    lines.blank();
    lines.add("Advice: a test against grid_sample in float32 would fail here");
    append_findings(lines, result, true);
  }
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

Lines to_text(const std::string& capture, const std::vector<InvocationResult>& results,
              const std::vector<Relaunched>& relaunched, const std::vector<NotReplayed>& not_replayed,
              const Conclusion& conclusion, bool quiet) {
  Lines lines;
  lines.add("{}", headline(conclusion.verdict.summary, conclusion.damaged));
  if (quiet) return lines;
  lines.add("({}; at fault: {})", capture, name_of(conclusion.verdict.at_fault));
  for (const InvocationResult& result : results) append_invocation(lines, result);
  lines.append(to_text(relaunched));
  if (!not_replayed.empty()) {
    lines.blank();
    lines.append(to_text(not_replayed));
  }
  append_left_out(lines, results);
  return lines;
}

}  // namespace msda::replay
