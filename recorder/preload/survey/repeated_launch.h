// A launch that was run again: whether it varied, and why.
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

// Waits for its extra launches, and counts what they gave. Whether it varied; `number` is the launch's among the
// program's. Nothing if the driver or the device failed.
std::optional<bool> count_result(const RepeatedLaunch& launch, int64_t number);

// Of one that varied, on memory as it left it: why, and whatever else can be found out without its thread.
void explain(const Launched& launched, RepeatedLaunch& repeated, const Unwritten& unwritten);

// Records it for the replay, if it is the first of its kernel; not if its memory is found by pointers in memory, or by
// its code: it cannot be repeated elsewhere. `unwritten`: of its memory.
void keep(const Launched& launched, RepeatedLaunch& repeated, std::span<const UnwrittenMemory> unwritten);

}  // namespace msda::record
