// Whether wrong values are wrong in one way: a common ratio to the right ones, or a common offset.
#pragma once

#include <string>
#include <vector>

#include "analysis/groups.h"
#include "analysis/tensor.h"

namespace msda::analysis {

// The patterns of a group's values beside the right ones; empty if there is no simple one.
std::vector<Pattern> find_patterns(const Call& call, const Group& group, const Tensor& wrong, const Tensor& right);

// The mistake that such patterns are known from, in words that follow "as if"; empty if there is none. The group's
// extents and patterns are filled in.
std::string mistake_of(const Call& call, const Group& group);

}  // namespace msda::analysis
