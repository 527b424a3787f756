// Mistakes of kernels that scatter, which show in all wrong values of a group together.
#pragma once

#include <string>

#include "analysis/judge/groups.h"

namespace msda::analysis {

// Returns the mistake, in words that follow "as if": k launches' sum, a shifted index, swapped axes, a source that was
// read as if contiguous, the last samples lost. Empty if it is none of these, or if chance may look so.
std::string scatter_mistake(const Call& call, const Group& group, const Tensor& wrong, const Tensor& right);

}  // namespace msda::analysis
