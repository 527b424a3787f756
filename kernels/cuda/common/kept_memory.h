// Device memory that a call leaves for the next one on its stream, which then neither allocates nor frees any, and
// whose kernels' parameters can be those of a kept graph.
#pragma once

#include <cstddef>

#include "kernels/cuda/common/memory.h"

namespace msda::kernels::cuda {

inline constexpr size_t kMostKeptBytes = size_t{128} << 20;       // for a call; larger memory is not kept
inline constexpr size_t kMostKeptOfContext = 2 * kMostKeptBytes;  // for all streams

// Takes the stream's block out, so it belongs to one call at a time; returns one without bytes if there is none.
// Requires target.can_keep().
Memory take_kept(Target& target);

// Keeps the memory for the stream's next call, whose work runs after this one's. If another block has been kept
// meanwhile and there is no room for both, keeps the larger and frees the smaller.
void leave(Memory memory, Target& target) noexcept;

}  // namespace msda::kernels::cuda
