// What differs between the surveys of two captures.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "replay/base/json.h"
#include "replay/base/lines.h"
#include "replay/diff/differences.h"
#include "replay/survey/verdict.h"

namespace msda::replay {

// How one kernel differs.
struct SurveyDifference {
  std::string what;             // "kernel", "code", "verdict", "launches"; in a note the name of a fact
  std::string kernel, mangled;  // its name
  std::string a, b;             // empty: it is not there, or not known
};

struct SurveyDifferences {
  std::vector<SurveyDifference> found;
  std::vector<SurveyDifference> notes;  // decided by chance or by the caller: how often it varied, who launched it
  std::vector<Difference> runs;         // arguments, machine, libraries, environment
  int64_t kernels = 0, facts = 0;       // compared: kernels that both surveyed, and facts
};

// Pairs kernels by name and code, and then the remaining ones by name.
SurveyDifferences find_survey_differences(const std::vector<Surveyed>& a, const std::vector<Surveyed>& b);

// Returns the members of docs/diff-survey.schema.json.
Json survey_differences_json(const std::string& a, const std::string& b, const SurveyDifferences& differences);

// Returns the text. If `quiet`, only the first line.
Lines survey_differences_text(const SurveyDifferences& differences, bool quiet);

}  // namespace msda::replay
