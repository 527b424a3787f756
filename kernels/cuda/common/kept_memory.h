// Device memory that a call leaves for the next one on its stream, which then neither allocates nor frees any, and
// whose kernels' parameters can be those of a kept graph.
#pragma once

#include <cstddef>

#include "kernels/cuda/common/memory.h"

namespace msda::kernels::cuda {

inline constexpr size_t kMostKeptBytes = size_t{128} << 20;       // of a call; more is not left
inline constexpr size_t kMostKeptOfContext = 2 * kMostKeptBytes;  // of all streams

// Takes the stream's block out, so that it belongs to one call at a time; if there is none, one without bytes. Only if
// target.can_keep().
Memory take_kept(Target& target);

// Leaves the memory for the stream's next call, whose work runs after this one's. Frees it, or what has been left
// meanwhile if that is smaller, if there is no room for both.
void leave(Memory memory, Target& target) noexcept;

}  // namespace msda::kernels::cuda
