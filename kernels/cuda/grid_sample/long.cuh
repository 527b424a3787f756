// Groups the addends of a call of grid_sample of any size by pixel, by counting in global memory: addends come to their
// pixel in any order, and each pixel's are then sorted by sample (sort.cuh).
#pragma once

#include "kernels/cuda/common/prefix_sums.cuh"
#include "kernels/cuda/grid_sample/lists.cuh"

namespace msda::kernels::cuda {

inline constexpr int kCountThreads = 256, kScanAllThreads = 1024, kScanAllEach = 8;
inline constexpr int64_t kScanAllTile = kScanAllThreads * kScanAllEach;

// A thread for each sample. Counts each pixel's addends in `begin`; `ranks` [N, samples * taps]: how many came before.
// Few pixels are counted in each block's memory first: additions to one address come one by one.
template <int kAxes, int kTaps, class Stored, class Real>
__global__ void __launch_bounds__(kCountThreads)
    grid_count_kernel(GridCall<Stored> p, Division by_blocks, GridLists<Real> lists, uint32_t* ranks) {
  using Addends = SampleAddends<kAxes, kTaps, Real>;
  __shared__ uint32_t of_block[kCountThreads], before_block[kCountThreads];
  const auto [n, block] = by_blocks.divide(blockIdx.x);
  const int64_t sample = int64_t{block} * kCountThreads + threadIdx.x;
  uint32_t* const count = lists.begin + n * lists.stride;
  const bool is_there = sample < p.samples, are_few = p.pixels <= kCountThreads;
  of_block[threadIdx.x] = 0;
  __syncthreads();
  uint32_t pixel[Addends::kCount], rank[Addends::kCount] = {};
  if (is_there) {
    const Addends addends(p, n, sample);
#pragma unroll
    for (int i = 0; i < Addends::kCount; ++i) {
      pixel[i] = addends.pixel[i];
      if (pixel[i] == Addends::kNone) continue;
      if (are_few) {
        rank[i] = atomicAdd(&of_block[pixel[i]], 1u);
      } else {
        rank[i] = atomicAdd(&count[pixel[i]], 1u);
      }
    }
  }
  if (are_few) {
    __syncthreads();
    const uint32_t mine = of_block[threadIdx.x];
    if (mine != 0) before_block[threadIdx.x] = atomicAdd(&count[threadIdx.x], mine);
    __syncthreads();
  }
  if (!is_there) return;
#pragma unroll
  for (int i = 0; i < Addends::kCount; ++i) {
    if (are_few && pixel[i] != Addends::kNone) rank[i] += before_block[pixel[i]];
    ranks[(n * p.samples + sample) * Addends::kCount + i] = rank[i];
  }
}

// Sums of tiles of `count` numbers.
inline __global__ void __launch_bounds__(kScanAllThreads)
    grid_tile_sums_kernel(const uint32_t* numbers, int64_t count, uint32_t* sums) {
  __shared__ uint32_t places[kWarp + 1];
  uint32_t mine = 0, total = 0;
  const int64_t first = int64_t{blockIdx.x} * kScanAllTile;
#pragma unroll
  for (int i = 0; i < kScanAllEach; ++i) {
    const int64_t at = first + i * kScanAllThreads + threadIdx.x;
    if (at < count) mine += numbers[at];
  }
  sum_before(mine, places, total);
  if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

// Turns each number into the sum of those before it, modulo 2^32. `sums`: of the tiles.
inline __global__ void __launch_bounds__(kScanAllThreads)
    grid_scan_kernel(uint32_t* numbers, int64_t count, const uint32_t* sums) {
  __shared__ uint32_t places[kWarp + 1];
  uint32_t of_tiles = 0, before = 0, total = 0;
  for (uint32_t tile = threadIdx.x; tile < blockIdx.x; tile += kScanAllThreads) of_tiles += sums[tile];
  sum_before(of_tiles, places, before);
  const int64_t at = int64_t{blockIdx.x} * kScanAllTile + int64_t{threadIdx.x} * kScanAllEach;
  uint32_t mine[kScanAllEach] = {};
  uint32_t sum = 0;
#pragma unroll
  for (int i = 0; i < kScanAllEach; ++i) {
    if (at + i < count) mine[i] = numbers[at + i];
    sum += mine[i];
  }
  uint32_t next = before + sum_before(sum, places, total);
#pragma unroll
  for (int i = 0; i < kScanAllEach; ++i) {
    if (at + i < count) numbers[at + i] = next;
    next += mine[i];
  }
}

// A thread for each sample. Takes its addends to their pixels, in the order in which they were counted.
template <int kAxes, int kTaps, class Stored, class Real>
__global__ void __launch_bounds__(kCountThreads)
    grid_scatter_kernel(GridCall<Stored> p, Division by_blocks, const uint32_t* ranks, GridLists<Real> to) {
  using Addends = SampleAddends<kAxes, kTaps, Real>;
  constexpr int kCount = Addends::kCount;
  const auto [n, block] = by_blocks.divide(blockIdx.x);
  const int64_t sample = int64_t{block} * kCountThreads + threadIdx.x;
  if (sample >= p.samples) return;
  const Addends addends(p, n, sample);
  uint32_t at[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    at[i] = ranks[(n * p.samples + sample) * kCount + i];
    if (addends.pixel[i] != Addends::kNone) at[i] += to.begin_of(n, addends.pixel[i]);
  }
  GridEntry<Real>* const entries = to.entries + n * p.samples * kCount;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (addends.pixel[i] != Addends::kNone) entries[at[i]] = {addends.weight[i], static_cast<uint32_t>(sample)};
  }
}

}  // namespace msda::kernels::cuda
