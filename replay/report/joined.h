// What `run` found in many captures, as one report: groups of equal cause, fault, tensor and kernel are one.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "replay/report/diagnosis.h"

namespace msda::replay {

// Who is at fault, by the name in JSON; kNone if it is nobody's.
analysis::AtFault at_fault_of(const nlohmann::ordered_json& name);

// Returns what a report on many captures needs of what was found in one: the verdict, and the groups with an example
// each. `result`: docs/run.schema.json.
nlohmann::ordered_json shortened(const nlohmann::ordered_json& result);

// Returns docs/run-many.schema.json. `outcomes` has one for each capture: shortened, or an error (replay/many/many.h),
// or, if the capture's survey is shown, "survey" (survey_outcome.h).
nlohmann::ordered_json join(const std::vector<nlohmann::ordered_json>& outcomes);

Page joined_text(const nlohmann::ordered_json& joined, const ReportSettings& settings);

}  // namespace msda::replay
