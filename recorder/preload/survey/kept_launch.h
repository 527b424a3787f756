// Records a launch that varied, for the replay: as a call of its operator if an adapter knows the kernel, and otherwise
// with its code, its parameters, and the memory that they point into, before and after.
#pragma once

#include <span>

#include "recorder/preload/launch/launch.h"
#include "recorder/preload/survey/surveyed_kernel.h"
#include "recorder/preload/survey/trial.h"
#include "recorder/preload/survey/unwritten.h"

namespace msda::record {

// Call it after the trial's run(): memory is as after the program's launch, and stays so. Returns false if the launch
// cannot be recorded. `unwritten` is what nobody had written before the launch.
bool keep_launch(const Launched& launched, const SurveyedKernel& kernel, Trial& trial,
                 std::span<const UnwrittenMemory> unwritten);

}  // namespace msda::record
