// The files of a run of several ranks.
#pragma once

#include <string>
#include <vector>

namespace msda::replay {

struct RankFiles {
  std::string rank, a, b;  // the file of each run
};

// Pairs the captures of two folders: by their ranks (RANK in the recorded environment), or by file names. Throws
// BadInput if a rank has no partner.
std::vector<RankFiles> paired_ranks(const std::string& folder_a, const std::string& folder_b);

}  // namespace msda::replay
