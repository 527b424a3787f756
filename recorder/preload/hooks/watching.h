// What watches all of a program's work, whatever it is: a survey, or a trail.
#pragma once

#include "recorder/preload/survey/survey.h"
#include "recorder/preload/trail/trail.h"

namespace msda::record {

// Whether what this thread does is the program's, and watched.
inline bool watches_all() { return config().watches_all() && !inside; }

// Of a hook that may be the twin for per-thread default streams.
cuda::Stream stream_of(const auto& hook, cuda::Stream stream) {
  return stream == nullptr && hook.per_thread() ? cuda::kStreamPerThread : stream;
}

// The same of an event, and of a context.
auto stream_of(const auto&, auto other) { return other; }

// Null: nobody needs to know them.
inline KnownGraphs* watched_graphs() {
  if (surveys()) return &Survey::instance().graphs();
  return trails() ? &Trail::instance().graphs() : nullptr;
}

}  // namespace msda::record
