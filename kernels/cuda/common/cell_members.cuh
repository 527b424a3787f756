// The order within a crowded cell, or pixel, of a list that one block groups.
#pragma once

#include "kernels/cuda/common/prefix_sums.cuh"
#include "kernels/sample.h"

namespace msda::kernels::cuda {

inline constexpr int kShortThreads = 1024, kShortEach = 4;
inline constexpr int64_t kShortList = kShortThreads * kShortEach;  // samples

// Which samples of a list are in one cell, and how many of them are in the preceding groups of four words.
struct CellMembers {
  static constexpr uint32_t kWords = kShortList / 32;
  uint32_t words[kWords];
  uint16_t before[kWords / 4];
  __device__ void add(uint32_t sample) { atomicOr(&words[sample / 32], 1u << sample % 32); }
  // All lanes of a warp must call it.
  __device__ void count(unsigned lane) {
    uint32_t mine = 0;
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) mine += __popc(words[4 * lane + i]);
    before[lane] = static_cast<uint16_t>(sum_upto_lane(mine) - mine);
  }
  __device__ uint32_t rank(uint32_t sample) const {
    const uint32_t word = sample / 32;
    uint32_t rank = before[word / 4] + __popc(words[word] & ((1u << sample % 32) - 1));
#pragma unroll 1
    for (uint32_t i = word / 4 * 4; i < word; ++i) rank += __popc(words[i]);
    return rank;
  }
};
static_assert(CellMembers::kWords == 4 * kWarp);

// A cell with more samples has a member list; in other cells each sample is compared with those of its slice and cell.
inline constexpr uint32_t kFewToCompare = 128;
MSDA_HOST_DEVICE inline uint32_t most_crowded(uint32_t samples) { return samples / (kFewToCompare + 1); }

}  // namespace msda::kernels::cuda
