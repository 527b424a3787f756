// What a report on several captures shows of one of its surveys.
#pragma once

#include "replay/base/json.h"

namespace msda::replay {

// Returns `captures.survey` in docs/run-many.schema.json. `survey`: docs/survey.schema.json.
Json survey_outcome(const Json& survey);

}  // namespace msda::replay
