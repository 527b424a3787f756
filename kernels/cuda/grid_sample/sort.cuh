// Sorts the addends of each pixel by sample, after they have come to it in any order (long.cuh).
#pragma once

#include "kernels/cuda/common/prefix_sums.cuh"
#include "kernels/cuda/grid_sample/lists.cuh"

namespace msda::kernels::cuda {

// Blocks that sort each pixel's addends: a thread sorts those of a pixel with few, if there are as many pixels as
// threads; a warp or all threads those of the others.
template <class Real>
inline constexpr int kSortThreads = sizeof(Real) == 4 ? 128 : 64;
template <class Real>
struct SortRoom {
  static constexpr int kFew = 32, kThreads = kSortThreads<Real>, kMany = kFew * kThreads, kOfWarp = kFew * kWarp;
  static constexpr uint32_t kFewOfWarp = 256;  // so few that a warp compares them
  Real weight[kMany];
  alignas(16) uint32_t sample[kMany];
};

// Sorts by insertion. Each thread has a column of the block's room.
template <class Real>
__device__ inline void sort_few(GridEntry<Real>* entries, uint32_t count, SortRoom<Real>& room) {
  constexpr int kColumns = SortRoom<Real>::kThreads;
  Real* const weight = room.weight + threadIdx.x;
  uint32_t* const sample = room.sample + threadIdx.x;
  for (uint32_t i = 0; i < count; ++i) {
    const GridEntry<Real> entry = entries[i];
    uint32_t at = i;
    for (; at > 0 && sample[(at - 1) * kColumns] > entry.sample; --at) {
      sample[at * kColumns] = sample[(at - 1) * kColumns];
      weight[at * kColumns] = weight[(at - 1) * kColumns];
    }
    sample[at * kColumns] = entry.sample;
    weight[at * kColumns] = entry.weight;
  }
  for (uint32_t i = 0; i < count; ++i) entries[i] = {weight[i * kColumns], sample[i * kColumns]};
}

// A warp's part of the room, or all of it, for the addends of one pixel.
template <class Real>
struct SortPart {
  Real* weight;
  uint32_t* sample;  // aligned to sixteen bytes, as `size` is to sixteen
  uint32_t size;     // addends
  // Returns the count, filled up with numbers that no addend has: comparisons read four at a time.
  __device__ static uint32_t filled_up(uint32_t count) { return (count + 3) / 4 * 4; }
  // Returns whether, for a pixel with `count` addends among samples that take `words` words, a bit each, ranking by
  // bits costs less than comparing each with each, and has room beside the addends.
  __device__ bool ranks_by_bits(uint32_t count, uint32_t words) const {
    constexpr uint64_t kComparisons = 32;  // comparisons that cost as much as a word
    return count <= size && words <= size - filled_up(count) && kComparisons * words < uint64_t{count} * count;
  }
};

// Counts the bits in the words before each word. All lanes of a warp must call it.
__device__ inline void count_bits_before(const uint32_t* bits, uint32_t words, uint32_t* before) {
  const uint32_t lane = threadIdx.x % kWarp;
  uint32_t next = 0;
  for (uint32_t first = 0; first < words; first += kWarp) {
    const uint32_t at = first + lane, mine = at < words ? static_cast<uint32_t>(__popc(bits[at])) : 0;
    const uint32_t upto = sum_upto_lane(mine);
    if (at < words) before[at] = next + upto - mine;
    next += __shfl_sync(~0u, upto, kWarp - 1);
  }
}

// Ranks each addend among all by its sample. A warp does it, or all threads of the block.
template <int kThreads, class Real>
__device__ inline void sort_many(GridEntry<Real>* entries, uint32_t count, uint32_t words, const SortPart<Real>& part) {
  const uint32_t thread = threadIdx.x % kThreads, filled = SortPart<Real>::filled_up(count);
  const bool by_bits = part.ranks_by_bits(count, words);
  uint32_t* const bits = part.sample + filled;
  auto* const before = reinterpret_cast<uint32_t*>(part.weight + filled);
  synchronize<kThreads>();
  for (uint32_t i = thread; by_bits && i < words; i += kThreads) bits[i] = 0;
  if (by_bits) synchronize<kThreads>();
  for (uint32_t i = thread; i < filled; i += kThreads) {
    const GridEntry<Real> entry = i < count ? entries[i] : GridEntry<Real>{Real(0), ~0u};
    part.weight[i] = entry.weight;
    part.sample[i] = entry.sample;
    if (by_bits && i < count) atomicOr(&bits[entry.sample / 32], 1u << entry.sample % 32);
  }
  synchronize<kThreads>();
  if (by_bits) {
    if (thread < kWarp) count_bits_before(bits, words, before);
    synchronize<kThreads>();
  }
  for (uint32_t i = thread; i < count; i += kThreads) {
    const uint32_t sample = part.sample[i], word = sample / 32;
    uint32_t rank = 0;
    if (by_bits) {
      rank = before[word] + static_cast<uint32_t>(__popc(bits[word] & ((1u << sample % 32) - 1)));
    } else {
      for (uint32_t compared = 0; compared < count; compared += 4) {
        const uint4 four = *reinterpret_cast<const uint4*>(part.sample + compared);
        rank += (four.x < sample ? 1 : 0) + (four.y < sample ? 1 : 0) + (four.z < sample ? 1 : 0) +
                (four.w < sample ? 1 : 0);
      }
    }
    entries[rank] = {part.weight[i], sample};
  }
}

// Finds the pixel's addends among all samples, in their order. All threads must call it.
template <int kAxes, int kTaps, class Stored, class Real>
__device__ inline void find_all(const GridCall<Stored>& p, int64_t n, uint32_t pixel, GridEntry<Real>* entries) {
  constexpr int kThreads = SortRoom<Real>::kThreads, kWarps = kThreads / kWarp;
  __shared__ uint32_t of_warp[2][kWarps];
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  uint32_t found = 0;
  int turn = 0;
  __syncthreads();
  for (int64_t first = 0; first < p.samples; first += kThreads, turn ^= 1) {
    const int64_t sample = first + threadIdx.x;
    bool is_there = false;
    Real weight(0);
    if (sample < p.samples) {
      const SampleAddends<kAxes, kTaps, Real> addends(p, n, sample);
#pragma unroll
      for (int i = 0; i < addends.kCount; ++i) {
        if (addends.pixel[i] != pixel) continue;
        is_there = true;
        weight = addends.weight[i];
      }
    }
    const unsigned lanes = __ballot_sync(~0u, is_there);
    if (lane == 0) of_warp[turn][warp] = static_cast<uint32_t>(__popc(lanes));
    __syncthreads();
    uint32_t before = found + static_cast<uint32_t>(__popc(lanes & ((1u << lane) - 1)));
#pragma unroll
    for (unsigned i = 0; i < kWarps; ++i) {
      if (i < warp) before += of_warp[turn][i];
      found += of_warp[turn][i];
    }
    if (is_there) entries[before] = {weight, static_cast<uint32_t>(sample)};
  }
}

// `tile`: pixels to a block, as many as its threads at most.
template <int kAxes, int kTaps, class Stored, class Real>
__global__ void __launch_bounds__(kSortThreads<Real>)
    grid_sort_kernel(GridCall<Stored> p, Division by_blocks, uint32_t tile, GridLists<Real> lists) {
  constexpr int kCount = taps_of_sample(kAxes, kTaps), kThreads = kSortThreads<Real>;
  using Room = SortRoom<Real>;
  __shared__ Room room;
  __shared__ uint32_t listed, list[kThreads];
  const auto [n, block] = by_blocks.divide(blockIdx.x);
  const int64_t pixel = int64_t{block} * tile + threadIdx.x, batch = n;
  GridEntry<Real>* const entries = lists.entries + n * p.samples * kCount;
  if (threadIdx.x == 0) listed = 0;
  __syncthreads();
  if (threadIdx.x < tile && pixel < p.pixels) {
    const uint32_t begin = lists.begin_of(batch, pixel), count = lists.begin_of(batch, pixel + 1) - begin;
    if (count > (tile < kThreads ? 1 : Room::kFew)) {
      list[atomicAdd(&listed, 1u)] = static_cast<uint32_t>(pixel);
    } else if (count > 1) {
      sort_few(entries + begin, count, room);
    }
  }
  __syncthreads();
  const auto words = static_cast<uint32_t>((p.samples + 31) / 32);
  const SortPart<Real> all{room.weight, room.sample, Room::kMany};
  const uint32_t warp = threadIdx.x / kWarp, part = warp * Room::kOfWarp;
  const SortPart<Real> mine{room.weight + part, room.sample + part, Room::kOfWarp};
  const auto of_warp = [&](uint32_t count) { return count <= Room::kFewOfWarp || mine.ranks_by_bits(count, words); };
  for (uint32_t i = warp; i < listed; i += kThreads / kWarp) {
    const uint32_t begin = lists.begin_of(batch, list[i]), count = lists.begin_of(batch, list[i] + 1) - begin;
    if (of_warp(count)) sort_many<kWarp>(entries + begin, count, words, mine);
  }
  for (uint32_t i = 0; i < listed; ++i) {
    const uint32_t begin = lists.begin_of(batch, list[i]), count = lists.begin_of(batch, list[i] + 1) - begin;
    if (of_warp(count)) continue;
    if (count <= Room::kMany) {
      sort_many<kThreads>(entries + begin, count, words, all);
    } else {
      find_all<kAxes, kTaps>(p, batch, list[i], entries + begin);
    }
  }
}

}  // namespace msda::kernels::cuda
