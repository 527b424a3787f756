// Computes the intermediate tensors of a recorded call from its recorded inputs, in the writer's process, never in the
// recorded program.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "recorder/capture/writer.h"

namespace msda::record {

enum class Stages { kNone, kSummary, kFull };
// Parses none, summary and full; nothing for any other word.
std::optional<Stages> stages_from(std::string_view word);

// Why a call's stages cannot be computed, in one line.
struct NoStages : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Memory for the numbers of stages that are held at a time.
inline constexpr int64_t kStageMemory = int64_t{96} << 20;

// Computes every stage in the arithmetic of a kernel on these inputs, float32 or, if an input is float64, float64, and
// in float64 for comparison. Adds the summaries to the open invocation of `writer`, and with `full` the tensors of the
// former. Works in parts, so that a large call takes no more than about twice `memory` bytes beside the inputs; the
// parts do not change the result.
//
// `inputs` are the recorded ones by name, row-major. Throws NoStages or capture::Error; Writer::drop_stages() removes
// what was added until then.
void add_stages(const capture::CallFacts& facts, const std::map<std::string, capture::TensorView>& inputs, bool full,
                int64_t memory, capture::Writer& writer);

}  // namespace msda::record
