// How often tests failed for a finding, night by night, from the files that --tally wrote.
#pragma once

#include <string>
#include <vector>

#include "replay/base/json.h"

namespace msda::replay {

// Reads tallies; a folder stands for the files in it that end in ".json". Returns them in the order of their recording.
// Throws BadInput if there are none, or if a file is no tally.
std::vector<Json> read_tallies(const std::vector<std::string>& paths);

// Returns the page on them: for each test and finding the rate of each night, and that of all with its interval.
std::string html_of_trend(const std::vector<Json>& tallies);

// "3 findings in 2 of 40 tests, in 14 nights."
std::string trend_summary(const std::vector<Json>& tallies);

}  // namespace msda::replay
