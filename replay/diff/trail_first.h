// Which pair of rows, or which stretch of rows without partner, is the first at which two runs part.
#pragma once

#include <optional>
#include <vector>

#include "replay/diff/trail_alignment.h"
#include "replay/diff/trail_differences.h"
#include "replay/diff/trail_pairs.h"

namespace msda::replay {

struct FirstDivergence {
  std::optional<TrailPart> part;  // nothing if the runs are equal
  const TrailGap* gap = nullptr;  // the gap at which they part, if it is one
  // Places in the list of pairs, before the part, of other results that nothing after them shows.
  std::vector<size_t> without_effect;
};

FirstDivergence find_first(const TrailRun& a, const TrailRun& b, const TrailAlignment& alignment,
                           const std::vector<ComparedPair>& pairs);

}  // namespace msda::replay
