// Whether wrong values are wrong in one way: a common ratio to the right ones, or a common offset.
#pragma once

#include <vector>

#include "analysis/judge/groups.h"
#include "analysis/numbers/tensor.h"

namespace msda::analysis {

// Returns the patterns of a group's values beside the right ones; empty if there is no simple one.
std::vector<Pattern> find_patterns(const Call& call, const Group& group, const Tensor& wrong, const Tensor& right);

}  // namespace msda::analysis
