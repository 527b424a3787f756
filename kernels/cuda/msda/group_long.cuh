// Groups any number of samples by cell: the samples of each chunk are counted in parallel, the counts are summed, and
// each chunk then moves its samples to the places that follow.
#pragma once

#include "kernels/cuda/msda/group.cuh"
#include "kernels/cuda/msda/tile_ranks.cuh"

namespace msda::kernels::cuda {

inline constexpr int kScanThreads = 1024, kPlaceEach = 2;  // samples of a thread at a time

// Returns the chunk that a block works on.
template <class Stored>
__device__ inline Chunk chunk_of(const Problem<Stored>& p, const LevelPlans& plans, const Division& by_chunks) {
  const Share share = share_of(by_chunks);
  Chunk chunk{};
  chunk.head = share.head;
  while (chunk.l + 1 < p.L && plan_of(plans, chunk.l + 1).first_chunk <= share.number) ++chunk.l;
  const LevelPlan& plan = plan_of(plans, chunk.l);
  chunk.number = share.number - plan.first_chunk;
  chunk.first = chunk.number * plan.chunk_samples;
  chunk.end = min(chunk.first + plan.chunk_samples, static_cast<uint32_t>(p.Q * p.P));
  return chunk;
}
// Returns a chunk's row of counters; the row after the last chunk's counts all of them.
__device__ inline uint32_t* counts_of(uint32_t* counts, const LevelPlan& plan, uint32_t head, uint32_t chunk) {
  return counts + plan.first_count + (int64_t{head} * (plan.chunks + 1) + chunk) * plan.stride;
}

// Counts the samples of a chunk in each cell. `room` counters fit into the block's shared memory; a level with more
// cells is counted in device memory.
template <class Stored, class Real>
__global__ void __launch_bounds__(kGroupThreads) count_kernel(Problem<Stored> p, LevelPlans plans, Division by_chunks,
                                                              Points points, uint32_t* counts, uint32_t room) {
  constexpr int kEach = 4;
  auto* const shared = dynamic_shared<uint32_t>();
  const Chunk chunk = chunk_of(p, plans, by_chunks);
  const LevelPlan& plan = plan_of(plans, chunk.l);
  uint32_t* all = counts_of(counts, plan, chunk.head, chunk.number);
  uint32_t* count = plan.stride <= room ? shared : all;
  for (uint32_t i = threadIdx.x; i < plan.stride; i += kGroupThreads) count[i] = 0;
  __syncthreads();
  const SampleIndex index(p, points, chunk.head, chunk.l);
  for (uint32_t tile = chunk.first; tile < chunk.end; tile += kEach * kGroupThreads) {
    int64_t cell[kEach];
    with_fixed(p, [&](const auto& call) {
#pragma unroll
      for (int k = 0; k < kEach; ++k) {
        const uint32_t i = tile + k * kGroupThreads + threadIdx.x;
        cell[k] = -1;
        if (i >= chunk.end) continue;
        cell[k] = cell_of(locate_sample<Real>(call, plan.level, location_of(p, index.of_place(i))), plan.level);
      }
    });
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      if (cell[k] >= 0) atomicAdd(&count[cell[k]], 1u);
    }
  }
  if (count == all) return;
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < plan.stride; i += kGroupThreads) all[i] = count[i];
}

inline constexpr int kSumThreads = 256, kSumCells = 4 * kSumThreads;

// Computes for each chunk and cell how many of the cell's samples are in earlier chunks, and how many in all chunks.
// blockIdx.x: the batch, head and level; four cells a thread.
static __global__ void __launch_bounds__(kSumThreads)
    sum_chunks_kernel(uint32_t levels, LevelPlans plans, uint32_t* counts) {
  const LevelPlan& plan = plan_of(plans, static_cast<int>(blockIdx.x % levels));
  const uint32_t cell = blockIdx.y * kSumCells + 4 * threadIdx.x;
  if (cell >= plan.stride) return;
  auto* at = reinterpret_cast<uint4*>(counts_of(counts, plan, blockIdx.x / levels, 0) + cell);
  const int64_t step = plan.stride / 4;
  uint4 sum = make_uint4(0, 0, 0, 0);
  constexpr uint32_t kAhead = 8;
  for (uint32_t first = 0; first < plan.chunks; first += kAhead) {
    uint4 of[kAhead];
#pragma unroll
    for (uint32_t i = 0; i < kAhead; ++i) {
      if (first + i < plan.chunks) of[i] = at[(first + i) * step];
    }
#pragma unroll
    for (uint32_t i = 0; i < kAhead; ++i) {
      if (first + i >= plan.chunks) break;
      at[(first + i) * step] = sum;
      sum = make_uint4(sum.x + of[i].x, sum.y + of[i].y, sum.z + of[i].z, sum.w + of[i].w);
    }
  }
  at[plan.chunks * step] = sum;
}

// Finds where the samples and runs of each cell begin. One block for each batch, head and level.
static __global__ void __launch_bounds__(kScanThreads)
    scan_kernel(uint32_t levels, LevelPlans plans, uint32_t* counts, CellStart* cells, HotCell* hot,
                uint32_t* hot_count, uint32_t most_hot) {
  __shared__ uint64_t sums[kWarp + 1];
  __shared__ uint32_t hot_here;
  const uint32_t head = blockIdx.x / levels;
  const LevelPlan& plan = plan_of(plans, static_cast<int>(blockIdx.x % levels));
  const uint32_t* numbers = counts_of(counts, plan, head, plan.chunks);
  if (threadIdx.x == 0) hot_here = 0;
  const auto keep_hot = [&](uint32_t, const OfCells<CellStart>& start, const OfCells<uint32_t>& number) {
#pragma unroll
    for (uint32_t i = 0; i < kScanEach; ++i) {
      if (number.of[i] <= kManySamples) continue;
      const HotCell cell{start.of[i].run, (number.of[i] + kRun - 1) / kRun};
      hot[int64_t{blockIdx.x} * most_hot + atomicAdd(&hot_here, 1u)] = cell;
    }
  };
  scan_cells<kScanThreads>(plan.stride, numbers, starts_of(cells, plan, head), sums, keep_hot);
  __syncthreads();
  if (threadIdx.x == 0) hot_count[blockIdx.x] = hot_here;
}

// Where the next sample of a cell goes; adding one to `packed` gives the place after it.
struct NextPlace {
  uint32_t packed;
  __device__ static NextPlace of(CellStart start, uint32_t before) {
    return {(start.sample + before) | start.sample % kRun << kPlaceBits};
  }
  __device__ uint32_t at() const { return packed & ((1u << kPlaceBits) - 1); }
  __device__ bool begins_run() const { return (packed - (packed >> kPlaceBits)) % kRun == 0; }
};

using PlaceRanks = TileRanks<kGroupThreads, kPlaceEach>;
inline constexpr int64_t kPlaceBytes = sizeof(PlaceRanks) + 1024;  // of shared memory, beside the cells' places

// Moves each sample to its cell: with kStable in the order of (query, point), otherwise in any. The gradients of
// samples that reach no cell are written here.
template <bool kStable, class Stored, class Real>
__global__ void __launch_bounds__(kGroupThreads, 2)
    place_kernel(Problem<Stored> p, LevelPlans plans, Division by_chunks, Points points, uint32_t* counts,
                 uint32_t room, const CellStart* cells, Entry<Real>* sorted, Result grad_locations,
                 Result grad_weights) {
  auto* const shared = dynamic_shared<uint32_t>();
  const Chunk chunk = chunk_of(p, plans, by_chunks);
  const LevelPlan& plan = plan_of(plans, chunk.l);
  const Level level = plan.level;
  uint32_t* all = counts_of(counts, plan, chunk.head, chunk.number);
  uint32_t* place = plan.stride <= room ? shared : all;
  const CellStart* starts = starts_of(cells, plan, chunk.head);
  for (uint32_t i = threadIdx.x; i < plan.stride; i += kGroupThreads) {
    place[i] = NextPlace::of(starts[i], all[i]).packed;  // after those of earlier chunks
  }
  const int64_t list = list_of(p, chunk.head, chunk.l);
  const SampleIndex index(p, points, chunk.head, chunk.l);
  // Reads one tile ahead.
  const auto read = [&](uint32_t i) { return i < chunk.end ? read_sample(p, index.of_place(i)) : Read<Stored>{}; };
  Read<Stored> next[kPlaceEach];
#pragma unroll
  for (int k = 0; k < kPlaceEach; ++k) next[k] = read(chunk.first + k * kGroupThreads + threadIdx.x);
  NextPlace to[kPlaceEach] = {};
  const auto find_places = [&](uint32_t number_of_tile, const int32_t(&cell)[kPlaceEach]) {
    if constexpr (!kStable) {
#pragma unroll
      for (int k = 0; k < kPlaceEach; ++k) {
        if (cell[k] >= 0) to[k].packed = atomicAdd(&place[cell[k]], 1u);
      }
      return;
    }
    __shared__ PlaceRanks ranks;
    if (number_of_tile == 0) {
      ranks.clear();
      __syncthreads();
    }
    uint32_t rank[kPlaceEach], number[kPlaceEach];
    ranks.find(number_of_tile, cell, rank, number);
#pragma unroll
    for (int k = 0; k < kPlaceEach; ++k) {
      if (cell[k] >= 0) to[k].packed = place[cell[k]] + rank[k];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kPlaceEach; ++k) {
      if (cell[k] >= 0 && rank[k] + 1 == number[k]) place[cell[k]] = to[k].packed + 1;
    }
  };
  bool has_unreached = false;
  uint32_t number_of_tile = 0;
  __syncthreads();
  for (uint32_t tile = chunk.first; tile < chunk.end; tile += PlaceRanks::kSamples, ++number_of_tile) {
    Spot<Real> spot[kPlaceEach];
    Stored attention[kPlaceEach];
    int32_t cell[kPlaceEach];
    with_fixed(p, [&](const auto& call) {
#pragma unroll
      for (int k = 0; k < kPlaceEach; ++k) spot[k] = locate_sample<Real>(call, level, next[k].location);
    });
#pragma unroll
    for (int k = 0; k < kPlaceEach; ++k) {
      const uint32_t i = tile + k * kGroupThreads + threadIdx.x;
      attention[k] = next[k].attention;
      cell[k] = i < chunk.end ? static_cast<int32_t>(cell_of(spot[k], level)) : -1;
      has_unreached |= cell[k] < 0 && i < chunk.end;
      next[k] = read(i + PlaceRanks::kSamples);
    }
    find_places(number_of_tile, cell);
#pragma unroll
    for (int k = 0; k < kPlaceEach; ++k) {
      const uint32_t i = tile + k * kGroupThreads + threadIdx.x, at = to[k].at();
      Entry<Real> entry{static_cast<Real>(widened(attention[k])), spot[k].y.fraction, spot[k].x.fraction,
                        index.number_of(i) | flat_flags<Real>(spot[k]), RunPlace{}};
      if (cell[k] >= 0 && to[k].begins_run()) {
        entry.sample |= Entry<Real>::kRunBegins;
        const CellStart start = starts[cell[k]];
        entry.place = RunPlace::of(p, plan, start.run + (at - start.sample) / kRun, static_cast<uint32_t>(cell[k]));
      }
      store_entry(sorted + list, at, entry, cell[k] >= 0);
    }
  }
  if (has_unreached && (grad_locations.data != nullptr || grad_weights.data != nullptr)) {
    store_unreached<Stored, Real>(p, plan, chunk, points, grad_locations, grad_weights);
  }
}

}  // namespace msda::kernels::cuda
