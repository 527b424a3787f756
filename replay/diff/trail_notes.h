// What differs between two runs, or is unknown, without deciding where they part.
#pragma once

#include <string>
#include <vector>

#include "replay/diff/trail_alignment.h"
#include "replay/diff/trail_pairs.h"

namespace msda::replay {

// What was found: the gap at which the runs part, if it is one, and the row of A from which on they do.
struct TrailDecision {
  const TrailGap* gap = nullptr;
  bool is_different = false;
  size_t from = 0;
  std::vector<size_t> without_effect;  // pairs with other results that nothing after them shows
};

std::vector<std::string> notes_of(const TrailRun& a, const TrailRun& b, const TrailAlignment& alignment,
                                  const std::vector<ComparedPair>& pairs, const TrailDecision& decision);

}  // namespace msda::replay
