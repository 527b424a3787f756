// A group of elements out of tolerance as a diagnosis: what is wrong, where, why, and what to do next.
#pragma once

#include <string>

#include "replay/report/page.h"
#include "replay/report/result.h"
#include "replay/report/words.h"

namespace msda::replay {

// How much is printed, and how the commands that are proposed name the capture.
struct ReportSettings {
  bool quiet = false, verbose = false;
  Terminal terminal;
  // The words of a command line: the capture, and the flags that decide what is compared; of several captures, only
  // these, after a space.
  std::string capture_flags;
};

// `several` invocations: the commands name theirs.
void add_diagnosis(Page& page, const analysis::Group& group, const InvocationResult& result,
                   const ReportSettings& settings, bool several);

// "error[cell_boundary]: the reference is wrong in 1 element of grad_sampling_locations"
void add_title(Page& page, const GroupTitle& group);

}  // namespace msda::replay
