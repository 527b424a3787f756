// The sums of scatter_add on a GPU, in the CPU's order. A group of threads sums up a short list, a thread four
// channels. A long list is divided into tiles of kRun runs, which are whole subtrees of the tree of runs: a block sums
// up a tile, a group of its threads a run; the block of the list's tile that is done last sums up the tiles.
#pragma once

#include "kernels/cuda/common/storage.cuh"
#include "kernels/cuda/common/warp.cuh"
#include "kernels/cuda/scatter/lists.cuh"
#include "kernels/tree_sum.h"

namespace msda::kernels::cuda {

inline constexpr int kRowThreads = 256, kMostLanes = 16, kSlab = 4 * kMostLanes;
inline constexpr uint32_t kTile = kRun * kRun;
// Blocks of 512 threads for which a multiprocessor has registers.
template <class Real>
inline constexpr int kBlocksOfProcessor = sizeof(Real) == 4 ? 2 : 1;

template <class Stored>
struct ScatterCall : ScatterSizes {
  const Stored* source;
  int lanes_log;     // threads of a group, which take a slab of channels
  int64_t slabs;     // of a row
  uint32_t longest;  // list that one group sums up
  msda_tensor sum;
  bool is_plain;  // the sum is contiguous
  bool is_whole;  // and so aligned that four channels are written at a time
  bool is_clear;  // rows without addends need nothing

  MSDA_HOST_DEVICE int lanes() const { return 1 << lanes_log; }
  MSDA_HOST_DEVICE int64_t parts() const { return outer * slabs; }
};

// Long lists and their tiles.
struct ScatterQueue {
  uint32_t* counters;  // how many lists, and tiles
  struct List {
    uint32_t row, first_tile;
  };
  List* lists;
  uint32_t* list_of_tile;
  uint32_t* done;  // [list, part]: how many tiles are summed up
};

inline __device__ uint32_t tiles_of(uint32_t count) { return (count + kTile - 1) / kTile; }

inline __device__ void queue_list(const ScatterQueue& queue, uint32_t row, uint32_t count, int64_t parts) {
  const uint32_t tiles = tiles_of(count), list = atomicAdd(&queue.counters[0], 1u),
                 first = atomicAdd(&queue.counters[1], tiles);
  queue.lists[list] = {row, first};
  for (uint32_t i = 0; i < tiles; ++i) queue.list_of_tile[first + i] = list;
  for (int64_t part = 0; part < parts; ++part) queue.done[list * parts + part] = 0;
}

// A slab of channels of the source's or the sum's rows, from `first` on, and the four that this thread takes.
struct Slab {
  int64_t outer, first, channel;
  int count;  // of the four; 0 or less: none
  template <class Stored>
  __device__ Slab(const ScatterCall<Stored>& p, int64_t part, unsigned lane)
      : outer(part < p.slabs ? 0 : part / p.slabs),  // a division takes longer than what is most often one comparison
        first((part - outer * p.slabs) * 4 * p.lanes()),
        channel(first + 4 * lane) {
    const int64_t rest = p.D - channel;
    count = rest < 4 ? static_cast<int>(rest) : 4;
  }
};

// Four channels of the rows of a list.
template <bool kWhole, class Stored, class Real>
struct ListedRows {
  const Stored* first;
  int64_t D;
  const uint32_t* rows;
  int channels;
  bool scales;
  Real share;
  __device__ ListedRows(const ScatterCall<Stored>& p, const ScatterLists& lists, const uint2& range, const Slab& slab)
      : first(p.source + slab.outer * p.n * p.D + slab.channel),
        D(p.D),
        rows(lists.rows + range.x),
        channels(slab.count),
        scales(p.scale == MSDA_SCATTER_BY_FREQUENCY),
        share(scales ? share_of<Real>(range.y - range.x) : Real(1)) {}
  __device__ void read(uint32_t i, Real (&to)[4]) const { load_four<kWhole>(first + rows[i] * D, channels, to); }
  __device__ Real scaled(Real x) const { return scales ? x * share : x; }
};

// Four channels of sums of tiles.
template <class Real>
struct TileSums {
  const Real* first;
  int64_t D;
  int channels;
  __device__ void read(uint32_t i, Real (&to)[4]) const { load_four<false>(first + i * D, channels, to); }
  __device__ Real scaled(Real x) const { return x; }
};

// Sums up a run: `count` addends from number `begin` on, one after the other. Several are read at a time.
template <class Addends, class Real>
__device__ inline void sum_run(const Addends& addends, uint32_t begin, uint32_t count, Real (&run)[4]) {
  constexpr uint32_t kAtOnce = 8;
  for (uint32_t first = 0; first < count; first += kAtOnce) {
    Real some[kAtOnce][4];
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      if (first + i < count) addends.read(begin + first + i, some[i]);
    }
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      if (first + i >= count) break;
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const Real x = addends.scaled(some[i][c]);
        run[c] = first + i == 0 ? x : run[c] + x;
      }
    }
  }
}

// Stores the result of a row's sums, four channels from element `first` on. Asks for the elements' type only where they
// are read and written: what lies in between would be compiled once for each type.
template <class Stored, class Real>
__device__ inline void store_whole(const ScatterCall<Stored>& p, int64_t first, uint32_t count,
                                   const Real (&total)[4]) {
  Real sums[4] = {};
  if (p.include_self) {
    visit_elements(p.sum.data, p.sum.dtype, [&](auto* held) { load_four<true>(held + first, 4, sums); });
  }
#pragma unroll
  for (int c = 0; c < 4; ++c) sums[c] = finished(p, sums[c], total[c], count);
  store_four<true>(p.sum.data, p.sum.dtype, first, 4, sums);
}

// Stores the first `channels` of `total` in the same way.
template <class Stored, class Real, int kCount>
__device__ inline void store_sums(const ScatterCall<Stored>& p, int64_t first, int channels, uint32_t count,
                                  const Real (&total)[kCount]) {
  if constexpr (kCount == 4) {
    if (p.is_whole) return store_whole(p, first, count, total);
  }
  int64_t at[kCount];
  Real sums[kCount] = {};
#pragma unroll
  for (int c = 0; c < kCount; ++c) at[c] = p.is_plain || c >= channels ? first + c : offset_of(p.sum, first + c);
  if (p.include_self) {
    visit_elements(p.sum.data, p.sum.dtype, [&](auto* held) {
#pragma unroll
      for (int c = 0; c < kCount; ++c) {
        if (c < channels) sums[c] = static_cast<Real>(widened(held[at[c]]));
      }
    });
  }
#pragma unroll
  for (int c = 0; c < kCount; ++c) {
    if (c < channels) sums[c] = finished(p, sums[c], total[c], count);
  }
  visit_elements(p.sum.data, p.sum.dtype, [&]<class To>(To* to) {
#pragma unroll
    for (int c = 0; c < kCount; ++c) {
      if (c < channels) to[at[c]] = narrowed<To>(sums[c]);
    }
  });
}

// Returns the first element of a row of the sum.
template <class Stored>
__device__ inline int64_t element_of(const ScatterCall<Stored>& p, const Slab& slab, int64_t row) {
  return (slab.outer * p.rows + row) * p.D;
}

// Sums up a list that one group of threads takes.
template <bool kWhole, class Stored, class Real>
__device__ inline void sum_short_list(const ScatterCall<Stored>& p, const ScatterLists& lists, int64_t row,
                                      const uint2& range, const Slab& slab) {
  if (slab.count <= 0) return;
  const uint32_t count = range.y - range.x;
  const ListedRows<kWhole, Stored, Real> addends(p, lists, range, slab);
  Real upper[4] = {};
  for (uint32_t first = 0; first < count; first += kRun) {
    Real run[4];
    sum_run(addends, first, min(count - first, uint32_t{kRun}), run);
#pragma unroll
    for (int c = 0; c < 4; ++c) upper[c] = first == 0 ? run[c] : upper[c] + run[c];
  }
  store_sums(p, element_of(p, slab, row) + slab.channel, slab.count, count, upper);
}

// A group of threads sums up each row of the sum, and queues lists that are too long.
template <bool kWhole, class Stored, class Real>
__global__ void __launch_bounds__(kRowThreads, sizeof(Real) == 4 ? 3 : 2)
    scatter_rows_kernel(const __grid_constant__ ScatterCall<Stored> p, ScatterLists lists, ScatterQueue queue) {
  const unsigned lane = threadIdx.x % p.lanes();
  const int64_t row = int64_t{blockIdx.x} * (kRowThreads >> p.lanes_log) + (threadIdx.x >> p.lanes_log);
  if (row >= p.rows) return;
  const uint2 range = lists.ranges[row];
  const uint32_t count = range.y - range.x;
  if (count == 0 && p.is_clear) return;
  if (count > p.longest) {
    if (lane == 0 && blockIdx.y == 0) queue_list(queue, static_cast<uint32_t>(row), count, p.parts());
    return;
  }
  for (int64_t part = blockIdx.y; part < p.parts(); part += gridDim.y) {
    sum_short_list<kWhole, Stored, Real>(p, lists, row, range, Slab(p, part, lane));
  }
}

// A block's memory: the sums of the runs of a tile.
template <class Real>
using RunSums = Real[kRun][kSlab];

// Returns the sum of a tile of `count` addends from number `begin` on, by a block of kRun groups: each thread up to
// `channels` gets one channel. All threads must call it.
template <class Addends, class Real>
__device__ inline Real sum_of_tile(const Addends& addends, uint32_t begin, uint32_t count, int lanes_log,
                                   unsigned channels, RunSums<Real>& sums) {
  const unsigned lane = threadIdx.x % (1u << lanes_log), mine = threadIdx.x >> lanes_log;
  __syncthreads();
  if (mine * kRun < count && addends.channels > 0) {
    Real run[4];
    sum_run(addends, begin + mine * kRun, min(count - mine * kRun, uint32_t{kRun}), run);
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      if (c < addends.channels) sums[mine][4 * lane + c] = run[c];
    }
  }
  __syncthreads();
  Real sum(0);
  if (threadIdx.x >= channels) return sum;
  for (uint32_t i = 0; i * kRun < count; ++i) sum = i == 0 ? sums[0][threadIdx.x] : sum + sums[i][threadIdx.x];
  return sum;
}

// Returns how many channels a slab has; each of so many threads of a block takes one.
template <class Stored>
__device__ inline unsigned channels_of(const ScatterCall<Stored>& p, const Slab& slab) {
  return static_cast<unsigned>(min(p.D - slab.first, int64_t{4} * p.lanes()));
}

// Sums up `number` addends, by a block of kRun groups, and stores the sum as that of the row's list of `count`. All
// threads must call it.
template <class Addends, class Stored, class Real>
__device__ inline void sum_by_block(const ScatterCall<Stored>& p, const Addends& addends, uint32_t number,
                                    const Slab& slab, int64_t row, uint32_t count, RunSums<Real>& runs) {
  const unsigned channels = channels_of(p, slab);
  TreeSum<Real> tree;
  for (uint32_t first = 0; first < number; first += kTile) {
    tree.add(sum_of_tile(addends, first, min(number - first, kTile), p.lanes_log, channels, runs));
  }
  const Real sum[1] = {tree.sum()};
  if (threadIdx.x >= channels) return;
  store_sums(p, element_of(p, slab, row) + slab.first + threadIdx.x, 1, count, sum);
}

// Returns whether this block is the last of `all` that call it with this counter; it can then read what the others
// wrote before. All threads must call it.
__device__ inline bool is_last(uint32_t& counter, uint32_t all) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(&counter, 1u) + 1 == all;
  __syncthreads();
  __threadfence();
  return last;
}

// Blocks take the tiles in turn. A list's only tile is its sum; the sums of several tiles go to `sums` [tiles, parts,
// channels], where the last block finds them.
template <bool kWhole, class Stored, class Real>
__global__ void __launch_bounds__(kRun* kMostLanes, kBlocksOfProcessor<Real>)
    scatter_tiles_kernel(const __grid_constant__ ScatterCall<Stored> p, ScatterLists lists, ScatterQueue queue,
                         Real* sums) {
  __shared__ RunSums<Real> runs;
  const unsigned lane = threadIdx.x % p.lanes();
  for (uint32_t tile = blockIdx.x; tile < queue.counters[1]; tile += gridDim.x) {
    const uint32_t number = queue.list_of_tile[tile];
    const ScatterQueue::List list = queue.lists[number];
    const uint2 range = lists.ranges[list.row];
    const uint32_t count = range.y - range.x, begin = (tile - list.first_tile) * kTile, tiles = tiles_of(count);
    for (int64_t part = blockIdx.y; part < p.parts(); part += gridDim.y) {
      const Slab slab(p, part, lane);
      const ListedRows<kWhole, Stored, Real> addends(p, lists, range, slab);
      const unsigned channels = channels_of(p, slab);
      const Real sum[1] = {sum_of_tile(addends, begin, min(count - begin, kTile), p.lanes_log, channels, runs)};
      const int64_t channel = slab.first + threadIdx.x;
      if (tiles == 1) {
        if (threadIdx.x < channels) store_sums(p, element_of(p, slab, list.row) + channel, 1, count, sum);
        continue;
      }
      if (threadIdx.x < channels) sums[(tile * p.outer + slab.outer) * p.D + channel] = sum[0];
      if (!is_last(queue.done[number * p.parts() + part], tiles)) continue;
      const TileSums<Real> of_tiles{sums + (list.first_tile * p.outer + slab.outer) * p.D + slab.channel, p.outer * p.D,
                                    slab.count};
      sum_by_block(p, of_tiles, tiles, slab, list.row, count, runs);
    }
  }
}

}  // namespace msda::kernels::cuda
