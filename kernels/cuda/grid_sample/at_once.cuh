// grad_input of a short call of grid_sample by one kernel: a block groups the addends of a range of pixels in its
// shared memory, copies eight channels of grad_output there, and sums them up. Each group of eight channels groups
// anew, which takes less time than handing over what was found.
#pragma once

#include "kernels/cuda/grid_sample/pixels.cuh"
#include "kernels/cuda/grid_sample/short.cuh"

namespace msda::kernels::cuda {

// How the blocks are divided: each takes eight channels and a range of a batch's pixels.
struct GridAtOnce {
  Division by_channels;    // into groups of eight
  uint32_t channels = 0;   // groups; 0: this is not done
  bool has_teams = false;  // eight threads to a pixel
  uint32_t blocks(int64_t N, const GridRanges& ranges) const { return ranges.blocks(N) * channels; }
};

// The addends of a range of pixels in shared memory.
template <int kCount, class Real>
struct RangeLists {
  struct Entries {
    const uint16_t* order;
    const Real* weight;
    __device__ GridEntry<Real> operator[](uint32_t i) const {
      const uint32_t addend = order[i];
      return {weight[addend], addend / kCount};
    }
  };
  const GridShortRoom<Real>& room;
  __device__ uint32_t begin_of(uint32_t pixel) const { return pixel == 0 ? 0 : room.words[pixel - 1]; }
  __device__ Entries entries_from(uint32_t number) const { return {room.order + number, room.weight}; }
};

// All threads of a block of kFirstThreads must call it.
template <int kAxes, int kTaps, class Real, class Stored>
__device__ inline void sum_range(const GridCall<Stored>& p, const GridAtOnce& at_once, const GridRanges& ranges,
                                 uint32_t block, Result grad_input) {
  constexpr int kCount = taps_of_sample(kAxes, kTaps);
  const auto [of_batch, group] = at_once.by_channels.divide(block);
  const int64_t n = of_batch / ranges.number, first = int64_t{of_batch % ranges.number} * ranges.pixels,
                pixels = min(ranges.pixels, p.pixels - first), channel = int64_t{group} * kPixelChannels;
  const GridShortRoom<Real> room(dynamic_shared<uint4>(), pixels, p.samples * kCount, true);
  const GridGrouped found = group_pixels<kAxes, kTaps>(
      p, n, first, pixels, room, nullptr,
      [&](uint32_t place, uint32_t addend, uint32_t) { room.order[place] = static_cast<uint16_t>(addend); });
  __syncthreads();
  if (found.crowded != 0) {  // the next copy overwrites crowded pixels, except these words
    for (uint32_t i = threadIdx.x; i < pixels; i += kFirstThreads) room.words[i] = room.end_of(i);
    __syncthreads();
  }
  auto* const rows = static_cast<Stored*>(room.later());
  for (int64_t sample = threadIdx.x; sample < p.samples; sample += kFirstThreads) {
    put_together(p, 0, n, channel, sample, rows);
  }
  __syncthreads();
  const int count = static_cast<int>(min(int64_t{kPixelChannels}, p.C - channel));
  const EightChannels<true, Stored> channels{rows, static_cast<uint32_t>(p.samples), count};
  const RangeLists<kCount, Real> lists{room};
  static_assert(kShortAddends <= kRun * kFirstThreads);  // as sum_tile asks
  sum_tile<Real, kFirstThreads>(lists, static_cast<uint32_t>(pixels), at_once.has_teams, channels, grad_input,
                                (n * p.C + channel) * p.pixels + first, p.pixels);
}

}  // namespace msda::kernels::cuda
