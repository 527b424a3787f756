// The smallest call in which one element is still out of tolerance for the same cause, at the fault of the same side.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/judge/analyze.h"
#include "analysis/shrink/small_call.h"

namespace msda::analysis {

// What must stay: an element, and what was found about it.
struct MinimizeTarget {
  Gradient gradient;
  int64_t flat = 0;  // of the whole call
  Cause cause = Cause::kImplementationError;
  AtFault at_fault = AtFault::kNone;
  std::string against;
  bool advisory = false;
};

// How far the search has come; with it another search continues.
struct Reached {
  Recipe recipe;
  int64_t trials = 0;
  double seconds = 0;
};

struct MinimizeSettings {
  std::optional<Tolerance> tolerance;
  bool customary = false;  // as in Settings
  int threads = 0;
  // Called after every trial with what is being tried ("query"), and whether the call became smaller.
  std::function<void(const std::string& step, const Reached& reached, bool smaller)> report;
  std::function<bool()> stop;  // asked before each trial; true ends the search
};

struct Minimized {
  Reached reached;
  std::unique_ptr<SmallCall> call;  // null: stopped before the first trial
  int64_t flat = 0;                 // the element in the small call
  bool finished = false;            // else it was stopped
  bool is_headline = false;         // the first group of findings is that of the element
  Report report;                    // of the small call
};

// Starts at `from`, if given, or else at the whole call. Nothing if the target's finding is not there at the start.
std::optional<Minimized> minimize(const Material& whole, const MinimizeTarget& target,
                                  const std::optional<Reached>& from, const MinimizeSettings& settings);

}  // namespace msda::analysis
