// Whether a call's gradients follow other conventions than the capture says.
#pragma once

#include <string>
#include <vector>

#include "analysis/groups.h"
#include "analysis/operators/msda/call.h"
#include "analysis/side.h"

namespace msda::analysis {

// The other dialects, paddings, values of align_corners and orders of spatial_shapes that explain what the side
// recorded where the call's own do not. The fewest changes first; empty if none fits.
std::vector<Fit> fitting_conventions(const MsdaCall& call, const Side& recorded, const std::vector<Group>& groups,
                                     const Tolerance& tolerance);

}  // namespace msda::analysis
