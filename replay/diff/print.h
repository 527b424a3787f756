// What differs between two captures, as text and as JSON.
#pragma once

#include <string>
#include <vector>

#include "replay/base/json.h"
#include "replay/base/lines.h"
#include "replay/diff/differences.h"

namespace msda::replay {

// Returns the members of docs/diff.schema.json, without slices.
Json differences_json(const std::string& a, const std::string& b, const Differences& differences);

// Returns the text. `json` is what --json prints, with slices if they were compared. If `quiet`, only the first line.
Lines differences_text(const Differences& differences, const Json& json, bool quiet);

// Adds what differs between the two runs.
void add_run_notes(Lines& lines, const std::vector<Difference>& notes);
Json note_json(const Difference& note);

}  // namespace msda::replay
