// Who is wrong, from what was found, and a sentence for a person.
#pragma once

#include <vector>

#include "analysis/analyze.h"

namespace msda::analysis {

Verdict judge(const std::vector<JudgedElements>& judged, bool has_reference, int64_t explained_by_rounding);

}  // namespace msda::analysis
