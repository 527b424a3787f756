// One command over many captures, divided among ranks: each capture is one rank's, and the first rank gets what all
// found, in the order in which the captures were named.
#pragma once

#include <nlohmann/json.hpp>

#include <functional>
#include <string>
#include <vector>

#include "replay/base/options.h"
#include "replay/many/ranks.h"

namespace msda::replay {

// Whether the command is to report on several captures: several are named, or a folder, or there are several ranks.
bool takes_many(const Options& options, const Ranks& ranks);

// What a command found in one capture: an object that begins with "capture" and "status" (errors.h), and has "error",
// the message, if the capture could not be read or judged.
using Outcome = nlohmann::ordered_json;

// Calls `one` for each capture of this rank, with options whose `capture` it is; it may throw. Then calls `report` with
// all outcomes, on the first rank. A folder stands for its files *.h5, by name. Throws BadInput if there are none.
// Returns the exit status, the same on all ranks: bad input if a capture could not be read, otherwise unavailable if
// one could not be judged here, otherwise drift if there is any.
int over_captures(const Options& options, const Ranks& ranks, const std::function<Outcome(const Options&)>& one,
                  const std::function<void(const std::vector<Outcome>&)>& report);

}  // namespace msda::replay
