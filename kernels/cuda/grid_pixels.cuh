// grad_input of grid_sample on a GPU, in the CPU's order. A block takes 32 consecutive pixels, and eight threads share
// the channels of one. Each pixel has one writer, so nothing has to be cleared first.
#pragma once

#include "kernels/cuda/grid_samples.cuh"
#include "kernels/tree_sum.h"

namespace msda::kernels::cuda {

// The addends of one pixel, in order, in shared memory.
template <class Real>
struct AddendList {
  int32_t sample[kRun][kGridColumns];
  Real weight[kRun][kGridColumns];
  uint32_t count[kGridColumns];  // kRun + 1: too many for the list
};

// Of one pixel, from a linked list: they come in any order, and are sorted by insertion.
template <class Real>
__device__ inline void take_linked(const GridAddends<Real>& from, int64_t first, int32_t head, int taps,
                                   AddendList<Real>& list, int column) {
  uint32_t count = 0;
  for (int32_t number = head; number >= 0; number = from.next[first + number]) {
    if (count == kRun) {
      count = kRun + 1;
      break;
    }
    const Real weight = from.weights[first + number];
    uint32_t at = count++;
    for (; at > 0 && list.sample[at - 1][column] > number; --at) {
      list.sample[at][column] = list.sample[at - 1][column];
      list.weight[at][column] = list.weight[at - 1][column];
    }
    list.sample[at][column] = number;
    list.weight[at][column] = weight;
  }
  for (uint32_t i = 0; i < count && count <= kRun; ++i) list.sample[i][column] /= taps;
  list.count[column] = count;
}

template <class Real>
__device__ inline void take_sorted(const GridAddends<Real>& from, int64_t first, const uint32_t* begin, int64_t count,
                                   int taps, AddendList<Real>& list, int column) {
  list.count[column] = static_cast<uint32_t>(count > kRun ? kRun + 1 : count);
  for (int64_t i = 0; i < count && count <= kRun; ++i) {
    list.sample[i][column] = static_cast<int32_t>(begin[i]) / taps;
    list.weight[i][column] = from.weights[first + begin[i]];
  }
}

// Room for the addends of a pixel that has many: at most this many at a time, a multiple of kRun, and those that the
// threads of a block find together.
inline constexpr int kManyAddends = kRun * kRun, kManyRoom = kManyAddends + kGridThreads;
template <class Real>
struct ManyAddends {
  int32_t sample[kManyRoom];
  Real weight[kManyRoom];
  Real runs[kRun][kGridColumns];
  uint32_t of_warp[kGridGroups];
};

// Adds the runs of the first `count` addends to the sums of 32 channels, which the threads of group 0 have. All threads
// must call it.
template <class Stored, class Real>
__device__ inline void add_many(const Stored* grad_output, int64_t samples, int64_t channels, int count,
                                ManyAddends<Real>& many, TreeSum<Real>& sum) {
  const int column = threadIdx.x % kGridColumns, group = threadIdx.x / kGridColumns;
  const int runs = (count + kRun - 1) / kRun;
  __syncthreads();
  for (int run = group; run < runs && column < channels; run += kGridGroups) {
    const int begin = run * kRun, end = begin + kRun < count ? begin + kRun : count;
    Real total(0);
    for (int i = begin; i < end; ++i) {
      const Real go = static_cast<Real>(widened(grad_output[column * samples + many.sample[i]]));
      const Real addend = many.weight[i] * go;
      total = i == begin ? addend : total + addend;
    }
    many.runs[run][column] = total;
  }
  __syncthreads();
  if (group == 0 && column < channels) {
    for (int run = 0; run < runs; ++run) sum.add(many.runs[run][column]);
  }
}

// Finds the pixel's addends among the next samples, one to a thread, and appends them in order. Bilinear and nearest
// interpolation reach a pixel by one tap at most. All threads must call it.
template <int kAxes, int kTaps, class Stored, class Real>
__device__ inline int find_many(const GridCall<Stored>& p, int64_t n, int64_t pixel, int64_t sample, int filled,
                                ManyAddends<Real>& many) {
  const unsigned lane = threadIdx.x % kGridColumns, warp = threadIdx.x / kGridColumns;
  bool found = false;
  Real weight(0);
  if (sample < p.samples) {
    const GridReads<kAxes, kTaps, Real> reads(place_of<kAxes, Stored, Real>(p, n, sample), p.sides);
#pragma unroll
    for (int i = 0; i < reads.kCount; ++i) {
      if (reads.pixels[i] != pixel) continue;
      found = true;
      weight = reads.weights[i];
    }
  }
  const unsigned lanes = __ballot_sync(~0u, found);
  if (lane == 0) many.of_warp[warp] = static_cast<uint32_t>(__popc(lanes));
  __syncthreads();
  int all = 0, before = filled + __popc(lanes & ((1u << lane) - 1));
  for (unsigned i = 0; i < kGridGroups; ++i) {
    if (i < warp) before += static_cast<int>(many.of_warp[i]);
    all += static_cast<int>(many.of_warp[i]);
  }
  if (found) {
    many.sample[before] = static_cast<int32_t>(sample);
    many.weight[before] = weight;
  }
  __syncthreads();
  return filled + all;
}

// Moves what lies behind the first kManyAddends to the front. All threads must call it.
template <class Real>
__device__ inline void drop_added(ManyAddends<Real>& many, int filled) {
  const int from = kManyAddends + static_cast<int>(threadIdx.x);
  int32_t sample = 0;
  Real weight(0);
  if (from < filled) {
    sample = many.sample[from];
    weight = many.weight[from];
  }
  __syncthreads();
  if (from < filled) {
    many.sample[threadIdx.x] = sample;
    many.weight[threadIdx.x] = weight;
  }
  __syncthreads();
}

// A pixel with more than kRun addends. `sorted`: its addends in order, or null: all samples are searched.
template <int kAxes, int kTaps, class Stored, class Real>
__device__ inline void sum_many(const GridCall<Stored>& p, int64_t n, int64_t pixel, const GridAddends<Real>& addends,
                                const uint32_t* sorted, int64_t count, ManyAddends<Real>& many, Result grad_input) {
  constexpr int kCount = taps_of_sample(kAxes, kTaps);
  const int column = threadIdx.x % kGridColumns, group = threadIdx.x / kGridColumns;
  for (int64_t first = 0; first < p.C; first += kGridColumns) {
    const int64_t channels = p.C - first;
    const Stored* grad_output = p.grad_output + (n * p.C + first) * p.samples;
    TreeSum<Real> sum;
    int filled = 0;
    if (sorted != nullptr) {
      for (int64_t done = 0; done < count; done += kManyAddends) {
        filled = static_cast<int>(count - done < kManyAddends ? count - done : kManyAddends);
        __syncthreads();
        for (int i = static_cast<int>(threadIdx.x); i < filled; i += kGridThreads) {
          const uint32_t number = sorted[done + i];
          many.sample[i] = static_cast<int32_t>(number / kCount);
          many.weight[i] = addends.weights[n * p.samples * kCount + number];
        }
        add_many(grad_output, p.samples, channels, filled, many, sum);
      }
    } else {
      __syncthreads();
      for (int64_t at = 0; at < p.samples; at += kGridThreads) {
        filled = find_many<kAxes, kTaps>(p, n, pixel, at + threadIdx.x, filled, many);
        if (filled < kManyAddends) continue;
        add_many(grad_output, p.samples, channels, kManyAddends, many, sum);
        drop_added(many, filled);
        filled -= kManyAddends;
      }
      if (filled > 0) add_many(grad_output, p.samples, channels, filled, many, sum);
    }
    if (group == 0 && column < channels) {
      store_one(grad_input.data, grad_input.dtype, (n * p.C + first + column) * p.pixels + pixel, Real(0) + sum.sum());
    }
  }
}

// Without `sorted`: from the linked lists.
template <int kAxes, int kTaps, class Stored, class Real>
__global__ void __launch_bounds__(kGridThreads)
    grid_pixels_kernel(GridCall<Stored> p, Division by_blocks, GridAddends<Real> addends, CellSamples sorted,
                       Result grad_input) {
  constexpr int kCount = taps_of_sample(kAxes, kTaps);
  __shared__ AddendList<Real> list;
  __shared__ ManyAddends<Real> many;
  const int column = threadIdx.x % kGridColumns, group = threadIdx.x / kGridColumns;
  const auto [n, block] = by_blocks.divide(blockIdx.x);
  const int64_t first_pixel = int64_t{block} * kGridColumns, pixel = first_pixel + column;
  const int64_t first_addend = n * p.samples * kCount;
  const auto begin_of = [&](int64_t of) { return sorted.begin[n * p.pixels + of]; };
  if (group == 0) {
    list.count[column] = 0;
    if (pixel >= p.pixels) {
    } else if (sorted.sample == nullptr) {
      take_linked(addends, first_addend, addends.heads[n * p.pixels + pixel], kCount, list, column);
    } else {
      take_sorted(addends, first_addend, sorted.sample + begin_of(pixel), begin_of(pixel + 1) - begin_of(pixel), kCount,
                  list, column);
    }
  }
  __syncthreads();
  const uint32_t count = list.count[column];
  if (pixel < p.pixels && count <= kRun) {
    for (int64_t c = group; c < p.C; c += kGridGroups) {
      const Stored* grad_output = p.grad_output + (n * p.C + c) * p.samples;
      Real sum(0);
      for (uint32_t i = 0; i < count; ++i) {
        const Real go = static_cast<Real>(widened(grad_output[list.sample[i][column]]));
        const Real addend = list.weight[i][column] * go;
        sum = i == 0 ? addend : sum + addend;
      }
      store_one(grad_input.data, grad_input.dtype, (n * p.C + c) * p.pixels + pixel, Real(0) + sum);
    }
  }
  for (int i = 0; i < kGridColumns; ++i) {
    if (list.count[i] <= kRun) continue;
    const int64_t at = first_pixel + i;
    if (sorted.sample == nullptr) {
      sum_many<kAxes, kTaps>(p, n, at, addends, nullptr, 0, many, grad_input);
    } else {
      sum_many<kAxes, kTaps>(p, n, at, addends, sorted.sample + begin_of(at), begin_of(at + 1) - begin_of(at), many,
                             grad_input);
    }
  }
}

}  // namespace msda::kernels::cuda
