// Sorts the addends of each pixel by sample, after they have come to it in any order (grid_long.cuh).
#pragma once

#include "kernels/cuda/grid_lists.cuh"

namespace msda::kernels::cuda {

// Blocks that sort each pixel's addends: a thread sorts those of a pixel with few, a warp or all threads those of one
// with many.
template <class Real>
inline constexpr int kSortThreads = sizeof(Real) == 4 ? 128 : 64;
template <class Real>
struct SortRoom {
  static constexpr int kFew = 32, kThreads = kSortThreads<Real>, kMany = kFew * kThreads, kOfWarp = kFew * kWarp;
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

// Counts for each addend those with a smaller sample. A warp does it, or all threads of the block; `first`: where their
// part of the room begins.
template <int kThreads, class Real>
__device__ inline void sort_many(GridEntry<Real>* entries, uint32_t count, SortRoom<Real>& room, uint32_t first) {
  Real* const weight = room.weight + first;
  uint32_t* const samples = room.sample + first;
  const uint32_t thread = threadIdx.x % kThreads;
  synchronize<kThreads>();
  for (uint32_t i = thread; i < (count + 3) / 4 * 4; i += kThreads) {
    const GridEntry<Real> entry = i < count ? entries[i] : GridEntry<Real>{Real(0), ~0u};
    weight[i] = entry.weight;
    samples[i] = entry.sample;
  }
  synchronize<kThreads>();
  for (uint32_t i = thread; i < count; i += kThreads) {
    const uint32_t sample = samples[i];
    uint32_t rank = 0;
    for (uint32_t other = 0; other < count; other += 4) {
      const uint4 four = *reinterpret_cast<const uint4*>(samples + other);
      rank +=
          (four.x < sample ? 1 : 0) + (four.y < sample ? 1 : 0) + (four.z < sample ? 1 : 0) + (four.w < sample ? 1 : 0);
    }
    entries[rank] = {weight[i], sample};
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
    if (count > Room::kFew) {
      list[atomicAdd(&listed, 1u)] = static_cast<uint32_t>(pixel);
    } else if (count > 1) {
      sort_few(entries + begin, count, room);
    }
  }
  __syncthreads();
  const uint32_t warp = threadIdx.x / kWarp;
  for (uint32_t i = warp; i < listed; i += kThreads / kWarp) {
    const uint32_t begin = lists.begin_of(batch, list[i]), count = lists.begin_of(batch, list[i] + 1) - begin;
    if (count <= Room::kOfWarp) sort_many<kWarp>(entries + begin, count, room, warp * Room::kOfWarp);
  }
  for (uint32_t i = 0; i < listed; ++i) {
    const uint32_t begin = lists.begin_of(batch, list[i]), count = lists.begin_of(batch, list[i] + 1) - begin;
    if (count <= Room::kOfWarp) continue;
    if (count <= Room::kMany) {
      sort_many<kThreads>(entries + begin, count, room, 0);
    } else {
      find_all<kAxes, kTaps>(p, batch, list[i], entries + begin);
    }
  }
}

}  // namespace msda::kernels::cuda
