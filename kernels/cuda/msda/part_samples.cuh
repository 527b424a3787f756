// The samples that reach a part of a level, found and grouped by cell in a block's shared memory, each cell's in the
// order of (query, point).
#pragma once

#include "kernels/cuda/common/ahead.cuh"
#include "kernels/cuda/common/cell_members.cuh"
#include "kernels/cuda/msda/at_once_plan.h"
#include "kernels/cuda/msda/group.cuh"

namespace msda::kernels::cuda {

inline constexpr int kAtOnceThreads = 256, kAtOnceGroups = kAtOnceThreads / kGroup;
static_assert(kAtOnceSamples <= kShortList);  // which CellMembers hold

// A sample of a cell, as its addends need it.
template <class Real>
struct alignas(4 * sizeof(Real)) PartSample {
  Real attention, fraction_y, fraction_x;
  uint32_t query;
};

// Cells with more samples have their whole runs summed before the pixels are: a pixel's threads would take long.
inline constexpr uint32_t kFoldedSamples = 2 * kRun;

// A block's shared memory.
template <class Real>
struct PartRoom {
  PartSample<Real>* sorted;  // [samples]: by cell; whole runs of crowded cells become four rows of sums, in place
  uint32_t* starts;          // [cells]: counts; then where samples begin
  Two<Real>* spots;          // [samples]: locations; then the fractions of y and x
  Real* attention;           // [samples]
  uint16_t* order;           // [samples]: sorted by cell
  // While samples are ordered, in the place of `sorted`:
  CellMembers* members;  // of cells that are crowded for comparing each sample with each
  uint32_t* found;       // [samples]: the part's, as they were found: cell << 16 | sample
  uint16_t* arrival;     // [samples]: how many of the cell had been found before
  uint16_t* arrived;     // [samples]: each cell's samples as they were found; or the number of its members
  __device__ PartRoom(void* memory, uint32_t samples, uint32_t cells) {
    sorted = static_cast<PartSample<Real>*>(memory);
    starts = reinterpret_cast<uint32_t*>(sorted + samples);
    spots = reinterpret_cast<Two<Real>*>(starts + cells);
    attention = reinterpret_cast<Real*>(spots + samples);
    order = reinterpret_cast<uint16_t*>(attention + samples);
    members = static_cast<CellMembers*>(memory);
    found = reinterpret_cast<uint32_t*>(members + most_crowded(samples));
    arrival = reinterpret_cast<uint16_t*>(found + samples);
    arrived = arrival + samples;
  }
  static constexpr uint32_t kMostCells = 1 << 16;  // that `found` can hold
  static int64_t bytes(int64_t samples, int64_t cells) {
    static_assert(sizeof(CellMembers) <= 5 * (kFewToCompare + 1) && 5 + 8 <= sizeof(PartSample<Real>));
    return samples * int64_t{sizeof(PartSample<Real>) + sizeof(Two<Real>) + sizeof(Real) + 2} + cells * 4;
  }
};

// The part that a block works on.
struct Part {
  uint32_t head;
  int l;
  uint32_t first_row, rows;
};

template <class Stored>
__device__ inline Part part_of(const Problem<Stored>& p, const AtOncePlan& plan, const Division& by_parts) {
  const auto [head, number] = by_parts.divide(blockIdx.x);
  Part part{head, 0, 0, 0};
  while (part.l + 1 < p.L && plan.levels[part.l + 1].first_part <= number) ++part.l;
  const LevelParts& level = plan.levels[part.l];
  part.first_row = (number - level.first_part) * level.rows;
  part.rows = min(level.rows, static_cast<uint32_t>(p.levels.near[part.l].height) - part.first_row);
  return part;
}

inline constexpr uint32_t kPartScanEach = 4;  // cells whose numbers of samples a thread reads at once

// What a block shares beside PartRoom.
struct PartCounts {
  uint32_t sums[kWarp + 1];
  uint32_t found, crowded;
  uint32_t runs;                        // whole runs of cells with more than kFoldedSamples
  uint16_t run[kAtOnceSamples / kRun];  // where they begin among the sorted samples
};

// Copies what all samples of a list hold. Each thread later uses what it has copied itself, after wait_for_copies().
template <class Real>
__device__ inline void copy_samples(const Problem<Real>& p, const SampleIndex& index, uint32_t samples,
                                    const PartRoom<Real>& room) {
#pragma unroll 1
  for (uint32_t i = threadIdx.x; i < samples; i += kAtOnceThreads) {
    const int64_t at = index.of_place(i);
    copy_ahead<sizeof(Real)>(&room.spots[i].at[0], p.sampling_locations + 2 * at);
    copy_ahead<sizeof(Real)>(&room.spots[i].at[1], p.sampling_locations + 2 * at + 1);
    copy_ahead<sizeof(Real)>(&room.attention[i], p.attention_weights + at);
  }
}
// Copies the same with a conversion: a few are under way at the same time.
template <class Stored, class Real>
__device__ inline void copy_samples(const Problem<Stored>& p, const SampleIndex& index, uint32_t samples,
                                    const PartRoom<Real>& room) {
  constexpr int kEach = 5;
#pragma unroll 1
  for (uint32_t tile = threadIdx.x; tile < samples; tile += kEach * kAtOnceThreads) {
    Stored x[kEach], y[kEach], attention[kEach];
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const uint32_t i = tile + k * kAtOnceThreads;
      if (i >= samples) break;
      const int64_t at = index.of_place(i);
      x[k] = p.sampling_locations[2 * at];
      y[k] = p.sampling_locations[2 * at + 1];
      attention[k] = p.attention_weights[at];
    }
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const uint32_t i = tile + k * kAtOnceThreads;
      if (i >= samples) break;
      room.spots[i] = {static_cast<Real>(widened(x[k])), static_cast<Real>(widened(y[k]))};
      room.attention[i] = static_cast<Real>(widened(attention[k]));
    }
  }
}

// Finds the samples that reach the part, with their cells, in any order, and counts each cell's.
template <class Stored, class Real>
__device__ inline void find_samples(const Problem<Stored>& p, const Part& part, uint32_t samples,
                                    const PartRoom<Real>& room, PartCounts& counts) {
  const Level level = p.levels.near[part.l];
  const uint32_t first_cell = part.first_row * (static_cast<uint32_t>(level.width) + 1),
                 cells = (part.rows + 1) * (static_cast<uint32_t>(level.width) + 1);
#pragma unroll 1
  for (uint32_t i = threadIdx.x; i < samples; i += kAtOnceThreads) {
    const Two<Real> location = room.spots[i];
    uint32_t cell = 0;
    with_fixed(p, [&](const auto& call) {
      const Spot<Real> spot = locate_at(call, level, location.at[0], location.at[1]);
      // -1, for a sample that reaches no pixel, becomes larger than any cell of the part.
      cell = static_cast<uint32_t>(cell_of(spot, level)) - first_cell;
      room.spots[i] = {spot.y.fraction, spot.x.fraction};
    });
    if (cell >= cells) continue;
    const auto arrival = static_cast<uint16_t>(atomicAdd(&room.starts[cell], 1u));
    const uint32_t at = atomicAdd(&counts.found, 1u);
    room.found[at] = cell << 16 | i;
    room.arrival[at] = arrival;
  }
}

// Turns the numbers of samples of each cell into where they begin. All threads must call it.
template <class Real>
__device__ inline void scan_part(const PartRoom<Real>& room, uint32_t cells, PartCounts& counts) {
  uint32_t begin = 0;
#pragma unroll 1
  for (uint32_t tile = 0; tile < cells; tile += kPartScanEach * kAtOnceThreads) {
    const uint32_t at = tile + kPartScanEach * threadIdx.x;
    Four<uint32_t> number{};
    auto* const here = reinterpret_cast<Four<uint32_t>*>(room.starts + at);
    if (at < cells) number = *here;
    uint32_t mine = 0, total = 0;
#pragma unroll
    for (uint32_t i = 0; i < kPartScanEach; ++i) mine += number.at[i];
    uint32_t next = begin + sum_before(mine, counts.sums, total);
    begin += total;
    if (at >= cells) continue;
    const uint32_t end = next + mine;
#pragma unroll
    for (uint32_t i = 0; i < kPartScanEach; ++i) {
      const uint32_t of_cell = number.at[i];
      number.at[i] = next;
      next += of_cell;
    }
    *here = number;
    if (mine <= kFoldedSamples) continue;
#pragma unroll 1
    for (uint32_t i = 0; i < kPartScanEach; ++i) {
      const uint32_t first = room.starts[at + i],
                     of_cell = (i + 1 < kPartScanEach ? room.starts[at + i + 1] : end) - first;
      if (of_cell > kFewToCompare) room.arrived[first] = static_cast<uint16_t>(atomicAdd(&counts.crowded, 1u));
      if (of_cell <= kFoldedSamples) continue;
      const uint32_t runs = of_cell / kRun, run = atomicAdd(&counts.runs, runs);
#pragma unroll 1
      for (uint32_t k = 0; k < runs; ++k) counts.run[run + k] = static_cast<uint16_t>(first + k * kRun);
    }
  }
}

// Orders the samples of each cell by (query, point). All threads must call it.
template <class Real>
__device__ inline void order_samples(const PartRoom<Real>& room, const PartCounts& counts) {
  const uint32_t found = counts.found, crowded = counts.crowded;
  const auto for_each_found = [&](auto&& use) {
#pragma unroll 1
    for (uint32_t k = threadIdx.x; k < found; k += kAtOnceThreads) {
      const uint32_t cell = room.found[k] >> 16, start = room.starts[cell];
      use(k, room.found[k] & 0xffffu, start, room.starts[cell + 1]);
    }
  };
#pragma unroll 1
  for (uint32_t i = threadIdx.x; i < crowded * CellMembers::kWords; i += kAtOnceThreads) {
    room.members[i / CellMembers::kWords].words[i % CellMembers::kWords] = 0;
  }
  if (crowded != 0) __syncthreads();
  for_each_found([&](uint32_t k, uint32_t sample, uint32_t start, uint32_t end) {
    if (end - start > kFewToCompare) {
      room.members[room.arrived[start]].add(sample);
    } else {
      room.arrived[start + room.arrival[k]] = static_cast<uint16_t>(sample);
    }
  });
  __syncthreads();
  if (crowded != 0) {
    for (uint32_t i = threadIdx.x / kWarp; i < crowded; i += kAtOnceThreads / kWarp) {
      room.members[i].count(threadIdx.x % kWarp);
    }
    __syncthreads();
  }
  for_each_found([&](uint32_t, uint32_t sample, uint32_t start, uint32_t end) {
    uint32_t rank = 0;
    if (end - start > kFewToCompare) {
      rank = room.members[room.arrived[start]].rank(sample);
    } else {
#pragma unroll 1
      for (uint32_t compared = start; compared < end; ++compared) rank += room.arrived[compared] < sample ? 1 : 0;
    }
    room.order[start + rank] = static_cast<uint16_t>(sample);
  });
  __syncthreads();
}

// Fills `sorted` in this order.
template <class Real>
__device__ inline void sort_samples(const Points& points, const PartRoom<Real>& room, uint32_t found) {
#pragma unroll 1
  for (uint32_t k = threadIdx.x; k < found; k += kAtOnceThreads) {
    const uint32_t sample = room.order[k];
    const Two<Real> fraction = room.spots[sample];
    room.sorted[k] = {room.attention[sample], fraction.at[0], fraction.at[1], points.by_count.divide(sample).quotient};
  }
}

// Does all of this: fills `starts` and `sorted`. All threads must call it.
template <class Stored, class Real>
__device__ inline void group_part(const Problem<Stored>& p, const Part& part, const Points& points, uint32_t samples,
                                  const PartRoom<Real>& room, PartCounts& counts) {
  const uint32_t cells = (part.rows + 1) * (static_cast<uint32_t>(p.levels.near[part.l].width) + 1),
                 stride = cells / kPartScanEach * kPartScanEach + kPartScanEach;
  copy_samples(p, SampleIndex(p, points, part.head, part.l), samples, room);
#pragma unroll 1
  for (uint32_t i = threadIdx.x; i < stride; i += kAtOnceThreads) room.starts[i] = 0;
  if (threadIdx.x == 0) counts.found = counts.crowded = counts.runs = 0;
  wait_for_copies();
  __syncthreads();
  find_samples(p, part, samples, room, counts);
  __syncthreads();
  scan_part(room, stride, counts);
  __syncthreads();
  order_samples(room, counts);
  sort_samples(points, room, counts.found);
  __syncthreads();
}

}  // namespace msda::kernels::cuda
