// Whether wrong values are wrong in one way: a common ratio to the right ones, or a common offset.
#pragma once

#include <cmath>
#include <vector>

#include "analysis/judge/groups.h"
#include "analysis/numbers/tensor.h"

namespace msda::analysis {

// Values within this of each other count as one: the last roundings of 16-bit types differ by less.
inline constexpr double kClose = 0.02;
inline bool is_close(double a, double b) { return std::abs(a - b) <= kClose / 2 * std::abs(b); }

// Returns the patterns of a group's values beside the right ones; empty if there is no simple one.
std::vector<Pattern> find_patterns(const Call& call, const Group& group, const Tensor& wrong, const Tensor& right);

}  // namespace msda::analysis
