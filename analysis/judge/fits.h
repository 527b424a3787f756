// Whether a side's gradients are those of other conventions than the call's.
#pragma once

#include <string>
#include <vector>

#include "analysis/judge/groups.h"
#include "analysis/model/side.h"
#include "analysis/numbers/compare.h"

namespace msda::analysis {

// Returns the texts of the call's alternatives that explain all gradients of the side, where the call itself does not
// explain elements in `groups`. Those with the fewest changes come first.
std::vector<std::string> fitting_alternatives(const Call& call, const Side& side, const std::vector<Group>& groups,
                                              const Tolerance& tolerance);

}  // namespace msda::analysis
