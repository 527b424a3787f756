// A survey as text and as JSON.
#pragma once

#include <string>
#include <vector>

#include "replay/base/json.h"
#include "replay/base/lines.h"
#include "replay/survey/verdict.h"

namespace msda::replay {

// With `all` it lists each kernel, else those that vary and those that were not surveyed.
Lines survey_text(const std::string& capture, const std::vector<Surveyed>& kernels, bool all);

// docs/survey.schema.json
Json survey_json(const std::string& capture, const std::vector<Surveyed>& kernels);

}  // namespace msda::replay
