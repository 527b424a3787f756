// Differences of trails as text.
#pragma once

#include "replay/base/lines.h"
#include "replay/diff/trail_differences.h"

namespace msda::replay {

// Returns all lines but the first.
Lines trail_text(const TrailRun& a, const TrailRun& b, const TrailDifferences& differences);

// Returns where the runs part: "at launch 1,204 of 5,312: at::native::index_put_kernel".
std::string place_text(const TrailRun& a, const TrailRun& b, const TrailPart& part);

// Returns what a kind of divergence means.
const char* meaning_of(TrailDivergence divergence);

// Returns "0x000000003f800000 (1065353216, 1.0f)".
std::string word_text(uint64_t word, bool is_there);

}  // namespace msda::replay
