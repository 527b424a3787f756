// Surveys of several captures, joined by kernel: in which of them it varied.
#pragma once

#include <vector>

#include "replay/base/json.h"
#include "replay/base/lines.h"

namespace msda::replay {

// docs/survey-many.schema.json. `outcomes`: of each capture "capture" and "status", and either "survey", by
// docs/survey.schema.json, or "error", the reason why there is none. A kernel is one if name and machine code are.
Json join_surveys(const std::vector<Json>& outcomes);

// With `all` it lists each kernel and each capture.
Lines joined_surveys_text(const Json& joined, bool all);

}  // namespace msda::replay
