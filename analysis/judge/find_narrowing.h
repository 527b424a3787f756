// Whether a side computed a gradient with less precision than the call's tensors have, decided by the bits of its
// values.
#pragma once

#include <optional>
#include <vector>

#include "analysis/model/side.h"

namespace msda::analysis {

// `unexplained`: elements that the side's own arithmetic does not explain; they say where to look, and others near them
// are tried as well. A narrowing is found if it explains nearly all of those that it is tried on, and errors of their
// sizes would not fit it by chance. Nothing else is assumed of it: an error that is merely as large as TF32's has other
// bits.
std::optional<FoundNarrowing> find_narrowing(const Call& call, const Side& side, Gradient gradient,
                                             const std::vector<int64_t>& unexplained, Cache& cache);

}  // namespace msda::analysis
