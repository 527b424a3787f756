#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

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

std::string finding_text(const Finding& f, const InvocationResult& result) {
  std::string text = fmt::format("  {}[{}]  {}", name_of(f.gradient), fmt::join(f.index, ","), place_of(f, result));
  if (f.count == 2) text += ", and the element after it";
  if (f.count > 2) text += fmt::format(", and the {} elements after it", f.count - 1);
  const double difference = std::abs(f.observed - f.expected);
  text += fmt::format("\n    what: recorded {:.9g}, {} {:.9g}", f.observed, f.against, f.expected);
  if (f.against != "float64") text += fmt::format(", float64 {:.9g}", f.float64);
  text += fmt::format(": {:.3g} apart", difference);
  if (result.tolerance) {
    text += fmt::format(", {:.3g} allowed", result.tolerance->atol + result.tolerance->rtol * std::abs(f.expected));
  }
  text += fmt::format("\n    why:  {}", name_of(f.cause));
  if (!f.advisory) text += fmt::format(", at fault: {}", name_of(f.at_fault));
  return text + fmt::format("; {}\n", f.why);
}

// Whether the findings against the recorded reference tell of the element already.
bool told_of(const InvocationResult& result, const Finding& advice) {
  return std::ranges::any_of(result.report.findings, [&](const Finding& f) {
    return !f.advisory && f.against == "reference" && f.gradient == advice.gradient && f.flat <= advice.flat &&
           advice.flat < f.flat + f.count && f.cause == advice.cause;
  });
}

void append_findings(std::string& text, const InvocationResult& result, bool advisory) {
  std::vector<const Finding*> findings;
  int64_t told = 0;
  for (const Finding& f : result.report.findings) {
    if (f.advisory != advisory) continue;
    if (advisory && told_of(result, f)) {
      told += f.count;
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
  std::map<analysis::Cause, int64_t> left;
  for (const Finding* f : findings) {
    if (printed[f->cause]++ < kMostPrinted) {
      text += finding_text(*f, result);
    } else {
      left[f->cause] += f->count;
    }
  }
  for (const auto& [cause, count] : left) {
    text += fmt::format("  and {} more elements of cause {} (--json lists them)\n", thousands(count), name_of(cause));
  }
  if (told > 0) text += fmt::format("  in {} of the elements above, for the same cause\n", told);
}

// A table for each gradient: a line for each pair of sides.
std::string tables_of(const InvocationResult& result) {
  std::string text;
  for (const Gradient gradient : analysis::kGradients) {
    std::string rows;
    for (const NamedComparison& c : result.report.comparisons) {
      if (c.gradient != gradient) continue;
      const std::string count =
          fmt::format("{} of {}", thousands(c.comparison.mismatched), thousands(c.comparison.total));
      rows += fmt::format("    {:<28} {:>22} {:>11.3g} {:>11.3g} {:>13}  [{}]\n",
                          fmt::format("{} : {}", c.observed, c.expected), count, c.comparison.max_abs,
                          c.comparison.max_rel, c.comparison.max_ulp, fmt::join(c.worst_index, ","));
    }
    if (rows.empty()) continue;
    text += fmt::format("\n  {:<30} {:>22} {:>11} {:>11} {:>13}  {}\n", name_of(gradient), "out of tolerance",
                        "max abs", "max rel", "max ULP", "worst element");
    text += rows;
  }
  return text;
}

std::string tolerance_text(const InvocationResult& result) {
  if (result.tolerance)
    return fmt::format("tolerance atol {:g}, rtol {:g}", result.tolerance->atol, result.tolerance->rtol);
  return "no tolerance recorded or given: drift is what rounding cannot explain";
}

// Where the replays ran, if not all on the CPU as they were to.
std::string whereabouts_text(const InvocationResult& result) {
  std::map<std::string, std::vector<std::string>> by_device;
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const auto& [side, whereabouts] : result.whereabouts) {
    for (const std::string& device : whereabouts.devices) by_device[device].push_back(side);
    if (!whereabouts.why_moved.empty()) by_reason[whereabouts.why_moved].push_back(side);
  }
  if (by_reason.empty() && by_device.size() == 1 && by_device.contains("cpu")) return "";
  std::string text;
  for (const auto& [device, sides] : by_device) text += fmt::format("  on {}: {}\n", device, fmt::join(sides, ", "));
  for (const auto& [reason, sides] : by_reason) {
    text += fmt::format("  not on a GPU: {}: {}\n", fmt::join(sides, ", "), reason);
  }
  return "\n" + text;
}

std::string invocation_text(const InvocationResult& result) {
  const capture::CallFacts& facts = result.invocation.facts;
  std::string text =
      fmt::format("\nInvocation {}: {}, dialect {}, padding {}, align_corners {}, {}\n", result.invocation.id,
                  facts.kernel.empty() ? "(kernel not named)" : facts.kernel, facts.dialect, facts.padding_mode,
                  facts.align_corners ? "true" : "false", tolerance_text(result));
  const auto& v = result.value_shape;
  const auto& loc = result.locations_shape;
  text += fmt::format("  batch {}, queries {}, heads {}, channels {}, levels {}, points {}, pixels {}\n", v[0], loc[1],
                      v[2], v[3], loc[3], loc[4], v[1]);
  for (const std::string& path : result.altered) {
    text += fmt::format("  warning: {} is not what was recorded, its digest differs\n", path);
  }
  text += tables_of(result) + whereabouts_text(result);
  if (result.original) text += "\n" + to_text(*result.original);
  for (const auto& [mode, repeats] : result.repeats) {
    if (mode == "original") continue;  // told above, and more of it
    text += fmt::format("  {} runs of {}:", repeats.runs, mode);
    for (const Gradient gradient : analysis::kGradients) {
      const auto at = static_cast<size_t>(gradient);
      text += fmt::format(" {} {} result{} (spread {:.3g})", name_of(gradient), repeats.distinct[at],
                          repeats.distinct[at] == 1 ? "" : "s", repeats.spread[at]);
    }
    text += "\n";
  }
  const auto& findings = result.report.findings;
  const auto advice = std::ranges::count_if(findings, &Finding::advisory);
  if (advice < static_cast<int64_t>(findings.size())) {
    text += "\nFindings\n";
    append_findings(text, result, false);
  }
  if (advice > 0) {
    text += "\nAdvice: a test against grid_sample in float32 would fail here\n";
    append_findings(text, result, true);
  }
  return text;
}

}  // namespace

namespace {

// Once for each reason.
std::string left_out_text(const std::vector<InvocationResult>& results) {
  std::map<std::string, std::vector<int64_t>> by_reason;
  for (const auto& result : results) {
    if (!result.original_left_out.empty()) by_reason[result.original_left_out].push_back(result.invocation.id);
  }
  std::string text;
  for (const auto& [reason, ids] : by_reason) {
    const std::string which =
        ids.size() == results.size() ? "" : fmt::format(" of invocation {}", fmt::join(ids, ", "));
    text += fmt::format("\nMode original{} is left out: {}\n", which, reason);
  }
  return text;
}

}  // namespace

std::string to_text(const std::vector<NotReplayed>& not_replayed) {
  std::string text;
  for (const auto& [id, why] : not_replayed) text += fmt::format("Invocation {}: not replayed: {}\n", id, why);
  return text;
}

std::string to_text(const std::string& capture, const std::vector<InvocationResult>& results,
                    const std::vector<Relaunched>& relaunched, const std::vector<NotReplayed>& not_replayed,
                    const analysis::Verdict& verdict, bool quiet) {
  std::string text = verdict.summary + "\n";
  if (quiet) return text;
  text += fmt::format("({}; at fault: {})\n", capture, name_of(verdict.at_fault));
  for (const InvocationResult& result : results) text += invocation_text(result);
  text += to_text(relaunched);
  if (!not_replayed.empty()) text += "\n" + to_text(not_replayed);
  text += left_out_text(results);
  return text;
}

}  // namespace msda::replay
