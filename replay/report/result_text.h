// The result of `run` as text.
#pragma once

#include "replay/report/diagnosis.h"

namespace msda::replay {

// Returns a line for each.
Lines to_text(const std::vector<NotReplayed>& not_replayed);

// Returns the verdict; for each invocation that has more to report, each group of elements out of tolerance; with
// `verbose` all invocations, with the table of their comparisons; with `quiet` the verdict alone.
Page to_text(const std::string& capture, const std::vector<InvocationResult>& results,
             const std::vector<Relaunched>& relaunched, const std::vector<NotReplayed>& not_replayed,
             const Conclusion& conclusion, const ReportSettings& settings);

}  // namespace msda::replay
