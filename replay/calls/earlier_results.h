// What earlier calls in a capture returned: an output buffer that was not zeroed may still hold it.
#pragma once

#include <vector>

#include "analysis/leftover.h"
#include "recorder/capture/isolated_reader.h"

namespace msda::replay {

// The gradients of the calls before `invocation`, the latest first; of very many the latest only. Their data are read
// when asked for, by the reader, and kept with the result.
std::vector<analysis::EarlierResult> earlier_results(const capture::IsolatedReader& reader, int64_t invocation);

}  // namespace msda::replay
