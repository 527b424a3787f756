// How a short call's backward pass is divided among the blocks of a single launch (at_once.cuh). Nothing here changes a
// bit of the results.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/cuda/msda/problem.h"

namespace msda::kernels::cuda {

// The most samples of a head and level, and of a call. On an H200 calls with lists of 1,200 take 0.53 to 0.81 of the
// time of several launches, those with 3,000 1.3 times as long.
inline constexpr int64_t kAtOnceSamples = 1280, kAtOnceCall = int64_t{1} << 18;

// A level of every head, cut into parts of whole rows of pixels, each summed up by a block.
struct LevelParts {
  Division by_width;
  uint32_t first_part;  // the number of a head's parts in levels before
  uint32_t rows;        // of a part
};

struct AtOncePlan {
  LevelParts levels[Levels::kNear];
  uint32_t parts = 0;       // of one head
  uint32_t most_cells = 0;  // that the samples of a part can have, a multiple of eight and more than any part's
};

// Returns how many cells have samples that can contribute to the pixels of so many rows.
inline int64_t cells_of_rows(const Level& level, int64_t rows) { return (rows + 1) * (int64_t{level.width} + 1); }

// Cuts the levels of `heads` heads, with so many samples each, into about `blocks` parts of about equal work.
inline AtOncePlan make_at_once_plan(const std::vector<Level>& levels, int64_t heads, int64_t samples, int64_t blocks) {
  const auto work_of = [samples](const Level& level) { return int64_t{level.height} * level.width + samples; };
  int64_t all = 0;
  for (const Level& level : levels) all += heads * work_of(level);
  // A block reads the locations of all samples of its level, which fewer pixels would not repay.
  const int64_t least = 64 + samples / 8, work = std::max(least, all / std::max<int64_t>(blocks, 1));
  AtOncePlan plan;
  for (size_t l = 0; l < levels.size(); ++l) {
    const Level& level = levels[l];
    const int64_t wanted = std::clamp<int64_t>((work_of(level) + work / 2) / work, 1, level.height);
    const int64_t rows = (level.height + wanted - 1) / wanted;
    plan.levels[l] = {Division(level.width), plan.parts, static_cast<uint32_t>(rows)};
    plan.parts += static_cast<uint32_t>((level.height + rows - 1) / rows);
    plan.most_cells = std::max(plan.most_cells, static_cast<uint32_t>(cells_of_rows(level, rows) / 8 * 8 + 8));
  }
  return plan;
}

}  // namespace msda::kernels::cuda
