// Who is wrong, from what was found, and a sentence for a person.
#pragma once

#include <vector>

#include "analysis/judge/analyze.h"

namespace msda::analysis {

// Judges the groups of a call; `counts` has the elements that were counted beside them. Advice decides nothing, but the
// summary reports it if there is nothing else.
Verdict judge(const Call& call, const std::vector<Group>& groups, bool has_reference, const Verdict& counts);

// Adds to the summary what the conventions tried say: those that fit, and whether the recorded side and the reference
// agree where float64 does not. `of_samples`: the gradients that were tried are those of samples.
void doubt(Verdict& verdict, const std::vector<std::string>& fits, bool sides_agree, bool of_samples);

}  // namespace msda::analysis
