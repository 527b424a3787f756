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

// Of a kernel.
struct SurveyDifference {
  std::string what;             // "kernel", "code", "verdict", "launches"; of a note the name of a fact
  std::string kernel, mangled;  // its name
  std::string a, b;             // empty: it is not there, or not known
};

struct SurveyDifferences {
  std::vector<SurveyDifference> found;
  std::vector<SurveyDifference> notes;  // what chance decides, or the caller: how often it varied, who launched it
  std::vector<Difference> runs;         // arguments, machine, libraries, environment
  int64_t kernels = 0, facts = 0;       // compared: kernels of both
};

// Pairs kernels by name and code, and those that are left by name.
SurveyDifferences find_survey_differences(const std::vector<Surveyed>& a, const std::vector<Surveyed>& b);

// docs/diff-survey.schema.json
Json survey_differences_json(const std::string& a, const std::string& b, const SurveyDifferences& differences);

// If `quiet` the first line only.
Lines survey_differences_text(const SurveyDifferences& differences, bool quiet);

}  // namespace msda::replay
