#include "replay/report/survey_outcome.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

#include "replay/report/result.h"

namespace msda::replay {
namespace {

using analysis::thousands;

bool does_vary(const Json& kernel) { return count_at(kernel, "varied") > 0; }

bool reads_unwritten(const Json& kernel) { return text_at(kernel, "verdict") == "reads_unwritten"; }

bool may_differ(const Json& kernel) { return does_vary(kernel) || reads_unwritten(kernel); }

// Returns the grade of the worst kernel.
Grade grade_of(const Json& kernels) {
  if (std::ranges::none_of(kernels, may_differ)) return Grade::kGood;
  const auto is_wrong = [](const Json& kernel) {
    return may_differ(kernel) && (reads_unwritten(kernel) || text_at(kernel, "verdict") == "race");
  };
  return std::ranges::any_of(kernels, is_wrong) ? Grade::kWrong : Grade::kDrift;
}

std::string headline_of(const Json& survey) {
  const Json& kernels = survey.at("kernels");
  const auto unwritten = std::ranges::count_if(kernels, reads_unwritten);
  const auto beside =
      std::ranges::count_if(kernels, [](const Json& kernel) { return count_at(kernel, "varied_beside") > 0; });
  return fmt::format("{} of {} kernels vary, in {} of {} launches", std::ranges::count_if(kernels, does_vary),
                     kernels.size(), thousands(count_at(survey, "varied")), thousands(count_at(survey, "surveyed"))) +
         (unwritten > 0 ? fmt::format("; {} depend on memory that nobody wrote", unwritten) : "") +
         (beside > 0 ? fmt::format("; {} only beside other work", beside) : "");
}

}  // namespace

Json survey_outcome(const Json& survey) {
  const Json& kernels = survey.at("kernels");
  return {{"summary", headline_of(survey) + "."},
          {"grade", grade_of(kernels)},
          {"kernels", kernels.size()},
          {"varying", std::ranges::count_if(kernels, may_differ)},
          {"launches", survey.at("launches")},
          {"surveyed", survey.at("surveyed")},
          {"varied", survey.at("varied")}};
}

}  // namespace msda::replay
