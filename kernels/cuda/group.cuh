// Groups the samples of every batch, head and level by cell, in the order of (query, point): a stable counting sort,
// one block each. Counting is done by all threads at once, as the order of integer additions is of no account; placing
// is done by as many warps as there is memory for counters, each going through its own run of samples in order.
#pragma once

#include "kernels/cuda/samples.cuh"

namespace msda::kernels::cuda {

inline constexpr int kGroupThreads = 1024, kWarp = 32;

// Where the cells of each level begin among its samples: cells_of(level) + 1 numbers for each batch, head and level,
// one level after the other. `offset[l]` is where those of the first batch and head lie.
struct CellTable {
  uint32_t* begin;
  const int64_t* far_offset;  // in device memory, or null
  int64_t near_offset[Levels::kNear];
};
__device__ inline uint32_t* cells_begin(const CellTable& table, const Level& level, int l, int64_t head) {
  const int64_t offset = table.far_offset != nullptr ? table.far_offset[l] : table.near_offset[l];
  return table.begin + offset + head * ((int64_t{level.height} + 1) * (int64_t{level.width} + 1) + 1);
}

// Runs of samples that are placed side by side, for a level with so many cells.
__host__ __device__ inline int chunks_for(int64_t cells, int64_t counters) {
  const int64_t fit = counters / cells;
  return static_cast<int>(fit > kGroupThreads / kWarp ? kGroupThreads / kWarp : fit);
}

// The sum of `mine` over the threads before this one; `sums` has a place for each warp.
__device__ inline uint32_t sum_before(uint32_t mine, uint32_t* sums) {
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  uint32_t inclusive = mine;
#pragma unroll
  for (int step = 1; step < kWarp; step *= 2) {
    const uint32_t other = __shfl_up_sync(~0u, inclusive, step);
    if (lane >= step) inclusive += other;
  }
  if (lane == kWarp - 1) sums[warp] = inclusive;
  __syncthreads();
  if (warp == 0) {
    const uint32_t whole = sums[lane];
    uint32_t upto = whole;
#pragma unroll
    for (int step = 1; step < kWarp; step *= 2) {
      const uint32_t other = __shfl_up_sync(~0u, upto, step);
      if (lane >= step) upto += other;
    }
    sums[lane] = upto - whole;
  }
  __syncthreads();
  return sums[warp] + inclusive - mine;
}

// `counters` in dynamic shared memory; a level with more cells than that uses `spare`, in device memory, with as many
// for each block.
template <class Stored, class Real>
__global__ void __launch_bounds__(kGroupThreads)
    group_kernel(Problem<Stored> p, Entry<Real>* sorted, CellTable table, uint32_t counters, uint32_t* spare,
                 int64_t spare_counters) {
  extern __shared__ uint32_t shared_counters[];
  __shared__ uint32_t sums[kGroupThreads / kWarp];
  const int64_t heads = p.B * p.M, head = blockIdx.x % heads, b = head / p.M, m = head % p.M;
  const int l = static_cast<int>(blockIdx.x / heads);
  const Level level = level_of(p.levels, l);
  const int64_t cells = (int64_t{level.height} + 1) * (int64_t{level.width} + 1);
  uint32_t* count = shared_counters;
  int64_t room = counters;
  if (cells > room) {
    count = spare + int64_t{blockIdx.x} * spare_counters;
    room = spare_counters;
  }
  const int chunks = chunks_for(cells, room);
  const uint32_t points = static_cast<uint32_t>(p.P), samples = static_cast<uint32_t>(p.Q) * points;
  uint32_t each = (samples + chunks - 1) / chunks;
  each = (each + kWarp - 1) / kWarp * kWarp;
  const int64_t first = ((b * p.Q * p.M + m) * p.L + l) * p.P, query_step = p.M * p.L * p.P;
  const auto sample_at = [&](uint32_t i) { return first + (i / points) * query_step + i % points; };

  for (int64_t i = threadIdx.x; i < cells * chunks; i += kGroupThreads) count[i] = 0;
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < samples; i += kGroupThreads) {
    const int64_t cell = cell_of(locate_sample<Real>(p, level, sample_at(i)), level);
    if (cell >= 0) atomicAdd(&count[int64_t{i / each} * cells + cell], 1u);
  }
  __syncthreads();

  // From numbers of samples to where the first of them goes: cell by cell, and chunk by chunk within a cell.
  const int64_t cells_each = (cells + kGroupThreads - 1) / kGroupThreads;
  const int64_t from = min(cells, threadIdx.x * cells_each), to = min(cells, from + cells_each);
  uint32_t mine = 0;
  for (int64_t cell = from; cell < to; ++cell) {
    for (int chunk = 0; chunk < chunks; ++chunk) mine += count[chunk * cells + cell];
  }
  uint32_t next = sum_before(mine, sums);
  uint32_t* begin = cells_begin(table, level, l, head);
  for (int64_t cell = from; cell < to; ++cell) {
    begin[cell] = next;
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const uint32_t number = count[chunk * cells + cell];
      count[chunk * cells + cell] = next;
      next += number;
    }
  }
  if (threadIdx.x == kGroupThreads - 1) begin[cells] = next;
  __syncthreads();

  const int chunk = static_cast<int>(threadIdx.x / kWarp);
  const unsigned lane = threadIdx.x % kWarp;
  if (chunk >= chunks) return;
  uint32_t* place = count + chunk * cells;
  Entry<Real>* to_entries = sorted + (head * p.L + l) * int64_t{samples};
  const uint32_t last = min(samples, (chunk + 1) * each);
  for (uint32_t i = chunk * each; i < last; i += kWarp) {
    const uint32_t number = i + lane;
    int64_t cell = -1;
    Entry<Real> entry;
    if (number < last) {
      const int64_t sample = sample_at(number);
      const Spot<Real> spot = locate_sample<Real>(p, level, sample);
      cell = cell_of(spot, level);
      entry = {static_cast<Real>(widened(p.attention_weights[sample])), spot.y.fraction, spot.x.fraction,
               number / points};
    }
    // Equal cells of one warp in the order of its lanes; the first of them moves the counter on.
    const unsigned alike = __match_any_sync(~0u, static_cast<int>(cell));
    const unsigned before = __popc(alike & ((1u << lane) - 1));
    uint32_t at = 0;
    if (cell >= 0) at = place[cell];
    __syncwarp();
    if (cell >= 0) {
      if (before == 0) place[cell] = at + __popc(alike);
      to_entries[at + before] = entry;
    }
    __syncwarp();
  }
}

}  // namespace msda::kernels::cuda
