// Groups samples by cell, in one kernel, if one block can hold all samples of a batch, head and level. Samples are
// moved to their cells slice by slice, in any order within a slice; then each sample counts how many of its slice and
// cell precede it in the order of (query, point). With the chains of tile_ranks.cuh, which are long if there are few
// cells, the kernel took 1.5 times as long. The code runs once and is fetched as it runs: rolled loops and the
// instructions of one dialect only (with_fixed) make it faster.
#pragma once

#include "kernels/cuda/common/cell_members.cuh"
#include "kernels/cuda/msda/group.cuh"

namespace msda::kernels::cuda {

// Device memory that the kernel also fills with zeros: `count` times 16 bytes.
struct Zeros {
  uint4* to;
  int64_t count;
};

// A slice has as many samples as there are threads, or a quarter if cells have this many samples on average.
inline constexpr uint32_t kManyInCell = 8;

// A block's shared memory for a list of `samples` and a level of `stride` cells.
struct ShortRoom {
  uint32_t* starts;      // [stride]: counts; later where samples begin, and in the upper 16 bits where runs begin
  CellMembers* members;  // with `arrived`, gives the order within a cell
  uint16_t* arrived;     // [samples]: a cell's samples, slice by slice; or the number of its members
  __device__ ShortRoom(void* memory, uint32_t samples, uint32_t stride) {
    starts = static_cast<uint32_t*>(memory);
    members = reinterpret_cast<CellMembers*>(starts + stride);
    arrived = reinterpret_cast<uint16_t*>(members + most_crowded(samples));
  }
  static int64_t bytes(int64_t samples, int64_t stride, bool stable) {
    if (!stable) return stride * 4;
    return stride * 4 + most_crowded(static_cast<uint32_t>(samples)) * int64_t{sizeof(CellMembers)} + samples * 2;
  }
};

// How many samples of a cell have arrived before a sample's slice, and up to its end.
struct Arrivals {
  uint16_t before, upto;
};

// Turns the number of a cell's samples that arrived before each sample into the number that precede it in the order of
// (query, point). All threads must call it.
__device__ inline void rank_in_cells(const ShortRoom& room, uint32_t crowded, const int32_t (&cell)[kShortEach],
                                     const Arrivals (&arrivals)[kShortEach], uint32_t (&place)[kShortEach]) {
  const auto start_of = [&](int32_t index) { return room.starts[index] & 0xffffu; };
  for (uint32_t i = threadIdx.x; i < crowded * CellMembers::kWords; i += kShortThreads) {
    room.members[i / CellMembers::kWords].words[i % CellMembers::kWords] = 0;
  }
  if (crowded != 0) __syncthreads();
#pragma unroll
  for (int k = 0; k < kShortEach; ++k) {
    if (cell[k] < 0) continue;
    const uint32_t i = k * kShortThreads + threadIdx.x, start = start_of(cell[k]);
    if (start_of(cell[k] + 1) - start > kFewToCompare) {
      room.members[room.arrived[start]].add(i);
    } else {
      room.arrived[start + place[k]] = static_cast<uint16_t>(i);
    }
  }
  __syncthreads();
  if (crowded != 0) {
    for (uint32_t i = threadIdx.x / kWarp; i < crowded; i += kShortThreads / kWarp) {
      room.members[i].count(threadIdx.x % kWarp);
    }
    __syncthreads();
  }
#pragma unroll
  for (int k = 0; k < kShortEach; ++k) {
    if (cell[k] < 0) continue;
    const uint32_t i = k * kShortThreads + threadIdx.x, start = start_of(cell[k]);
    if (start_of(cell[k] + 1) - start > kFewToCompare) {
      place[k] = room.members[room.arrived[start]].rank(i);
    } else {
      place[k] = arrivals[k].before;
      const uint16_t* compared = room.arrived + start + arrivals[k].before;
      const uint16_t* const end = room.arrived + start + arrivals[k].upto;
#pragma unroll 1
      for (; compared != end; ++compared) place[k] += *compared < i ? 1 : 0;
    }
  }
}

// kStable: each cell's samples are in the order of (query, point), otherwise in any.
template <bool kStable, class Stored, class Real>
__global__ void __launch_bounds__(kShortThreads)
    group_short_kernel(Problem<Stored> p, LevelPlans plans, Division by_levels, Points points, CellStart* cells,
                       Entry<Real>* sorted, Zeros zeros, Result grad_locations, Result grad_weights) {
  __shared__ uint64_t sums[kWarp + 1];
  __shared__ uint32_t crowded;  // cells with members
  const auto samples = static_cast<uint32_t>(p.Q * p.P);
  const Share share = share_of(by_levels);
  const int l = static_cast<int>(share.number);
  const LevelPlan plan = plan_of(plans, l);
  const Level level = plan.level;
  const ShortRoom room(dynamic_shared<uint4>(), samples, plan.stride);
  const SampleIndex index(p, points, share.head, l);
  for (uint32_t i = threadIdx.x; i < plan.stride; i += kShortThreads) room.starts[i] = 0;
  if (threadIdx.x == 0) crowded = 0;

  Read<Stored> read[kShortEach];
#pragma unroll
  for (int k = 0; k < kShortEach; ++k) {
    const uint32_t i = k * kShortThreads + threadIdx.x;
    if (i < samples) read[k] = read_sample(p, index.of_place(i));
  }
#pragma unroll 1
  for (int64_t i = int64_t{blockIdx.x} * kShortThreads + threadIdx.x; i < zeros.count;
       i += int64_t{gridDim.x} * kShortThreads) {
    zeros.to[i] = make_uint4(0, 0, 0, 0);
  }
  Real fraction_y[kShortEach], fraction_x[kShortEach];
  uint32_t flags[kShortEach], place[kShortEach] = {};
  int32_t cell[kShortEach];
  bool has_unreached = false;
  with_fixed(p, [&](const auto& call) {
#pragma unroll
    for (int k = 0; k < kShortEach; ++k) {
      cell[k] = -1;
      if (k * kShortThreads + threadIdx.x >= samples) continue;
      const Spot<Real> spot = locate_sample<Real>(call, level, read[k].location);
      cell[k] = static_cast<int32_t>(cell_of(spot, level));
      has_unreached |= cell[k] < 0;
      fraction_y[k] = spot.y.fraction;
      fraction_x[k] = spot.x.fraction;
      flags[k] = flat_flags<Real>(spot);
    }
  });
  __syncthreads();
  [[maybe_unused]] Arrivals arrivals[kShortEach] = {};
  const uint32_t slices = kStable && samples >= kManyInCell * plan.cells ? 4 : 1;
#pragma unroll
  for (int k = 0; k < kShortEach; ++k) {
    if (k * kShortThreads >= samples) break;
    if constexpr (kStable) {
#pragma unroll 1
      for (uint32_t slice = 0; slice < slices; ++slice) {
        const bool mine = cell[k] >= 0 && threadIdx.x * slices / kShortThreads == slice;
        if (mine) arrivals[k].before = static_cast<uint16_t>(room.starts[cell[k]]);
        __syncthreads();
        if (mine) place[k] = atomicAdd(&room.starts[cell[k]], 1u);
        __syncthreads();
        if (mine) arrivals[k].upto = static_cast<uint16_t>(room.starts[cell[k]]);
      }
    } else if (cell[k] >= 0) {
      place[k] = atomicAdd(&room.starts[cell[k]], 1u);
    }
  }
  __syncthreads();
  const auto keep_starts = [&](uint32_t at, const OfCells<CellStart>& start, const OfCells<uint32_t>& number) {
    OfCells<uint32_t> packed;
    uint32_t most = 0;
#pragma unroll
    for (uint32_t i = 0; i < kScanEach; ++i) {
      packed.of[i] = start.of[i].sample | start.of[i].run << 16;
      most = max(most, number.of[i]);
    }
    *reinterpret_cast<OfCells<uint32_t>*>(room.starts + at) = packed;
    for (uint32_t i = 0; i < kScanEach && kStable && most > kFewToCompare; ++i) {
      if (number.of[i] <= kFewToCompare) continue;
      room.arrived[start.of[i].sample] = static_cast<uint16_t>(atomicAdd(&crowded, 1u));
    }
  };
  scan_cells<kShortThreads>(plan.stride, room.starts, starts_of(cells, plan, share.head), sums, keep_starts);
  __syncthreads();
  if constexpr (kStable) rank_in_cells(room, crowded, cell, arrivals, place);
  const int64_t list = list_of(p, share.head, l);
#pragma unroll
  for (int k = 0; k < kShortEach; ++k) {
    Entry<Real> entry{};
    if (cell[k] >= 0) {
      const uint32_t i = k * kShortThreads + threadIdx.x, start = room.starts[cell[k]];
      entry = {static_cast<Real>(widened(read[k].attention)), fraction_y[k], fraction_x[k],
               index.number_of(i) | flags[k], RunPlace{}};
      if (place[k] % kRun == 0) {
        entry.sample |= Entry<Real>::kRunBegins;
        entry.place = RunPlace::of(p, plan, (start >> 16) + place[k] / kRun, static_cast<uint32_t>(cell[k]));
      }
      place[k] += start & 0xffffu;
    }
    store_entry(sorted + list, place[k], entry, cell[k] >= 0);
  }
  if (has_unreached && (grad_locations.data != nullptr || grad_weights.data != nullptr)) {
    store_unreached<Stored, Real>(p, plan, Chunk{l, share.head, 0, 0, samples}, points, grad_locations, grad_weights);
  }
}

}  // namespace msda::kernels::cuda
