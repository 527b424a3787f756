// Where two runs part, by their trails: the first launch at which they do, and what follows. docs/trail.md explains it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "replay/diff/trail_alignment.h"
#include "replay/diff/trail_pairs.h"
#include "replay/diff/trail_run.h"

namespace msda::replay {

enum class TrailDivergence { kAnotherKernel, kOtherParameters, kOtherInput, kOtherOutput, kOnlyInA, kOnlyInB };
const char* name_of(TrailDivergence divergence);

// Where two runs part: a pair of rows, or a stretch of one or both that has no partner.
struct TrailPart {
  TrailDivergence kind = TrailDivergence::kOtherOutput;
  std::vector<size_t> a, b;
  std::vector<ParameterDifference> parameters;  // of a pair
  std::string cause;                            // by trail_causes.h; empty if the files do not show it
  std::vector<std::string> evidence;
  size_t shown_at = 0;  // the row of A at which results differ for certain; the runs may part before it
  bool is_pair() const { return a.size() == 1 && b.size() == 1; }
};

struct TrailDifferences {
  std::optional<TrailPart> first;
  // From the first on: all rows, and those that differ, have no partner, or cannot be compared.
  struct {
    int64_t rows = 0, differ = 0, unpaired = 0, unknown = 0;
  } after;
  // Pairs whose results were compared, and pairs and rows that were not.
  struct {
    int64_t launches = 0, copies = 0, sets = 0, unknown = 0, measuring = 0;
    int64_t ended_early = 0;  // recordings
    int64_t results() const { return launches + copies + sets; }
  } compared;
  std::vector<std::string> notes;  // what differs and does not decide
  // Some rows before the first and after it, in A's order.
  struct Beside {
    std::optional<size_t> a, b;
    PairResult result;  // of a pair
  };
  std::vector<Beside> around;
};

TrailDifferences find_differences(const TrailRun& a, const TrailRun& b);

// Returns "launch 12", or "the copy from the host before launch 13".
std::string where_of(const TrailRun& run, size_t row);
// Returns the kernel's name as its source has it, shortened; for other rows what they are.
std::string what_of(const TrailRun& run, size_t row, size_t columns);

}  // namespace msda::replay
