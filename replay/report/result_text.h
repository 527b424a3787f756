// The result of `run` as text.
#pragma once

#include "replay/report/diagnosis.h"

namespace msda::replay {

// A line for each.
Lines to_text(const std::vector<NotReplayed>& not_replayed);

// The verdict; of each invocation of which there is more to tell, each group of elements out of tolerance; with
// `verbose` all invocations, with the table of their comparisons; with `quiet` the verdict alone.
Page to_text(const std::string& capture, const std::vector<InvocationResult>& results,
             const std::vector<Relaunched>& relaunched, const std::vector<NotReplayed>& not_replayed,
             const Conclusion& conclusion, const ReportSettings& settings);

}  // namespace msda::replay
