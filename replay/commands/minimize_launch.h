// minimize of launches of which only the machine code is known: launches them again, each time as a smaller one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "recorder/capture/isolated_reader.h"
#include "replay/base/options.h"
#include "replay/base/progress.h"

namespace msda::replay {

struct MinimizeLaunch {
  const Options& options;  // `repeat`: launches of each trial
  const capture::IsolatedReader& reader;
  const std::string& output;
  bool replace = false;
  int64_t most_trials = 0;
};

// Minimizes the first of these invocations whose launches differ. Returns the exit status. Throws Unavailable if none
// can be launched here, and BadInput if all that can be launched give equal results.
int minimize_launch(const MinimizeLaunch& what, const std::vector<int64_t>& invocations, const Progress& progress);

}  // namespace msda::replay
