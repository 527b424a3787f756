// Who is wrong, from what was found: the gravest fault of all findings, and a sentence for a person.
#pragma once

#include <vector>

#include "analysis/analyze.h"

namespace msda::analysis {

Verdict judge(const std::vector<Finding>& findings, bool has_reference, int64_t explained_by_rounding,
              int64_t not_examined);

}  // namespace msda::analysis
