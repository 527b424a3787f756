#include "replay/report/words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "recorder/text/words.h"
#include "recorder/text/wrap.h"
#include "replay/base/words.h"
#include "replay/calls/conventions.h"
#include "replay/calls/load_operator.h"
#include "replay/calls/operator_row.h"
#include "replay/report/page.h"

namespace msda::replay {

using analysis::AtFault;
using analysis::Extent;
using analysis::Finding;
using analysis::Gradient;
using analysis::Group;
using analysis::Pattern;
using analysis::thousands;

namespace {

// "level 1 (32 x 32)", "queries 896 to 999", "7 of 8 heads"; empty for all that there are.
std::string extent_text(const Extent& extent, const InvocationResult& result) {
  if (extent.is_all()) return {};
  const std::string name = name_of(extent.dimension);
  const bool is_letter = name.size() == 1;  // as users' own operators name their indices
  const std::string several = is_letter ? "values of " + name : text::plural(2, name);
  if (extent.is_one()) return result.call->text_of(extent.dimension, extent.first);
  if (extent.is_range()) return fmt::format("{} {} to {}", is_letter ? name : several, extent.first, extent.last);
  return fmt::format("{} of {} {}", thousands(extent.distinct), thousands(extent.size), several);
}

std::string part_text(const Pattern& pattern) {
  std::vector<std::string> parts;
  for (const auto& [dimension, index] : pattern.part) {
    parts.push_back(dimension.is_axis() ? std::string(1, analysis::axis_name(static_cast<size_t>(index)))
                                        : fmt::format("{} {}", name_of(dimension), index));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

// Returns the ratio with three digits, or with as many as distinguish it from 1.
std::string ratio_text(double ratio) {
  const std::string text = fmt::format("{:.3g}", ratio + 0.0);  // -0 becomes 0
  return text == "1" ? fmt::format("{:.7g}", ratio) : text;
}

// Returns how many digits distinguish the numbers of the tensor's type.
int digits_of(const InvocationResult& result, Gradient gradient) {
  const auto* info = find(result.invocation.outputs, name_of(gradient));
  if (info == nullptr) return 9;
  if (info->type == MSDA_FLOAT64) return 17;
  return info->type == MSDA_FLOAT32 ? 9 : 5;
}

std::string with_digits(double x, int digits) { return fmt::format("{:.{}g}", x, digits); }

// Returns a value to print beside another one, with further digits where both would look the same.
std::string number_beside(double x, double shown, int digits) {
  for (const int more : {std::max(digits, 9), 12, 17}) {
    if (std::string text = with_digits(x, more); text != with_digits(shown, digits) || x == shown) return text;
  }
  return with_digits(x, 17);
}

}  // namespace

std::string title_of(const GroupTitle& group) {
  const std::string what = fmt::format("{} of {}", count_text(group.elements, "element"), group.tensor);
  if (group.advisory) {
    const std::string& dialect = dialect_of_tests();
    const std::string says = group.at_fault == AtFault::kReference    ? fmt::format(": {} is wrong there", dialect)
                             : group.at_fault == AtFault::kConvention ? ": the conventions differ there"
                                                                      : "";
    return fmt::format("a test against {} in float32 fails in {}{}", dialect, what, says);
  }
  switch (group.at_fault) {
    case AtFault::kObserved:
      return "the recorded kernel is wrong in " + what;
    case AtFault::kReference:
      return "the reference is wrong in " + what;
    case AtFault::kConvention:
      return "the two sides follow different conventions in " + what;
    case AtFault::kTolerance:
      return group.tolerance_given ? "the tolerance is tighter than the arithmetic can meet in " + what
                                   : "no kernel is wrong: the precision of the type explains " + what;
    case AtFault::kNone:
      break;
  }
  return "the inputs decide " + what;
}

const char* party_of(AtFault at_fault, bool tolerance_given) {
  const bool nobody = at_fault == AtFault::kNone || (at_fault == AtFault::kTolerance && !tolerance_given);
  return nobody ? "nobody" : name_of(at_fault);
}

std::string place_of(const Finding& f, const InvocationResult& result) {
  std::vector<std::string> parts = result.call->text_of_place(f.gradient, f.flat);
  for (std::string& part : parts) part = text::unbroken(part);
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string whereabouts_of(const Group& group, const InvocationResult& result) {
  std::vector<std::string> common, others;
  for (const Extent& extent : group.extents) {
    const std::string text = extent_text(extent, result);
    if (!text.empty()) (extent.is_one() ? common : others).push_back(text);
  }
  const bool complete = group.is_complete();
  if (common.empty() && others.empty()) return complete ? "every element" : "all over the tensor";
  if (complete && !common.empty() && !others.empty()) {
    return fmt::format("every element of {} in {}", fmt::join(others, ", "), fmt::join(common, ", "));
  }
  std::string where = fmt::format("{}{}",
                                  complete         ? "every element of "
                                  : common.empty() ? "in "
                                                   : "all in ",
                                  fmt::join(common.empty() ? others : common, ", "));
  if (!common.empty() && !others.empty()) where += fmt::format("; {}", fmt::join(others, ", "));
  return where;
}

std::string patterns_of(const Group& group) {
  std::string text;
  for (const Pattern& pattern : group.patterns) {
    const std::string subject = pattern.part.empty() ? "each" : part_text(pattern);
    const std::string how =
        pattern.kind == Pattern::Kind::kRatio
            ? fmt::format("{} times what it should be", ratio_text(pattern.value))
            : fmt::format("{:.3g} {} than it should be", std::abs(pattern.value), pattern.value > 0 ? "more" : "less");
    if (!text.empty()) text += "; ";
    text += fmt::format("{} is {}", subject, how);
    if (group.patterns.size() > 1) text += fmt::format(" ({})", count_text(pattern.elements, "element"));
  }
  if (!group.as_if.empty()) text += fmt::format("{}as if {}", text.empty() ? "" : ": ", group.as_if);
  return text;
}

std::string values_text(const Finding& f, const InvocationResult& result) {
  const int digits = digits_of(result, f.gradient);
  std::string text = fmt::format("recorded {}, {} ", with_digits(f.observed, digits), f.against);
  if (f.against == "float64") {
    text += number_beside(f.expected, f.observed, digits);
  } else {
    text +=
        fmt::format("{}, float64 {}", with_digits(f.expected, digits), number_beside(f.float64, f.observed, digits));
  }
  text += fmt::format(": {:.3g} apart", std::abs(f.observed - f.expected));
  if (result.tolerance) {
    text += fmt::format(", {:.3g} allowed", result.tolerance->atol + result.tolerance->rtol * std::abs(f.expected));
  }
  return text;
}

Conclusion conclusion_of(const InvocationResult& result) {
  return {result.report.verdict, result.compared, !result.altered.empty(), result.poison && result.poison->is_faulty()};
}

Grade grade_of(const Conclusion& conclusion) {
  const analysis::Verdict& verdict = conclusion.verdict;
  const bool wrong = verdict.at_fault == AtFault::kObserved || verdict.at_fault == AtFault::kReference;
  if (wrong || conclusion.faulty) return Grade::kWrong;
  if (!verdict.causes.empty()) return Grade::kDrift;
  return !conclusion.compared || conclusion.damaged || verdict.advice || !verdict.biases.empty() ? Grade::kUndecided
                                                                                                 : Grade::kGood;
}

const char* grade_of(const GroupTitle& group) {
  if (group.advisory) return "note";
  return group.at_fault == AtFault::kObserved || group.at_fault == AtFault::kReference ? "error" : "warning";
}

std::string element_name(const Finding& finding) {
  return fmt::format("{}[{}]", name_of(finding.gradient), fmt::join(finding.index, ","));
}

std::string ulp_text(uint64_t ulp) {
  constexpr uint64_t kMost = 100'000;
  return ulp <= kMost ? std::to_string(ulp) : "-";
}

std::string tolerance_text(const InvocationResult& result) {
  if (result.tolerance)
    return fmt::format("tolerance atol {:g}, rtol {:g}", result.tolerance->atol, result.tolerance->rtol);
  if (result.customary)
    return "no tolerance recorded or given: elements beyond rounding and the customary tolerance are reported";
  return "no tolerance recorded or given: elements beyond rounding are reported";
}

std::string operator_and_conventions(const capture::Invocation& invocation) {
  const capture::CallFacts& facts = invocation.facts;
  if (facts.dialect.empty()) {
    const std::string conventions = conventions_text(invocation);
    return operator_of(invocation) + (conventions.empty() ? "" : ", " + conventions);
  }
  return fmt::format("dialect {}, padding {}, align_corners {}", facts.dialect, facts.padding_mode,
                     facts.align_corners);
}

int64_t reported_elsewhere(const Group& advice, const std::vector<Group>& groups) {
  int64_t reported = 0;
  for (const Group& group : groups) {
    if (group.advisory || group.gradient != advice.gradient || group.cause != advice.cause) continue;
    for (const auto& [flat, count] : advice.runs) {
      for (int64_t i = flat; i < flat + count; ++i) reported += group.contains(i);
    }
  }
  return reported;
}

}  // namespace msda::replay
