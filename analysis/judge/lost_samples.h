// A kernel that leaves out the last samples, such as a last block that is not full.
#pragma once

#include <string>

#include "analysis/judge/groups.h"

namespace msda::analysis {

// Returns from which sample on all are missing from the wrong sums of a group, in words that follow "as if"; empty if
// there is no such sample.
std::string lost_samples(const Call& call, const Group& group, const Tensor& wrong, const Tensor& right);

}  // namespace msda::analysis
