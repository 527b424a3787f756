// What `run` and `stages` found in invocations, and their tensors, as scalars, histograms, images and text for
// TensorBoard.
#pragma once

#include <string>

#include "replay/base/json.h"
#include "replay/export/event_file.h"
#include "replay/modes/replays.h"
#include "replay/report/result.h"

namespace msda::replay {

// Where an invocation is shown: its step, and how the tags begin of calls that are curves of their own.
struct Curve {
  int64_t step = 0;
  std::string prefix;
};

// `stages`: the summary of all stages (stages/stage_table.h).
void add_to_events(EventFile& events, const Curve& curve, const InvocationResult& result, const LoadedCall& loaded,
                   const Replays& replays, const Json& stages);

}  // namespace msda::replay
