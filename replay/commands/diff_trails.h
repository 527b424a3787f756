// msda-replay diff of runs whose trails were recorded.
#pragma once

#include <string>
#include <vector>

namespace msda::replay {

struct TrailsToCompare {
  std::vector<std::string> operands;  // files, or folders with a file for each rank
  std::string page, json;             // where to write these, too
  bool quiet = false;
};

// Returns whether one of them is a folder, or a capture with a trail. Throws capture::Error.
bool are_trails(const std::vector<std::string>& operands);

// Returns the exit status.
int diff_trails(const TrailsToCompare& trails);

}  // namespace msda::replay
