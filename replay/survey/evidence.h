// What a survey measured of a kernel's additions, and where they stand in the source, as text and as JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "replay/base/json.h"
#include "replay/survey/verdict.h"

namespace msda::replay {

// Reads a text of the capture (docs/capture-format.md). Returns nothing if it is none.
std::optional<std::vector<SurveyPlace>> survey_places(const std::string& text);

// "Of 2,000 additions ... ": what order can change, and what differed; or why that is not known. Empty if it was not
// tried.
std::string evidence_text(const Surveyed& kernel);
// "Its additions stand at a.cu:12, b.cu:7, and in 2 other places (--json)", or what hands results on. Empty without
// lines.
std::string places_text(const Surveyed& kernel);

// Null if there is none.
Json evidence_json(const Surveyed& kernel);
Json places_json(const Surveyed& kernel);

}  // namespace msda::replay
