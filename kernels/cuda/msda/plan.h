// How a backward pass is divided among blocks of threads, and where its intermediate results lie. Nothing here changes
// a bit of the results.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/cuda/msda/problem.h"
#include "kernels/sample.h"

namespace msda::kernels::cuda {

inline constexpr int kGroupThreads = 512;
inline constexpr int64_t kManySamples = 4096;  // of one cell; its runs are then summed in parallel

// One level. The samples of a batch, head and level are grouped by cell in chunks, each by a block.
struct LevelPlan {
  Level level;
  Division by_width, by_cells_of_row;
  uint32_t cells;   // cells_of(level)
  uint32_t stride;  // more than cells, a multiple of eight: from one table of cells to the next
  uint32_t chunks, chunk_samples;
  uint32_t first_chunk;  // the number of a head's chunks in levels before
  uint32_t most_runs;    // of one head
  uint32_t segment;      // samples that one group of threads sums up, more or less
  uint32_t first_block;  // the number of a head's blocks that sum up levels before
  int64_t first_count;   // [head][chunk, and one more][stride] from here on
  int64_t first_cell;    // [head][stride]
  int64_t first_run;     // [head][most_runs]
};

// The plans of all levels, in the kernels' parameters if they fit, which saves a copy to the device.
struct LevelPlans {
  const LevelPlan* far;  // in device memory, or null
  LevelPlan near[Levels::kNear];
};

// The bits of a sample's number (query << Points::bits | point), which also bound a level's cells, and the bits of its
// place in the grouped list.
inline constexpr int kNumberBits = 29, kPlaceBits = 27;

// Queries and points of a sample's place in the order of (query, point).
struct Points {
  Division by_count;
  uint32_t bits = 0;
  explicit Points(int64_t P) : by_count(P) {
    while ((int64_t{1} << bits) < P) ++bits;
  }
};

// Returns the most runs that the samples of a batch, head and level can have.
inline int64_t most_runs(int64_t samples, const Level& level) {
  return std::min(samples, cpu::cells_of(level) + samples / kRun);
}

struct Plan {
  Plan(int64_t H, int64_t P) : heads(H), points(P) {}
  int64_t heads;  // batches * heads
  Points points;
  std::vector<LevelPlan> levels;
  int64_t counts = 0, cells = 0, runs = 0;  // elements of each table
  uint32_t chunks = 0;                      // of one head, all levels
  uint32_t blocks = 0;                      // that sum up one head's runs
  int64_t most_cells = 0;                   // of one level: the largest stride
  int64_t most_hot = 0;                     // cells of one batch, head and level that can have many samples
};

// The blocks that sum up runs: how many groups of threads each has, and how many blocks the device runs at a time.
struct RunBlocks {
  int64_t groups, at_a_time;
};

// Divides the runs of a head among blocks with about equal work: as many blocks as the device runs at a time, or a
// multiple of that if segments would become so long that the lists being read do not fit into the second-level cache.
inline void divide_runs(Plan& plan, int64_t samples, const RunBlocks& blocks) {
  constexpr int64_t kShortest = 8, kLongest = 64;
  constexpr double kCellCost = 2;  // of a cell's first run, in samples
  const auto blocks_of = [&](int64_t segment) {
    return (samples + segment * blocks.groups - 1) / (segment * blocks.groups);
  };
  const int64_t least = blocks_of(2 * kLongest), most = blocks_of(kShortest);
  const int64_t room = std::max<int64_t>(blocks.at_a_time / plan.heads, 1);
  const int64_t wanted = static_cast<int64_t>(plan.levels.size()) * blocks_of(kLongest);
  int64_t left = (wanted + room - 1) / room * room;

  struct Part {
    double cost;
    int64_t blocks;
  };
  std::vector<Part> parts;
  double all_cost = 0;
  for (const LevelPlan& level_plan : plan.levels) {
    // The expected number of cells with a sample if samples are distributed evenly.
    const double filled = level_plan.cells * -std::expm1(-static_cast<double>(samples) / level_plan.cells);
    parts.push_back({static_cast<double>(samples) + kCellCost * filled, 0});
    all_cost += parts.back().cost;
  }
  const double of_all = static_cast<double>(left) / all_cost;
  for (Part& part : parts) {
    part.blocks = std::clamp(static_cast<int64_t>(part.cost * of_all), least, most);
    left -= part.blocks;
  }
  // The remaining blocks go to the levels whose blocks have the most work.
  const auto cost_of_block = [&](const Part& part) {
    return part.blocks < most ? part.cost / static_cast<double>(part.blocks) : 0.0;
  };
  const auto less = [&](const Part& a, const Part& b) { return cost_of_block(a) < cost_of_block(b); };
  for (; left > 0; --left) ++std::max_element(parts.begin(), parts.end(), less)->blocks;

  for (size_t l = 0; l < parts.size(); ++l) {
    LevelPlan& level_plan = plan.levels[l];
    const int64_t groups = parts[l].blocks * blocks.groups;
    level_plan.segment = static_cast<uint32_t>(std::max(kShortest, (samples + groups - 1) / groups));
    level_plan.first_block = plan.blocks;
    plan.blocks += static_cast<uint32_t>(blocks_of(level_plan.segment));
  }
}

inline Plan make_plan(const std::vector<Level>& levels, int64_t heads, int64_t Q, int64_t P, const RunBlocks& blocks) {
  Plan plan(heads, P);
  const int64_t samples = Q * P, all = samples * heads * static_cast<int64_t>(levels.size());
  plan.most_hot = (samples - 1) / kManySamples;
  for (const Level& level : levels) {
    LevelPlan level_plan{};
    level_plan.level = level;
    level_plan.by_width = Division(level.width);
    level_plan.by_cells_of_row = Division(int64_t{level.width} + 1);
    const int64_t cells = cpu::cells_of(level);
    // A chunk has at least half as many samples as there are cells to count, and at least 1024, or 4096 if there are
    // many.
    const int64_t wanted = std::max<int64_t>(all < (int64_t{1} << 20) ? 1024 : 4096, cells / 2);
    level_plan.cells = static_cast<uint32_t>(cells);
    level_plan.stride = static_cast<uint32_t>(cells / 8 * 8 + 8);
    level_plan.chunks = static_cast<uint32_t>((samples + wanted - 1) / wanted);
    const int64_t each = (samples + level_plan.chunks - 1) / level_plan.chunks;
    level_plan.chunk_samples = static_cast<uint32_t>((each + kGroupThreads - 1) / kGroupThreads * kGroupThreads);
    level_plan.chunks = static_cast<uint32_t>((samples + level_plan.chunk_samples - 1) / level_plan.chunk_samples);
    level_plan.most_runs = static_cast<uint32_t>(most_runs(samples, level));
    level_plan.first_chunk = plan.chunks;
    level_plan.first_count = plan.counts;
    level_plan.first_cell = plan.cells;
    level_plan.first_run = plan.runs;
    plan.chunks += level_plan.chunks;
    plan.counts += heads * (level_plan.chunks + 1) * level_plan.stride;
    plan.most_cells = std::max(plan.most_cells, int64_t{level_plan.stride});
    plan.cells += heads * level_plan.stride;
    plan.runs += heads * level_plan.most_runs;
    plan.levels.push_back(level_plan);
  }
  divide_runs(plan, samples, blocks);
  return plan;
}

}  // namespace msda::kernels::cuda
