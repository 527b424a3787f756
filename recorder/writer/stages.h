// The intermediate tensors of a recorded call, computed anew from its recorded inputs: here, in the writer's process,
// never in the program that is recorded.
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
// Of the words none, summary and full; empty for any other.
std::optional<Stages> stages_from(std::string_view word);

// Why a call's stages cannot be computed, in one line.
struct NoStages : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Memory for the numbers of stages at a time.
inline constexpr int64_t kStageMemory = int64_t{96} << 20;

// Computes every stage in the arithmetic that a kernel on these inputs has, float32 or, if one of them is float64,
// that; and in float64 beside it. Adds their summaries to the invocation that `writer` has open, and with `full` the
// tensors of the first. Works through the call in parts, so that a large one takes no more than about twice `memory`
// bytes beside the inputs; the result does not depend on it.
//
// `inputs` are the recorded ones by name, row-major. Throws NoStages or capture::Error; what was added until then is
// for Writer::drop_stages().
void add_stages(const capture::CallFacts& facts, const std::map<std::string, capture::TensorView>& inputs, bool full,
                int64_t memory, capture::Writer& writer);

}  // namespace msda::record
