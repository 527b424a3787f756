#include "analysis/verdict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <tuple>

namespace msda::analysis {
namespace {

std::string elements(int64_t count) { return fmt::format("{} element{}", count, count == 1 ? "" : "s"); }

// What a cause means, as a person would say it.
const char* meaning_of(Cause cause) {
  switch (cause) {
    case Cause::kNonFinite:
      return "a number on the way is NaN or infinite";
    case Cause::kUninitializedOutput:
      return "the output buffer was not zeroed or not written";
    case Cause::kCellBoundary:
      return "a rounded coordinate landed in the neighbouring cell";
    case Cause::kBorderClamp:
      return "the dialects take different subgradients on the clamp border";
    case Cause::kAccumulationOrder:
      return "the same addends were summed in another order";
    case Cause::kIllConditioned:
      return "cancellation leaves a result that hangs on rounding";
    case Cause::kImplementationError:
      return "no rounding explains the value";
  }
  return "?";
}

// "1 element (cell_boundary: a rounded coordinate ...)" or, of several causes, each with its count.
std::string causes_text(const std::map<Cause, int64_t>& causes) {
  std::vector<std::string> texts;
  for (const auto& [cause, count] : causes) {
    const std::string number = causes.size() > 1 ? fmt::format("{} ", count) : "";
    texts.push_back(fmt::format("{}{}, {}", number, name_of(cause), meaning_of(cause)));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

std::string summarize(const Verdict& verdict, int64_t total, const std::set<std::string>& tensors, bool has_reference) {
  const std::string where =
      fmt::format("{} of {} ({})", elements(total), fmt::join(tensors, " and "), causes_text(verdict.causes));
  switch (verdict.at_fault) {
    case AtFault::kObserved:
      return fmt::format("The recorded kernel is wrong in {}.", where);
    case AtFault::kReference:
      return fmt::format("The reference is wrong, the recorded kernel right, in {}.", where);
    case AtFault::kConvention:
      return fmt::format("Neither side is wrong, their conventions differ, in {}.", where);
    case AtFault::kTolerance:
      return fmt::format("The tolerance is at fault, no kernel is wrong, in {}.", where);
    case AtFault::kNone:
      break;
  }
  if (total > 0) return fmt::format("The inputs, not the kernel, are at fault for {}.", where);
  return fmt::format("The recorded gradients are within tolerance of float64{}.",
                     has_reference ? " and of the reference" : "");
}

bool is_rounding(const Finding& finding) {
  return finding.cause == Cause::kIllConditioned || finding.cause == Cause::kAccumulationOrder;
}

// A side that rounding alone makes miss here and there, no oftener than others, is not wrong: the tolerance asks for
// more than the precision has. What is left of blame for rounding is that of a side with at least half of it.
AtFault share_of_blame(const Finding& finding, const std::map<AtFault, int64_t>& rounding, int64_t total) {
  const bool a_side = finding.at_fault == AtFault::kObserved || finding.at_fault == AtFault::kReference;
  if (!is_rounding(finding) || !a_side || 2 * rounding.at(finding.at_fault) >= total) return finding.at_fault;
  return AtFault::kTolerance;
}

}  // namespace

Verdict judge(const std::vector<Finding>& findings, bool has_reference, int64_t explained_by_rounding,
              int64_t not_examined) {
  Verdict verdict;
  verdict.explained_by_rounding = explained_by_rounding;
  verdict.not_examined = not_examined;
  // An element that misses both the reference and float64 counts once.
  std::set<std::tuple<Gradient, int64_t>> seen;
  std::set<std::string> tensors;
  std::map<AtFault, int64_t> rounding;
  int64_t all_rounding = 0, total = 0;
  for (const Finding& finding : findings) {
    if (finding.advisory || !is_rounding(finding)) continue;
    rounding[finding.at_fault] += finding.count;
    all_rounding += finding.count;
  }
  for (const Finding& finding : findings) {
    if (finding.advisory) continue;
    verdict.at_fault = std::min(verdict.at_fault, share_of_blame(finding, rounding, all_rounding));
    tensors.insert(name_of(finding.gradient));
    for (int64_t i = 0; i < finding.count; ++i) {
      if (!seen.insert({finding.gradient, finding.flat + i}).second) continue;
      ++verdict.causes[finding.cause];
      ++total;
    }
  }
  verdict.summary = summarize(verdict, total, tensors, has_reference);
  if (not_examined > 0) {
    verdict.summary +=
        fmt::format(" Of {} more out of tolerance the cause was not looked into.", elements(not_examined));
  }
  return verdict;
}

Verdict combine(const std::vector<Verdict>& verdicts) {
  Verdict all;
  int64_t drifting = 0;
  for (const Verdict& verdict : verdicts) {
    if (verdict.at_fault < all.at_fault || all.summary.empty()) {
      all.at_fault = std::min(all.at_fault, verdict.at_fault);
      all.summary = verdict.summary;
    }
    for (const auto& [cause, count] : verdict.causes) all.causes[cause] += count;
    all.explained_by_rounding += verdict.explained_by_rounding;
    all.not_examined += verdict.not_examined;
    drifting += !verdict.causes.empty();
  }
  if (verdicts.size() > 1) {
    all.summary = fmt::format("{} of {} invocations out of tolerance. {}", drifting, verdicts.size(), all.summary);
  }
  return all;
}

}  // namespace msda::analysis
