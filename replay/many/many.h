// One command over many captures, divided among ranks: each capture is one rank's, and the first rank gets what all
// found, in the order in which the captures were named.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "replay/base/json.h"
#include "replay/base/options.h"
#include "replay/many/ranks.h"

namespace msda::replay {

// Calls `task` for each capture, on this process. Returns what it returns, in the order in which the captures were
// named; for a capture that cannot be read an object of "capture", "status" and "error", which is also printed. Sets
// the exit status: bad input if there is such a capture. Throws BadInput as named_captures() does.
Json one_by_one(const Options& options, const std::function<Json(const Options&)>& task, int& status);

// Returns whether the command is to report on several captures: several are named, or a folder, or there are several
// ranks.
bool takes_many(const Options& options, const Ranks& ranks);

// What a command found in one capture: an object that begins with "capture" and "status" (errors.h), and has "error",
// the message, if the capture could not be read or judged.
using Outcome = Json;

// Prints the messages of the captures that could not be read or judged.
void print_errors(const std::vector<Outcome>& outcomes);

// What is done with the outcomes on the first rank. It may change their "status".
using Report = std::function<void(std::vector<Outcome>&)>;
// Completes the outcomes, which the first rank has, with work that the ranks do together: all ranks call it.
using Complete = std::function<void(std::vector<Outcome>&)>;

// Calls `task` for each capture of this rank, with options whose `capture` it is; it may throw. Then calls `complete`,
// if there is one, on all ranks, and `report` with all outcomes on the first. Folders stand for their captures
// (captures.h). Returns the exit status, the same on all ranks: bad input if a capture could not be read, otherwise
// unavailable if one could not be judged here, otherwise drift if there is any.
int over_captures(const Options& options, const Ranks& ranks, const std::function<Outcome(const Options&)>& task,
                  const Report& report, const Complete& complete = {});

// A piece of work for one of the ranks.
struct Work {
  std::string title;  // for the line of progress
  Json what;
  uint64_t cost = 0;  // beside that of the others
};
// Divides the first rank's work among the ranks, all of which must call it, and calls `task` with options of one
// process and the piece; it must not throw. Returns the results on the first rank, in the order of the work.
std::vector<Json> over_work(const Options& options, const Ranks& ranks, const char* noun, const std::vector<Work>& work,
                            const std::function<Json(const Options&, const Json&)>& task);

}  // namespace msda::replay
