// The stages of a call in float32 beside float64: all samples in numbers, and single elements one stage after the
// other.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "analysis/analyze.h"
#include "replay/devices.h"
#include "replay/lines.h"
#include "replay/loaded_call.h"
#include "replay/progress.h"
#include "replay/stage_tensors.h"

namespace msda::replay {

using Json = nlohmann::ordered_json;

// Per stage: extremes, NaN, infinities of the deterministic float32 replay and of float64, and how far they are apart;
// `recorded`, where the capture has the stage: the same of what was recorded, and how that differs from the replay.
Json stage_summary(const LoadedCall& loaded, const StageTensors& recorded, int threads, Devices& devices,
                   const Progress& progress);

// One element's way through the stages: each number as it was recorded (where tensors of stages were), under the
// recorded conventions in float32, under the reference's (or grid_sample's) in float32, and in float64; and
// `first_drift`, the first stage in which a float32 side is out of `tolerance` against float64 (for the cell: at all
// different), or null.
Json stages_of_element(const LoadedCall& loaded, const StageTensors& recorded, const analysis::ElementId& element,
                       const analysis::Tolerance& tolerance);

Lines summary_text(const Json& summary);
Lines element_text(const Json& element);

}  // namespace msda::replay
