// What surveys and trails, which watch all of a program's work, have in common.
#pragma once

#include "recorder/preload/survey/survey.h"
#include "recorder/preload/trail/trail.h"

namespace msda::record {

// Returns whether what this thread does is the program's, and watched.
inline bool watches_all() { return config().watches_all() && !inside; }

// Returns the stream of a hook that may be the twin for per-thread default streams.
cuda::Stream stream_of(const auto& hook, cuda::Stream stream) {
  return stream == nullptr && hook.per_thread() ? cuda::kStreamPerThread : stream;
}

// Returns an event or a context unchanged.
auto stream_of(const auto&, auto handle) { return handle; }

// Returns null if nobody needs to know them.
inline KnownGraphs* watched_graphs() {
  if (surveys()) return &Survey::instance().graphs();
  return trails() ? &Trail::instance().graphs() : nullptr;
}

}  // namespace msda::record
