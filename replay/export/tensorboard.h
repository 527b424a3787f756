// What `run` found in invocations, as scalars, histograms, images and text for TensorBoard. A step is an invocation.
#pragma once

#include "replay/export/event_file.h"
#include "replay/modes/replays.h"
#include "replay/report/result.h"

namespace msda::replay {

void add_to_events(EventFile& events, const InvocationResult& result, const LoadedCall& loaded, const Replays& replays);

}  // namespace msda::replay
