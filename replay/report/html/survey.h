// A survey as one page of HTML that needs nothing else.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace msda::replay {

// `survey`: docs/survey.schema.json.
std::string html_of_survey(const nlohmann::ordered_json& survey, const std::string& version);

// Returns what a report on several captures shows of one of its surveys: `captures.survey` in
// docs/run-many.schema.json.
nlohmann::ordered_json survey_outcome(const nlohmann::ordered_json& survey);

}  // namespace msda::replay
