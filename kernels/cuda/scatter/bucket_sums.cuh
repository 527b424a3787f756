// The sums of a bucket of rows (buckets.h), by a block of threads: it puts the bucket's entries in the order of
// their rows, and each row's in the order of the source, and sums up the lists in the order of sums.cuh.
#pragma once

#include "kernels/cuda/scatter/buckets.cuh"
#include "kernels/cuda/scatter/sums.cuh"

namespace msda::kernels::cuda {

inline constexpr uint32_t kHeld = 3072;  // entries of a bucket that shared memory holds

// Where the rows' lists go in buckets that shared memory does not hold.
struct Spilled {
  uint32_t* rows;
  uint32_t* taken;  // how many of `rows` are taken
  ScatterQueue queue;
  uint2* ranges;  // of the queue's lists
};

// Sums up the rows of a bucket. The whole block takes lists that are too long for a group of threads, unless
// queued(row, range) returns true. All threads must call it.
template <bool kWhole, class Stored, class Real, class Queued>
__device__ inline void sum_bucket(const ScatterCall<Stored>& p, const Buckets& buckets, const uint32_t* begin,
                                  const uint32_t* list, RunSums<Real>& runs, Queued queued) {
  const ScatterLists lists{list, nullptr};
  const auto range_of = [&](uint32_t number) { return uint2{begin[number], begin[number + 1]}; };
  const auto row_of_sum = [&](uint32_t number) { return int64_t{number} * buckets.count + blockIdx.x; };
  const unsigned lane = threadIdx.x % p.lanes();
  for (uint32_t number = threadIdx.x >> p.lanes_log; number < buckets.rows; number += kBucketThreads >> p.lanes_log) {
    const uint2 range = range_of(number);
    const uint32_t count = range.y - range.x;
    if ((count == 0 && p.is_clear) || count > p.longest || row_of_sum(number) >= p.rows) continue;
    for (int64_t part = blockIdx.y; part < p.parts(); part += gridDim.y) {
      sum_short_list<kWhole, Stored, Real>(p, lists, row_of_sum(number), range, Slab(p, part, lane));
    }
  }
  for (uint32_t first = 0; first < buckets.rows; first += kWarp) {
    const uint32_t mine = first + threadIdx.x % kWarp;
    const uint2 of_mine = mine < buckets.rows ? range_of(mine) : uint2{0, 0};
    for (unsigned left = __ballot_sync(~0u, of_mine.y - of_mine.x > p.longest); left != 0; left &= left - 1) {
      const uint32_t number = first + __ffs(static_cast<int>(left)) - 1;
      const uint2 range = range_of(number);
      if (queued(row_of_sum(number), range)) continue;
      for (int64_t part = blockIdx.y; part < p.parts(); part += gridDim.y) {
        const Slab slab(p, part, threadIdx.x % p.lanes());
        const ListedRows<kWhole, Stored, Real> addends(p, lists, range, slab);
        sum_by_block(p, addends, range.y - range.x, slab, row_of_sum(number), range.y - range.x, runs);
      }
    }
  }
}

// A block for each bucket, whose entries scatter_deal_kernel has dealt out.
template <bool kWhole, class Stored, class Real>
__global__ void __launch_bounds__(kBucketThreads, kBlocksOfProcessor<Real>)
    scatter_buckets_kernel(const __grid_constant__ ScatterCall<Stored> p, Buckets buckets, Dealt dealt,
                           Spilled spilled) {
  __shared__ RunSums<Real> runs;
  __shared__ DealtEntries::Pieces pieces;
  __shared__ uint32_t first_spilled;
  auto* list = dynamic_shared<uint32_t>();
  BucketCounts counts(list + kHeld, buckets.rows);
  const DealtEntries entries(buckets, dealt, pieces);
  const bool is_held = entries.count() <= kHeld;
  if (!is_held && threadIdx.x == 0) first_spilled = atomicAdd(spilled.taken, entries.count());
  __syncthreads();
  if (!is_held) list = spilled.rows + first_spilled;
  const auto place = [&](uint32_t at, uint32_t j) { list[at] = j; };
  counts.group(
      pieces.sums, [&](auto each) { entries.walk(each); }, place);
  sum_bucket<kWhole>(p, buckets, counts.begin(), list, runs, [&](int64_t row, const uint2& range) {
    if (is_held || range.y - range.x <= kTile) return false;
    if (threadIdx.x == 0 && blockIdx.y == 0) {
      spilled.ranges[row] = {first_spilled + range.x, first_spilled + range.y};
      queue_list(spilled.queue, static_cast<uint32_t>(row), range.y - range.x, p.parts());
    }
    return true;
  });
}

// Returns the places in shared memory for what a block finds in an index of `n`, and later for the sums of runs.
template <class Real>
MSDA_HOST_DEVICE inline int64_t places_to_find(int64_t n) {
  constexpr int64_t kOfRuns = sizeof(RunSums<Real>) / sizeof(uint32_t);
  const int64_t found = FoundEntries::places(n);
  return found < kOfRuns ? kOfRuns : found;
}

// Does the same for a small source, without memory in between: each block looks through the whole index.
template <bool kWhole, class Stored, class Real>
__global__ void __launch_bounds__(kBucketThreads, kBlocksOfProcessor<Real>)
    scatter_at_once_kernel(const __grid_constant__ ScatterCall<Stored> p, const __grid_constant__ msda_tensor index,
                           Buckets buckets) {
  __shared__ uint32_t sums[kWarp + 1];
  auto* const found = dynamic_shared<uint32_t>();
  auto* const list = found + places_to_find<Real>(p.n);
  BucketCounts counts(list + p.n, buckets.rows);
  const FoundEntries entries(p, index, buckets, found);
  const auto place = [&](uint32_t at, uint32_t j) { list[at] = j; };
  counts.group(
      sums, [&](auto each) { entries.walk(each); }, place);
  auto& runs = *reinterpret_cast<RunSums<Real>*>(found);
  sum_bucket<kWhole>(p, buckets, counts.begin(), list, runs, [](int64_t, const uint2&) { return false; });
}

}  // namespace msda::kernels::cuda
