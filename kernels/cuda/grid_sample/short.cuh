// Groups the addends of a short call of grid_sample by pixel: a block counts the addends of each pixel of a batch, or
// of some of its pixels, in its shared memory, and ranks each addend among those of its pixel. What is found goes to
// global memory, for other blocks, or stays (at_once.cuh).
#pragma once

#include "kernels/cuda/common/cell_members.cuh"
#include "kernels/cuda/grid_sample/lists.cuh"

namespace msda::kernels::cuda {

inline constexpr int kFirstThreads = 512, kFirstBlocks = 2;  // of a block of the first kernel; of a multiprocessor

// How the pixels of each batch are divided among blocks, each of which looks at all samples.
struct GridRanges {
  uint32_t number = 0;  // 0: no block groups
  int64_t pixels = 0;   // to each: a multiple of sixteen
  uint32_t blocks(int64_t N) const { return static_cast<uint32_t>(N) * number; }
};

// Addends that one block groups; and samples, as CellMembers holds so many.
inline constexpr int64_t kShortAddends = 16384;
MSDA_HOST_DEVICE constexpr int64_t short_samples(int taps) {
  return kShortAddends / taps < kShortList ? kShortAddends / taps : kShortList;
}

// A pixel with so many addends that comparing each with each would take long.
struct CrowdedPixel {
  CellMembers samples;
  uint32_t begin, end;  // of its addends
  uint32_t arrived;     // how many of them
};

// A block's shared memory.
template <class Real>
class GridShortRoom {
 public:
  // `stays`: what is found stays here.
  __device__ GridShortRoom(void* memory, int64_t pixels, int64_t addends, bool stays)
      : weight(static_cast<Real*>(memory)),
        words(reinterpret_cast<uint32_t*>(weight + (addends + 3) / 4 * 4)),
        order(reinterpret_cast<uint16_t*>(words + stride(pixels))),
        crowded(reinterpret_cast<CrowdedPixel*>(order + places(addends, stays))),
        pixel(reinterpret_cast<uint32_t*>(crowded + most_crowded(static_cast<uint32_t>(addends)))),
        arrived(reinterpret_cast<uint16_t*>(pixel + addends)) {}
  // Returns the bytes. `later`: bytes for what replaces all but what is found and stays.
  static int64_t bytes(int64_t pixels, int64_t addends, bool stays, int64_t later = 0) {
    const int64_t grouping = most_crowded(static_cast<uint32_t>(addends)) * int64_t{sizeof(CrowdedPixel)} + addends * 6;
    return (addends + 3) / 4 * 4 * int64_t{sizeof(Real)} + stride(pixels) * 4 + places(addends, stays) * 2 +
           std::max(grouping, later);
  }
  __device__ void* later() const { return crowded; }
  static constexpr int64_t kEach = 16;  // pixels that a thread scans at a time
  MSDA_HOST_DEVICE static int64_t stride(int64_t pixels) { return (pixels + kEach - 1) / kEach * kEach; }

  static constexpr uint32_t kCrowded = 1u << 31;
  __device__ bool is_crowded(uint32_t pixel) const { return (words[pixel] & kCrowded) != 0; }
  __device__ CrowdedPixel& crowd_of(uint32_t pixel) const { return crowded[words[pixel] & ~kCrowded]; }
  // Valid when all addends have arrived.
  __device__ uint32_t end_of(uint32_t pixel) const { return is_crowded(pixel) ? crowd_of(pixel).end : words[pixel]; }
  __device__ uint32_t begin_of(uint32_t pixel) const { return pixel == 0 ? 0 : end_of(pixel - 1); }

  // Addends are numbered sample * taps + tap.
  Real* weight;           // [addends]
  uint32_t* words;        // [pixels]: counts; then where the next addend goes; or, of crowded ones, their number
  uint16_t* order;        // [addends]: of each pixel, in the order of the samples; if it stays
  CrowdedPixel* crowded;  // as many as there are
  uint32_t* pixel;        // [addends]
  uint16_t* arrived;      // [addends]: each pixel's addends as they came

 private:
  MSDA_HOST_DEVICE static int64_t places(int64_t addends, bool stays) { return stays ? (addends + 7) / 8 * 8 : 0; }
};

// Turns counts into where each pixel's addends begin, here and, unless `begin` is null, after those of `below`, in
// global memory; returns how many there are. All threads must call it.
template <class Real>
__device__ inline uint32_t scan_pixels(const GridShortRoom<Real>& room, int64_t pixels, uint32_t below, uint32_t* begin,
                                       uint32_t* crowded) {
  constexpr int kEach = GridShortRoom<Real>::kEach;
  __shared__ uint32_t sums[kWarp + 1];
  uint32_t before = 0;
  for (int64_t tile = 0; tile < pixels; tile += kEach * kFirstThreads) {
    const int64_t at = tile + kEach * static_cast<int64_t>(threadIdx.x);
    uint4 counts[kEach / 4] = {};
    uint32_t mine = 0, total = 0;
#pragma unroll
    for (int i = 0; i < kEach / 4; ++i) {
      if (at < pixels) counts[i] = reinterpret_cast<const uint4*>(room.words + at)[i];
      mine += counts[i].x + counts[i].y + counts[i].z + counts[i].w;
    }
    uint32_t next = before + sum_before(mine, sums, total);
    before += total;
    if (at >= pixels) continue;
    const auto start = [&](int64_t pixel, uint32_t count) {
      const uint32_t first = next;
      next += count;
      if (count <= kFewToCompare) return first;
      const uint32_t number = atomicAdd(crowded, 1u);
      room.crowded[number].begin = first;
      room.crowded[number].end = next;
      room.crowded[number].arrived = 0;
      room.words[pixel] = GridShortRoom<Real>::kCrowded | number;
      return first;
    };
#pragma unroll
    for (int i = 0; i < kEach / 4; ++i) {
      const int64_t pixel = at + 4 * i;
      const uint4 count = counts[i];
      uint4 starts;
      starts.x = start(pixel, count.x);
      starts.y = start(pixel + 1, count.y);
      starts.z = start(pixel + 2, count.z);
      starts.w = start(pixel + 3, count.w);
      if (begin != nullptr && pixel < pixels) {
        *reinterpret_cast<uint4*>(begin + pixel) =
            make_uint4(below + starts.x, below + starts.y, below + starts.z, below + starts.w);
      }
      const uint32_t most = max(max(count.x, count.y), max(count.z, count.w));
      if (most <= kFewToCompare) {
        *reinterpret_cast<uint4*>(room.words + pixel) = starts;
        continue;
      }
      if (count.x <= kFewToCompare) room.words[pixel] = starts.x;
      if (count.y <= kFewToCompare) room.words[pixel + 1] = starts.y;
      if (count.z <= kFewToCompare) room.words[pixel + 2] = starts.z;
      if (count.w <= kFewToCompare) room.words[pixel + 3] = starts.w;
    }
  }
  __syncthreads();
  return before;
}

// What a block has grouped.
struct GridGrouped {
  uint32_t below, filled;  // addends of the pixels before the range, unless that was not asked; of the range
  uint32_t crowded;        // pixels
};

// Groups the addends of batch n's pixels from `first` on: puts each addend in its place among those of the range, by
// put(place, addend, below). `begin`: as scan_pixels takes it, for the range. All threads of a block of kFirstThreads
// must call it.
template <int kAxes, int kTaps, class Stored, class Real, class Put>
__device__ inline GridGrouped group_pixels(const GridCall<Stored>& p, int64_t n, int64_t first, int64_t pixels,
                                           const GridShortRoom<Real>& room, uint32_t* begin, Put put) {
  using Addends = SampleAddends<kAxes, kTaps, Real>;
  constexpr int kCount = Addends::kCount;
  __shared__ uint32_t crowded, below;
  const auto all = static_cast<uint32_t>(p.samples * kCount);
  if (threadIdx.x == 0) crowded = below = 0;
  for (int64_t i = threadIdx.x; i < room.stride(pixels); i += kFirstThreads) room.words[i] = 0;
  __syncthreads();
  uint32_t of_others = 0;
  for (auto sample = threadIdx.x; sample < p.samples; sample += kFirstThreads) {
    const Addends addends(p, n, sample);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const bool is_there = addends.pixel[i] != Addends::kNone, is_below = is_there && addends.pixel[i] < first,
                 is_mine = is_there && !is_below && addends.pixel[i] - first < pixels;
      const uint32_t pixel = is_mine ? addends.pixel[i] - static_cast<uint32_t>(first) : Addends::kNone;
      room.pixel[sample * kCount + i] = pixel;
      room.weight[sample * kCount + i] = addends.weight[i];
      if (is_mine) atomicAdd(&room.words[pixel], 1u);
      of_others += is_below ? 1 : 0;
    }
  }
  if (first > 0 && begin != nullptr) {
    const uint32_t of_warp = sum_upto_lane(of_others);
    if (threadIdx.x % kWarp == kWarp - 1) atomicAdd(&below, of_warp);
  }
  __syncthreads();
  const uint32_t filled = scan_pixels(room, pixels, below, begin, &crowded);
  for (uint32_t i = threadIdx.x; i < crowded * CellMembers::kWords; i += kFirstThreads) {
    room.crowded[i / CellMembers::kWords].samples.words[i % CellMembers::kWords] = 0;
  }
  if (crowded != 0) __syncthreads();
  for (uint32_t addend = threadIdx.x; addend < all; addend += kFirstThreads) {
    const uint32_t pixel = room.pixel[addend];
    if (pixel == Addends::kNone) continue;
    uint32_t at = 0;
    if (room.is_crowded(pixel)) {
      CrowdedPixel& crowd = room.crowd_of(pixel);
      crowd.samples.add(addend / kCount);
      at = crowd.begin + atomicAdd(&crowd.arrived, 1u);
    } else {
      at = atomicAdd(&room.words[pixel], 1u);
    }
    room.arrived[at] = static_cast<uint16_t>(addend);
  }
  __syncthreads();
  if (crowded != 0) {
    for (uint32_t i = threadIdx.x / kWarp; i < crowded; i += kFirstThreads / kWarp) {
      room.crowded[i].samples.count(threadIdx.x % kWarp);
    }
    __syncthreads();
  }
  for (uint32_t i = threadIdx.x; i < filled; i += kFirstThreads) {
    const uint32_t addend = room.arrived[i], pixel = room.pixel[addend];
    uint32_t place = 0;
    if (room.is_crowded(pixel)) {
      const CrowdedPixel& crowd = room.crowd_of(pixel);
      place = crowd.begin + crowd.samples.rank(addend / kCount);
    } else {
      place = room.begin_of(pixel);
      for (uint32_t compared = place, end = room.words[pixel]; compared < end; ++compared) {
        place += room.arrived[compared] < addend ? 1 : 0;
      }
    }
    put(place, addend, below);
  }
  return {below, filled, crowded};
}

// Groups the addends of a range of a batch's pixels for the blocks of another kernel.
template <int kAxes, int kTaps, class Stored, class Real>
__device__ inline void group_range(const GridCall<Stored>& p, const GridRanges& ranges, uint32_t block,
                                   const GridLists<Real>& to) {
  constexpr int kCount = taps_of_sample(kAxes, kTaps);
  const int64_t n = block / ranges.number, first = int64_t{block % ranges.number} * ranges.pixels,
                pixels = min(ranges.pixels, p.pixels - first);
  const GridShortRoom<Real> room(dynamic_shared<uint4>(), pixels, p.samples * kCount, false);
  GridEntry<Real>* const entries = to.entries + n * p.samples * kCount;
  uint32_t* const begin = to.begin + n * to.stride + first;
  const GridGrouped found = group_pixels<kAxes, kTaps>(
      p, n, first, pixels, room, begin, [&](uint32_t place, uint32_t addend, uint32_t below) {
        entries[below + place] = {room.weight[addend], addend / kCount};
      });
  if (threadIdx.x == 0 && first + pixels == p.pixels) begin[pixels] = found.below + found.filled;
}

}  // namespace msda::kernels::cuda
