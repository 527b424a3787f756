// grad_input of grid_sample on a GPU, from addends grouped by pixel, in the CPU's order. A block takes adjacent pixels
// and eight channels, a thread one pixel, or a warp or the block one with many addends. Each pixel has one writer, so
// nothing has to be cleared first.
#pragma once

#include "kernels/cuda/grid_sample/planes.cuh"
#include "kernels/tree_sum.h"

namespace msda::kernels::cuda {

inline constexpr int kPixelThreads = 256, kPixelChannels = 8;
inline constexpr int kTeams = kPixelThreads / kPixelChannels;
// A thread sums up at most this many addends of a pixel, a warp up to kOfWarp, and all threads together sum up more.
// Where there are too few pixels for all threads, a team of eight takes a pixel, a channel each: it sums up one run,
// and a warp up to kOfWarpOfFew addends.
inline constexpr uint32_t kOfThread = 128, kOfWarp = 256, kOfWarpOfFew = 1024;
static_assert(kOfThread < kRun * kRun);  // the tree is then two runs high

// Blocks that a multiprocessor runs at a time. In float32 one more leaves too few registers: crowded pixels then take
// 1.3 times as long.
template <class Real>
inline constexpr int kPixelBlocksOfGrid = sizeof(Real) == 4 ? 4 : 2;

// How the pixels and channels are divided among blocks.
struct GridParts {
  uint32_t channels = 0;          // groups of eight; 0: no block sums up pixels
  uint32_t tile = kPixelThreads;  // pixels; or at most kTeams
  Division by_tiles, by_channels;
  uint32_t blocks(int64_t N) const { return static_cast<uint32_t>(N) * channels * by_tiles.by; }
  MSDA_HOST_DEVICE bool has_teams() const { return tile < kPixelThreads; }
};

// grad_output of eight channels, `count` of which exist; the others read as the last one that does.
// kTogether: a sample's eight channels are adjacent ([samples, 8]); otherwise a channel's samples are.
template <bool kTogether, class Stored>
struct EightChannels {
  const Stored* first;
  uint32_t samples;
  int count;
  template <class Real>
  __device__ void read(uint32_t sample, Real (&to)[kPixelChannels]) const {
    if constexpr (kTogether) {
      load_four<true>(first + int64_t{sample} * kPixelChannels, 4, *reinterpret_cast<Real(*)[4]>(&to[0]));
      load_four<true>(first + int64_t{sample} * kPixelChannels + 4, 4, *reinterpret_cast<Real(*)[4]>(&to[4]));
    } else {
#pragma unroll
      for (int c = 0; c < kPixelChannels; ++c) to[c] = static_cast<Real>(widened(first[row(c) + sample]));
    }
  }
  template <class Real>
  __device__ Real read_one(uint32_t sample, int c) const {
    if constexpr (kTogether) return static_cast<Real>(widened(first[int64_t{sample} * kPixelChannels + c]));
    return static_cast<Real>(widened(first[row(c) + sample]));
  }

 private:
  __device__ int64_t row(int c) const { return int64_t{min(c, count - 1)} * samples; }
};

// Puts eight channels of samples side by side: [N, groups of channels, samples, 8].
template <class Stored>
__device__ inline void put_together(const GridCall<Stored>& p, int64_t list, int64_t n, int64_t first, int64_t sample,
                                    Stored* together) {
  const Stored* const from = p.grad_output + (n * p.C + first) * p.samples + sample;
  Four<Stored> eight[2];
#pragma unroll
  for (int c = 0; c < kPixelChannels; ++c) {
    eight[c / 4].at[c % 4] = first + c < p.C ? from[c * p.samples] : static_cast<Stored>(0.0f);
  }
  auto* const to = reinterpret_cast<Four<Stored>*>(together + (list * p.samples + sample) * kPixelChannels);
  to[0] = eight[0];
  to[1] = eight[1];
}

// Sums up eight channels of one pixel, with at most kRun * kRun addends. `entries` gives these by number, in their
// order, as GridEntry. Each sum begins with +0 instead of the first addend: that changes only a zero's sign, and all
// results are sums with +0.
template <class Channels, class Entries, class Real>
__device__ inline void sum_pixel(const Channels& grad_output, const Entries& entries, uint32_t count,
                                 Real (&sums)[kPixelChannels]) {
#pragma unroll
  for (int c = 0; c < kPixelChannels; ++c) sums[c] = Real(0);
  GridEntry<Real> next{};
  if (count > 0) next = entries[0];
  for (uint32_t begin = 0; begin < count; begin += kRun) {
    const uint32_t end = min(begin + kRun, count);
    Real run[kPixelChannels] = {};
    for (uint32_t i = begin; i < end; ++i) {
      const GridEntry<Real> entry = next;
      if (i + 1 < count) next = entries[i + 1];
      Real addend[kPixelChannels];
      grad_output.read(entry.sample, addend);
#pragma unroll
      for (int c = 0; c < kPixelChannels; ++c) run[c] = run[c] + entry.weight * addend[c];
    }
#pragma unroll
    for (int c = 0; c < kPixelChannels; ++c) sums[c] = sums[c] + run[c];
  }
}

// Returns one channel of a run: the sum of the addends from `begin` to `end`, kRun at most.
template <class Real, class Channels, class Entries>
__device__ inline Real sum_run(const Channels& grad_output, const Entries& entries, uint32_t begin, uint32_t end,
                               int c) {
  Real run(0);
#pragma unroll 4
  for (uint32_t i = begin; i < end; ++i) {
    const GridEntry<Real> entry = entries[i];
    const Real addend = entry.weight * grad_output.template read_one<Real>(entry.sample, c);
    run = i == begin ? addend : run + addend;
  }
  return run;
}

// Sums up a pixel with many addends. A warp or all threads of the block do it, and each thread sums up runs of one
// channel. The first eight write the sums. `runs`: room for as many runs as these threads sum up at a time.
template <int kThreads, class Channels, class Entries, class Real>
__device__ inline void sum_long_pixel(const Channels& grad_output, const Entries& entries, uint32_t count,
                                      Real (*runs)[kPixelChannels], Result to, int64_t at, int64_t pixels) {
  constexpr uint32_t kRuns = kThreads / kPixelChannels, kAtOnce = kRuns * kRun;
  const uint32_t thread = threadIdx.x % kThreads, c = thread % kPixelChannels, mine = thread / kPixelChannels;
  const bool has_channel = static_cast<int>(c) < grad_output.count;
  TreeSum<Real> sum;
  for (uint32_t first = 0; first < count; first += kAtOnce) {
    const uint32_t begin = first + mine * kRun, end = min(begin + kRun, count);
    synchronize<kThreads>();
    if (begin < count && has_channel) {
      runs[mine][c] = sum_run<Real>(grad_output, entries, begin, end, static_cast<int>(c));
    }
    synchronize<kThreads>();
    if (mine != 0 || !has_channel) continue;
    for (uint32_t i = 0; i < kRuns && first + i * kRun < count; ++i) sum.add(runs[i][c]);
  }
  if (mine == 0 && has_channel) store_one(to.data, to.dtype, at + c * pixels, Real(0) + sum.sum());
}

// Sums up the pixels of a tile that have too many addends for a thread or a team; a warp takes those with up to
// `of_warp`. All threads must call it.
template <class Real, int kThreads, class Channels, class Lists>
__device__ inline void sum_long_pixels(const Channels& grad_output, const Lists& lists, const uint32_t* longs,
                                       uint32_t long_count, uint32_t of_warp, Result to, int64_t at, int64_t pixels) {
  constexpr uint32_t kWarps = kThreads / kWarp;
  __shared__ Real runs[kThreads / kPixelChannels][kPixelChannels];
  const uint32_t warp = threadIdx.x / kWarp;
  for (uint32_t i = warp; i < long_count; i += kWarps) {
    const uint32_t first = lists.begin_of(longs[i]), count = lists.begin_of(longs[i] + 1) - first;
    if (count > of_warp) continue;
    sum_long_pixel<kWarp>(grad_output, lists.entries_from(first), count, runs + warp * (kWarp / kPixelChannels), to,
                          at + longs[i], pixels);
  }
  for (uint32_t i = 0; i < long_count; ++i) {
    const uint32_t first = lists.begin_of(longs[i]), count = lists.begin_of(longs[i] + 1) - first;
    if (count <= of_warp) continue;
    sum_long_pixel<kThreads>(grad_output, lists.entries_from(first), count, runs, to, at + longs[i], pixels);
  }
}

// Sums up eight channels of a tile of `number` adjacent pixels by a block, with a thread or a team to each pixel. All
// threads must call it. At most kThreads pixels may have more than kRun addends. `lists`: begin_of(pixel of the tile)
// and entries_from(begin). `at`: the place in grad_input of the first pixel's first channel; the other channels follow,
// each a plane of `pixels` further on.
template <class Real, int kThreads, class Lists, class Channels>
__device__ inline void sum_tile(const Lists& lists, uint32_t number, bool has_teams, const Channels& grad_output,
                                Result grad_input, int64_t at, int64_t pixels) {
  __shared__ uint32_t long_count, longs[kThreads];
  if (threadIdx.x == 0) long_count = 0;
  __syncthreads();
  if (has_teams) {
    const int c = static_cast<int>(threadIdx.x % kPixelChannels);
    for (uint32_t pixel = threadIdx.x / kPixelChannels; pixel < number; pixel += kThreads / kPixelChannels) {
      const uint32_t from = lists.begin_of(pixel), count = lists.begin_of(pixel + 1) - from;
      if (count > kRun) {
        if (c == 0) longs[atomicAdd(&long_count, 1u)] = pixel;
      } else if (c < grad_output.count) {
        const Real sum = sum_run<Real>(grad_output, lists.entries_from(from), 0, count, c);
        store_one(grad_input.data, grad_input.dtype, at + c * pixels + pixel, Real(0) + sum);
      }
    }
  } else {
    for (uint32_t pixel = threadIdx.x; pixel < number; pixel += kThreads) {
      const uint32_t from = lists.begin_of(pixel), count = lists.begin_of(pixel + 1) - from;
      if (count > kOfThread) {
        longs[atomicAdd(&long_count, 1u)] = pixel;
        continue;
      }
      Real sums[kPixelChannels];
      sum_pixel(grad_output, lists.entries_from(from), count, sums);
      visit_elements(grad_input.data, grad_input.dtype, [&]<class To>(To* to) {
#pragma unroll
        for (int c = 0; c < kPixelChannels; ++c) {
          if (c < grad_output.count) to[at + c * pixels + pixel] = narrowed<To>(sums[c]);
        }
      });
    }
  }
  __syncthreads();
  sum_long_pixels<Real, kThreads>(grad_output, lists, longs, long_count, has_teams ? kOfWarpOfFew : kOfWarp, grad_input,
                                  at, pixels);
}

// The addends of a tile's pixels in global memory.
template <class Real>
struct TileLists {
  const uint32_t* begin;  // of the tile's pixels
  uint32_t of_batch;      // where its first pixel's begin
  const GridEntry<Real>* entries;
  __device__ TileLists(const GridLists<Real>& lists, int64_t n, int64_t addends, int64_t pixel)
      : begin(lists.begin + n * lists.stride + pixel),
        of_batch(lists.begin[n * lists.stride]),
        entries(lists.entries + n * addends) {}
  __device__ uint32_t begin_of(uint32_t pixel) const { return begin[pixel] - of_batch; }
  __device__ const GridEntry<Real>* entries_from(uint32_t number) const { return entries + number; }
};

// Computes a block's share of grad_input. `together`: grad_output as put_together leaves it, or null.
template <int kCount, class Stored, class Real>
__device__ inline void sum_share(const GridCall<Stored>& p, const GridParts& parts, const Stored* together,
                                 const GridLists<Real>& lists, Result grad_input) {
  const auto [list, tile] = parts.by_tiles.divide(blockIdx.x);
  const auto [n, group] = parts.by_channels.divide(list);
  const int64_t channel = int64_t{group} * kPixelChannels, plane = (n * p.C + channel) * p.pixels;
  const auto samples = static_cast<uint32_t>(p.samples);
  const int count = static_cast<int>(min(int64_t{kPixelChannels}, p.C - channel));
  const int64_t first = int64_t{tile} * parts.tile;
  const TileLists<Real> of_tile(lists, n, p.samples * kCount, first);
  const auto number = static_cast<uint32_t>(min(int64_t{parts.tile}, p.pixels - first));
  const auto sum = [&](const auto& rows) {
    sum_tile<Real, kPixelThreads>(of_tile, number, parts.has_teams(), rows, grad_input, plane + first, p.pixels);
  };
  if (together != nullptr) {
    sum(EightChannels<true, Stored>{together + list * p.samples * kPixelChannels, samples, count});
  } else {
    sum(EightChannels<false, Stored>{p.grad_output + (n * p.C + channel) * p.samples, samples, count});
  }
}

// Runs the blocks of `parts`, and after them those that combine the sums of planes.cuh, 256 samples each.
template <int kAxes, int kTaps, class Stored, class Real>
__global__ void __launch_bounds__(kPixelThreads, kPixelBlocksOfGrid<Real>)
    grid_pixels_kernel(GridCall<Stored> p, GridParts parts, const Stored* together, GridLists<Real> lists,
                       Result grad_input, uint32_t first_combining, Division by_blocks, uint32_t groups,
                       const Real* partial, Result grad_grid) {
  if (blockIdx.x < first_combining) {
    sum_share<taps_of_sample(kAxes, kTaps)>(p, parts, together, lists, grad_input);
    return;
  }
  const auto [n, block] = by_blocks.divide(blockIdx.x - first_combining);
  const int64_t sample = int64_t{block} * kPixelThreads + threadIdx.x;
  if (sample < p.samples) combine_planes<kAxes, kTaps>(p, n, sample, groups, partial, grad_grid);
}

}  // namespace msda::kernels::cuda
