// The stages of a call in float32 and float64: a summary of all samples, and single elements stage by stage.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "analysis/judge/analyze.h"
#include "replay/base/json.h"
#include "replay/base/lines.h"
#include "replay/base/progress.h"
#include "replay/calls/loaded_call.h"
#include "replay/modes/devices.h"
#include "replay/stages/stage_tensors.h"

namespace msda::replay {

// Returns for each stage extremes, NaN and infinities of the deterministic float32 replay and of float64, and their
// distance; and `recorded`, if the capture has the stage: the same for it, and its difference from the replay.
Json stage_summary(const LoadedCall& loaded, const StageTensors& recorded, int threads, Devices& devices,
                   const Progress& progress);

// One element through the stages: each number as recorded (if the stage's tensor was), in float32 with the conventions
// that the operator shows side by side (Call::conventions_to_show), and in float64; and `first_drift`, the first stage
// in which a float32 side is out of `tolerance` against float64 (for the cell: differs at all), or null.
Json stages_of_element(const LoadedCall& loaded, const StageTensors& recorded, const analysis::ElementId& element,
                       const analysis::Tolerance& tolerance);

Lines summary_text(const Json& summary);
Lines element_text(const Json& element);

}  // namespace msda::replay
