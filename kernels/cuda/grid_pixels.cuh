// grad_input of grid_sample on a GPU, from addends grouped by pixel, in the CPU's order. A block takes adjacent pixels
// and eight channels, a thread one pixel, or a warp or the block one with many addends. Each pixel has one writer, so
// nothing has to be cleared first.
#pragma once

#include "kernels/cuda/grid_planes.cuh"
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

// Eight channels of one pixel.
template <class Channels, class Real>
__device__ inline void sum_pixel(const Channels& grad_output, const GridEntry<Real>* entries, uint32_t count,
                                 Real (&sums)[kPixelChannels]) {
  Real run[kPixelChannels] = {}, upper[kPixelChannels] = {};
  GridEntry<Real> next{};
  if (count > 0) next = entries[0];
  for (uint32_t i = 0; i < count; ++i) {
    const GridEntry<Real> entry = next;
    if (i + 1 < count) next = entries[i + 1];
    Real addend[kPixelChannels];
    grad_output.read(entry.sample, addend);
    const bool begins = i % kRun == 0;
#pragma unroll
    for (int c = 0; c < kPixelChannels; ++c) {
      addend[c] = entry.weight * addend[c];
      run[c] = begins ? addend[c] : run[c] + addend[c];
    }
    if (i % kRun != kRun - 1) continue;
#pragma unroll
    for (int c = 0; c < kPixelChannels; ++c) upper[c] = i < kRun ? run[c] : upper[c] + run[c];
  }
#pragma unroll
  for (int c = 0; c < kPixelChannels; ++c) {
    sums[c] = count % kRun == 0 ? upper[c] : count < kRun ? run[c] : upper[c] + run[c];
  }
}

// One channel of a run, the addends from `begin` to `end`, kRun at most.
template <class Channels, class Real>
__device__ inline Real sum_run(const Channels& grad_output, const GridEntry<Real>* entries, uint32_t begin,
                               uint32_t end, int c) {
  Real run(0);
#pragma unroll 4
  for (uint32_t i = begin; i < end; ++i) {
    const GridEntry<Real> entry = entries[i];
    const Real addend = entry.weight * grad_output.template read_one<Real>(entry.sample, c);
    run = i == begin ? addend : run + addend;
  }
  return run;
}

// A pixel with many addends, by a warp or all threads of the block, each of which sums up runs of one channel. The
// first eight write the sums. `runs`: of these threads, for as many runs as they sum up at a time.
template <int kThreads, class Channels, class Real>
__device__ inline void sum_long_pixel(const Channels& grad_output, const GridEntry<Real>* entries, uint32_t count,
                                      Real (*runs)[kPixelChannels], Result to, int64_t at, int64_t pixels) {
  constexpr uint32_t kRuns = kThreads / kPixelChannels, kAtOnce = kRuns * kRun;
  const uint32_t thread = threadIdx.x % kThreads, c = thread % kPixelChannels, mine = thread / kPixelChannels;
  const bool has_channel = static_cast<int>(c) < grad_output.count;
  TreeSum<Real> sum;
  for (uint32_t first = 0; first < count; first += kAtOnce) {
    const uint32_t begin = first + mine * kRun, end = min(begin + kRun, count);
    synchronize<kThreads>();
    if (begin < count && has_channel) runs[mine][c] = sum_run(grad_output, entries, begin, end, static_cast<int>(c));
    synchronize<kThreads>();
    if (mine != 0 || !has_channel) continue;
    for (uint32_t i = 0; i < kRuns && first + i * kRun < count; ++i) sum.add(runs[i][c]);
  }
  if (mine == 0 && has_channel) store_one(to.data, to.dtype, at + c * pixels, Real(0) + sum.sum());
}

// The pixels of a tile that have too many addends for a thread or a team; those with up to `of_warp` are a warp's. All
// threads must call it.
template <class Channels, class Real>
__device__ inline void sum_long_pixels(const Channels& grad_output, const GridLists<Real>& lists, int64_t n,
                                       const GridEntry<Real>* entries, const uint32_t* longs, uint32_t long_count,
                                       uint32_t of_warp, Result to, int64_t plane, int64_t pixels) {
  constexpr uint32_t kWarps = kPixelThreads / kWarp;
  __shared__ Real runs[kPixelThreads / kPixelChannels][kPixelChannels];
  const uint32_t warp = threadIdx.x / kWarp;
  for (uint32_t i = warp; i < long_count; i += kWarps) {
    const uint32_t first = lists.begin_of(n, longs[i]), count = lists.begin_of(n, longs[i] + 1) - first;
    if (count > of_warp) continue;
    sum_long_pixel<kWarp>(grad_output, entries + first, count, runs + warp * (kWarp / kPixelChannels), to,
                          plane + longs[i], pixels);
  }
  for (uint32_t i = 0; i < long_count; ++i) {
    const uint32_t first = lists.begin_of(n, longs[i]), count = lists.begin_of(n, longs[i] + 1) - first;
    if (count <= of_warp) continue;
    sum_long_pixel<kPixelThreads>(grad_output, entries + first, count, runs, to, plane + longs[i], pixels);
  }
}

// A tile of the pixels, and eight channels of them, which a block sums up. All threads must call it. `plane`: where the
// first channel's pixels begin in grad_input.
template <int kCount, class Channels, class Stored, class Real>
__device__ inline void sum_tile(const GridCall<Stored>& p, const GridParts& parts, int64_t n, uint32_t tile,
                                int64_t plane, const Channels& grad_output, const GridLists<Real>& lists,
                                Result grad_input) {
  __shared__ uint32_t long_count, longs[kPixelThreads];
  if (threadIdx.x == 0) long_count = 0;
  __syncthreads();
  const GridEntry<Real>* const entries = lists.entries + n * p.samples * kCount;
  const int64_t first_pixel = int64_t{tile} * parts.tile;
  const auto add_long = [&](int64_t pixel) { longs[atomicAdd(&long_count, 1u)] = static_cast<uint32_t>(pixel); };
  if (parts.has_teams()) {
    const int c = static_cast<int>(threadIdx.x % kPixelChannels);
    const uint32_t team = threadIdx.x / kPixelChannels;
    if (const int64_t pixel = first_pixel + team; team < parts.tile && pixel < p.pixels) {
      const uint32_t first = lists.begin_of(n, pixel), count = lists.begin_of(n, pixel + 1) - first;
      if (count > kRun) {
        if (c == 0) add_long(pixel);
      } else if (c < grad_output.count) {
        const Real sum = sum_run(grad_output, entries, first, first + count, c);
        store_one(grad_input.data, grad_input.dtype, plane + c * p.pixels + pixel, Real(0) + sum);
      }
    }
  } else if (const int64_t pixel = first_pixel + threadIdx.x; pixel < p.pixels) {
    const uint32_t first = lists.begin_of(n, pixel), count = lists.begin_of(n, pixel + 1) - first;
    if (count > kOfThread) {
      add_long(pixel);
    } else {
      Real sums[kPixelChannels];
      sum_pixel(grad_output, entries + first, count, sums);
      visit_elements(grad_input.data, grad_input.dtype, [&]<class To>(To* to) {
#pragma unroll
        for (int c = 0; c < kPixelChannels; ++c) {
          if (c < grad_output.count) to[plane + c * p.pixels + pixel] = narrowed<To>(Real(0) + sums[c]);
        }
      });
    }
  }
  __syncthreads();
  sum_long_pixels(grad_output, lists, n, entries, longs, long_count, parts.has_teams() ? kOfWarpOfFew : kOfWarp,
                  grad_input, plane, p.pixels);
}

// A block's share of grad_input. `together`: grad_output as put_together leaves it, or null.
template <int kCount, class Stored, class Real>
__device__ inline void sum_share(const GridCall<Stored>& p, const GridParts& parts, const Stored* together,
                                 const GridLists<Real>& lists, Result grad_input) {
  const auto [list, tile] = parts.by_tiles.divide(blockIdx.x);
  const auto [n, group] = parts.by_channels.divide(list);
  const int64_t channel = int64_t{group} * kPixelChannels, plane = (n * p.C + channel) * p.pixels;
  const auto samples = static_cast<uint32_t>(p.samples);
  const int count = static_cast<int>(min(int64_t{kPixelChannels}, p.C - channel));
  if (together != nullptr) {
    const EightChannels<true, Stored> rows{together + list * p.samples * kPixelChannels, samples, count};
    sum_tile<kCount>(p, parts, n, tile, plane, rows, lists, grad_input);
  } else {
    const EightChannels<false, Stored> rows{p.grad_output + (n * p.C + channel) * p.samples, samples, count};
    sum_tile<kCount>(p, parts, n, tile, plane, rows, lists, grad_input);
  }
}

// The blocks of `parts`, and after them those that combine the sums of grid_planes.cuh, 256 samples each.
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
