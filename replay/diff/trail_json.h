// Differences of trails as JSON: docs/diff.schema.json.
#pragma once

#include "replay/base/json.h"
#include "replay/diff/trail_differences.h"

namespace msda::replay {

// Returns the members equal, first, after, notes and compared.
Json trail_json(const TrailRun& a, const TrailRun& b, const TrailDifferences& differences);

// Returns a word of parameters: "0x000000003f800000", "an address", or null if there is none.
Json word_json(uint64_t word, bool is_there);

}  // namespace msda::replay
