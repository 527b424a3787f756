// Which row of one trail corresponds to which row of the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "replay/diff/trail_run.h"

namespace msda::replay {

// Consecutive rows of one stream that have no partner.
struct TrailGap {
  std::vector<size_t> a, b;
  size_t at = 0;  // the row of A before which it lies; with `a`, the first of them
};

struct TrailAlignment {
  std::vector<std::pair<size_t, size_t>> pairs;  // rows of A and of B, ascending by those of A
  std::vector<TrailGap> gaps;                    // ascending by `at`
  // Allocations with what they held before their first use, in the same order; they are no rows of the alignment.
  std::vector<std::pair<size_t, size_t>> fresh;
  int64_t measuring = 0;  // rows with which a tuner measures, in A and B together; they are left out
};

// Aligns stream by stream, because streams may overtake one another. Streams are numbered by their first use, in which
// threads may overtake one another, too: streams that launch the same are paired. Leaves out rows of one run after the
// other one's recording ended early.
TrailAlignment align_trails(const TrailRun& a, const TrailRun& b);

}  // namespace msda::replay
