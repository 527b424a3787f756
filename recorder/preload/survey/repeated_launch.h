// Keeps a launch that was run again, and finds out whether it varied, and why.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "recorder/preload/launch/launch.h"
#include "recorder/preload/survey/surveyed_kernel.h"
#include "recorder/preload/survey/trial.h"
#include "recorder/preload/survey/unwritten.h"

namespace msda::record {

struct RepeatedLaunch {
  SurveyedKernel* kernel = nullptr;
  bool has_more_memory = false;  // than its parameters name
  Trial trial;
};

// Waits for its extra launches, and counts their results. Returns whether it varied; nothing if the driver or the
// device failed. `number` is the launch's among the program's.
std::optional<bool> count_result(const RepeatedLaunch& launch, int64_t number);

// Finds out why a launch varied, on memory as it left it, and whatever else needs no other thread.
void explain(const Launched& launched, RepeatedLaunch& repeated, const Unwritten& unwritten);

// Records it for the replay, if it is the first of its kernel. A launch whose memory is found by pointers in memory, or
// by its code, is not recorded: it cannot be repeated elsewhere. `unwritten` describes its memory.
void keep(const Launched& launched, RepeatedLaunch& repeated, std::span<const UnwrittenMemory> unwritten);

}  // namespace msda::record
