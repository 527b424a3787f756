// Differences of trails as JSON: docs/diff.schema.json.
#pragma once

#include "replay/base/json.h"
#include "replay/diff/trail_differences.h"

namespace msda::replay {

// equal, first, after, notes and compared.
Json trail_json(const TrailRun& a, const TrailRun& b, const TrailDifferences& differences);

// A word of parameters: "0x000000003f800000", "an address", or null where there is none.
Json word_json(uint64_t word, bool is_there);

}  // namespace msda::replay
