// Prints the recorded stages' summaries, as text and as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "recorder/capture/capture.h"
#include "replay/base/lines.h"

namespace msda::replay {

// [{"stage", "arithmetic", the attributes of docs/capture-format.md, "float64": {...}}]; for a stage without a summary
// only "stage". Numbers that are not finite are texts.
nlohmann::ordered_json recorded_stages_json(const std::vector<capture::Invocation::Stage>& stages);

// Returns a table with a line for each stage that has a summary; empty if none has.
Lines recorded_stages_text(const std::vector<capture::Invocation::Stage>& stages);

}  // namespace msda::replay
