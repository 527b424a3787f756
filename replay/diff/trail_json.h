// Differences of trails as JSON: docs/diff.schema.json.
#pragma once

#include "replay/base/json.h"
#include "replay/diff/trail_differences.h"

namespace msda::replay {

// Returns the members equal, first, after, notes and compared.
Json trail_json(const TrailRun& a, const TrailRun& b, const TrailDifferences& differences);

}  // namespace msda::replay
