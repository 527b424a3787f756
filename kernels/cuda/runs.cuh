// Goes over the samples in the order of group.cuh: what a cell's samples have in common, its four corners, is read
// once. Eight threads take a segment of the list, all runs that begin in it, and so every segment is about as much work
// as any other, however many samples a cell has. Each run's addends to the four corners are summed from left to right;
// beside that each sample's own gradients are computed.
#pragma once

#include "kernels/cuda/ahead.cuh"
#include "kernels/cuda/group.cuh"

namespace msda::kernels::cuda {

// Short segments, so that few lists are under way at a time: what belongs to them then stays in the second-level cache.
// Doubles have blocks of half the size, for the sake of their shared memory.
template <class Real>
inline constexpr int kRunThreads = sizeof(Real) == 4 ? 128 : 64;
template <class Real>
inline constexpr int kRunGroups = kRunThreads<Real> / kGroup;
#ifndef UNR
#define UNR 1
#endif
#ifndef SEGN
#define SEGN 64
#endif
inline constexpr uint32_t kSegment = SEGN;

// Adds to global memory, in whatever order the additions come.
template <bool kWhole, class Real>
__device__ inline void add_four(Real* to, int count, const Real (&addend)[4]) {
#if __CUDA_ARCH__ >= 900
  constexpr bool kAtOnce = kWhole && sizeof(Real) == sizeof(float);
  if constexpr (kAtOnce) {
    if (count > 0) atomicAdd(reinterpret_cast<float4*>(to), make_float4(addend[0], addend[1], addend[2], addend[3]));
  }
#else
  constexpr bool kAtOnce = false;
#endif
  if constexpr (!kAtOnce) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i < count) atomicAdd(to + i, addend[i]);
    }
  }
}

// Where the sums over runs go: each to its place, or by atomic additions to the pixels.
template <class Real>
struct RunSums {
  Real* to;      // [chunk of channels][run][4][kLanes], the runs of a level head after head; atomic: grad_value
  int64_t most;  // runs to a chunk of channels
};

// The first run that begins at or after `from`, and before `end`; or `end`. All lanes of a warp, eight of which ask for
// the same.
__device__ inline uint32_t next_run(const uint32_t* list, uint32_t from, uint32_t end) {
  uint32_t begins[kRun / kGroup];
#pragma unroll
  for (uint32_t i = 0; i < kRun / kGroup; ++i) {
    const uint32_t at = from + i * kGroup + threadIdx.x % kGroup;
    begins[i] = at < end ? list[at] & kRunBegins : 0u;
  }
  uint32_t first = end;
#pragma unroll
  for (uint32_t i = kRun / kGroup; i-- > 0;) {
    const unsigned found = __ballot_sync(~0u, begins[i] != 0) >> (threadIdx.x & 24u) & 0xffu;
    if (found != 0) first = from + i * kGroup + static_cast<uint32_t>(__ffs(static_cast<int>(found)) - 1);
  }
  return first;
}

// What a group needs of a sample, computed by one of its threads for all.
template <class Real>
struct alignas(16) Prepared {
  CornerWeights<Real> weights;
  Real attention, fraction_y, fraction_x;
  uint32_t number;  // with flags
};

// The pixels of a cell (corner_pixels): the first one, the steps to the others, and which of them there are.
struct alignas(8) CellPixels {
  int32_t first;
  uint32_t flags;
  CellPixels() = default;
  __device__ CellPixels(int32_t y0, int32_t y1, int32_t x0, int32_t x1, int32_t width)
      : first((y0 < 0 ? y1 : y0) * width + (x0 < 0 ? x1 : x0)),
        flags((y0 >= 0) | (y1 >= 0) << 1 | (x0 >= 0) << 2 | (x1 >= 0) << 3 | (y0 >= 0 && y1 > y0) << 4 |
              (x0 >= 0 && x1 > x0) << 5) {}
  // Of corner `c`, or -1.
  __device__ int32_t pixel(int c, int32_t width) const {
    const bool is = (flags >> (c / 2) & 1) != 0 && (flags >> (2 + c % 2) & 1) != 0;
    return is ? first + (c / 2 == 1 && (flags & 16) != 0 ? width : 0) + (c % 2 == 1 && (flags & 32) != 0 ? 1 : 0) : -1;
  }
};

// What a group has under way: samples that are prepared, rows of grad_output, and the three sums over channels of eight
// samples as far as each thread has them.
template <class Stored, class Real>
struct Ahead {
  static constexpr int kBatch = 4;  // half as many as are prepared at once
  Prepared<Real> samples[2][kGroup];
  CellPixels pixels[2][kGroup];
  Four<Stored> rows[2][kBatch][kGroup];
  Real partial[3][kGroup][kGroup];
  Real apart[8];  // so that the four groups of a warp use different banks of the shared memory

  // Four threads' part of one sum of a sample. Where it lies depends on the sample, so that all eight samples' parts
  // are in different banks.
  __device__ Real* part(int which, int sample, int four) { return partial[which][sample] + 4 * (four ^ sample / 4); }
};

template <bool kWhole, bool kGradients, bool kAtomic, class Stored, class Real>
__global__ void __launch_bounds__(kRunThreads<Real>, RB)
    sum_runs_kernel(Problem<Stored> p, LevelPlans plans, uint32_t point_bits, const CellStart* cells,
                    const uint32_t* sorted, RunSums<Real> sums, Result grad_locations, Result grad_weights) {
  constexpr int kBatch = Ahead<Stored, Real>::kBatch, kUnroll = UNR;
  __shared__ Ahead<Stored, Real> of_block[kRunGroups<Real>];
  Ahead<Stored, Real>& ahead = of_block[threadIdx.x / kGroup];
  const int lane = static_cast<int>(threadIdx.x % kGroup);
  constexpr uint32_t kEach = kSegment * kRunGroups<Real>;
  const auto samples = static_cast<uint32_t>(p.Q * p.P);
  const uint32_t blocks_each = (samples + kEach - 1) / kEach;
  const Share share = share_of(p, blocks_each * static_cast<uint32_t>(p.L));
  const uint32_t head = share.head;
  const int l = static_cast<int>(share.number / blocks_each);
  const LevelPlan& plan = plan_of(plans, l);
  const Level level = plan.level;
  const CellStart* starts = cells + plan.first_cell + int64_t{head} * plan.stride;
  const uint32_t filled = starts[plan.cells].sample, block_begin = share.number % blocks_each * kEach;
  if (block_begin >= filled) return;
  const uint32_t* list = sorted + (int64_t{head} * p.L + l) * samples;
  const uint32_t from = min(block_begin + threadIdx.x / kGroup * kSegment, filled);
  const uint32_t to = min(from + kSegment, filled), end = next_run(list, to, filled);
  uint32_t at = min(next_run(list, from, filled), end);

  const int channel = static_cast<int>(blockIdx.y) * kLanes + 4 * lane, channels = static_cast<int>(p.D) - channel;
  const int64_t b = head / p.M, m = head % p.M, pixel_step = p.M * p.D;
  const int64_t level_offset = ((b * p.S + level.start) * p.M + m) * p.D + (channels > 0 ? channel : 0);
  const Stored* grad_output = p.grad_output + (b * p.Q * p.M + m) * p.D + (channels > 0 ? channel : 0);
  const Stored* value = p.value + level_offset;
  const SampleIndex index(p, head, l);

  // A sample's way: its number is read; then, at once for eight samples, location and weight; from them one thread
  // prepares it for all; its row of grad_output is fetched; and its turn comes. Each step waits for what the step
  // before asked for while other samples had their turn.
  struct Read {
    Stored x, y, attention;
    uint32_t number;
  };
  const auto number_at = [&](uint32_t first) {
    return first + static_cast<uint32_t>(lane) < end ? list[first + static_cast<uint32_t>(lane)] : 0u;
  };
  const auto read = [&](uint32_t number) {
    const int64_t sample = index.at((number & kNumber) >> point_bits, number & ((1u << point_bits) - 1));
    return Read{p.sampling_locations[2 * sample], p.sampling_locations[2 * sample + 1], p.attention_weights[sample],
                number};
  };
  uint32_t begins[2];  // a bit for each sample of this slot and the next: whether it begins a run
  const auto prepare = [&](const Read& from_memory, int slot, int which) {
    const Spot<Real> spot = locate_at(p, level, static_cast<Real>(widened(from_memory.x)),
                                      static_cast<Real>(widened(from_memory.y)));
    Prepared<Real>& sample = ahead.samples[slot][lane];
    sample = {corner_weights(spot.y.fraction, spot.x.fraction), static_cast<Real>(widened(from_memory.attention)),
              spot.y.fraction, spot.x.fraction,
              from_memory.number | (spot.x.slope == Real(0) ? kFlatX : 0u) | (spot.y.slope == Real(0) ? kFlatY : 0u)};
    const auto pixel = [&](int32_t low, int upper, int32_t size) {
      return corner_pixel(p.dialect, p.padding, low, upper, size);
    };
    ahead.pixels[slot][lane] = {pixel(spot.y.low, 0, level.height), pixel(spot.y.low, 1, level.height),
                                pixel(spot.x.low, 0, level.width), pixel(spot.x.low, 1, level.width), level.width};
    begins[which] = __ballot_sync(~0u, (from_memory.number & kRunBegins) != 0) >> (threadIdx.x & 24u) & 0xffu;
    return spot;
  };
  const auto fetch_rows = [&](int slot, int half) {
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const uint32_t query = (ahead.samples[slot][half * kBatch + i].number & kNumber) >> point_bits;
      copy_four_ahead<kWhole>(ahead.rows[half][i][lane], grad_output + query * pixel_step, channels);
    }
  };
  Read next = read(number_at(at));
  uint32_t number = number_at(at + kGroup);
  Real* run = sums.to + level_offset;  // atomic: where the pixels are; else: where the sums of the run under way go
  CellStart start{};
  {
    const Spot<Real> spot = prepare(next, 0, 0);
    if (!kAtomic && at < end && lane == 0) start = starts[cell_of(spot, level)];
  }
  next = read(number);
  number = number_at(at + 2 * kGroup);
  __syncwarp();
  fetch_rows(0, 0);

  // Of the run under way: its sums, and what its corners read, by corner and channel. The next run's corners are read
  // while the sample before has its turn.
  Real sum[4][4], corner[4][4], next_corner[4][4] = {};
  CellPixels pixels{}, next_pixels{};
  bool open = false;
  const auto close = [&] {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      if constexpr (kAtomic) {
        const int32_t pixel = pixels.pixel(c, level.width);
        if (pixel >= 0) add_four<kWhole>(run + pixel * pixel_step, channels, sum[c]);
      } else {
        *reinterpret_cast<Four<Real>*>(run + c * kLanes) = *reinterpret_cast<Four<Real>*>(sum[c]);
      }
    }
    if constexpr (!kAtomic) run += 4 * kLanes;
  };
  const auto read_corners = [&](int slot, int i) {
    next_pixels = ahead.pixels[slot][i];
    if constexpr (kGradients) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int32_t pixel = next_pixels.pixel(c, level.width);
#pragma unroll
        for (int d = 0; d < 4; ++d) next_corner[c][d] = Real(0);
        if (pixel >= 0) load_four<kWhole>(value + pixel * pixel_step, channels, next_corner[c]);
      }
    }
  };
  read_corners(0, 0);

  // The loops stay loops, or their code would not fit into the instruction cache.
#pragma unroll 1
  for (int slot = 0; __any_sync(~0u, at < end); slot ^= 1, at += kGroup) {
    const int left = at < end ? static_cast<int>(end - at) : 0;
#pragma unroll 1
    for (int half = 0; half < 2; ++half) {
      wait_for_copies();
      __syncwarp();
      if (half == 0) {
        fetch_rows(slot, 1);
        prepare(next, slot ^ 1, 1);
        next = read(number);
        number = number_at(at + 3 * kGroup);
      } else {
        fetch_rows(slot ^ 1, 0);
      }
#pragma unroll kUnroll
      for (int of_half = 0; of_half < kBatch; ++of_half) {
        const int i = half * kBatch + of_half;
        if (i >= left) continue;
        const Prepared<Real> sample = ahead.samples[slot][i];
        const Four<Stored> row = ahead.rows[half][of_half][lane];
        if ((begins[0] >> i & 1) != 0) {
          if (open) {
            close();
          } else if constexpr (!kAtomic) {
            // The first sample begins a run, and all runs are numbered one after the other.
            const uint32_t first = __shfl_sync(group_mask(), start.run + (at - start.sample) / kRun, 0, kGroup);
            const int64_t runs = int64_t{blockIdx.y} * sums.most + plan.first_run + int64_t{head} * plan.most_runs;
            run = sums.to + (runs + first) * (4 * kLanes) + 4 * lane;
          }
          open = true;
          pixels = next_pixels;
#pragma unroll
          for (int c = 0; c < 4; ++c) {
#pragma unroll
            for (int d = 0; d < 4; ++d) {
              sum[c][d] = Real(-0.0);  // to which any number can be added and keeps its bits
              corner[c][d] = next_corner[c][d];
            }
          }
        }
        if (((begins[0] | begins[1] << kGroup) >> (i + 1) & 1) != 0) {
          read_corners(i + 1 < kGroup ? slot : slot ^ 1, (i + 1) % kGroup);
        }
        Real of[3][4] = {};
#pragma unroll
        for (int d = 0; d < 4; ++d) {
          if (kWhole ? channels <= 0 : d >= channels) break;
          const Real go = static_cast<Real>(widened(row.at[d])), weighted = go * sample.attention;
#pragma unroll
          for (int c = 0; c < 4; ++c) sum[c][d] = sum[c][d] + value_contribution(sample.weights.w[c], weighted);
          if constexpr (kGradients) {
            const Real v00 = corner[0][d], v01 = corner[1][d], v10 = corner[2][d], v11 = corner[3][d];
            of[0][d] = fma(go, interpolate(sample.weights, v00, v01, v10, v11), Real(0));
            of[1][d] = fma(go, slope_across(v00, v01, v10, v11, sample.fraction_y), Real(0));
            of[2][d] = fma(go, slope_across(v00, v10, v01, v11, sample.fraction_x), Real(0));
          }
        }
        if constexpr (kGradients) {
#pragma unroll
          for (int k = 0; k < 3; ++k) {
            ahead.part(k, i, lane / 4)[lane % 4] = (of[k][0] + of[k][1]) + (of[k][2] + of[k][3]);
          }
        }
      }
    }
    begins[0] = begins[1];
    if constexpr (kGradients) {
      __syncwarp();
      if (lane < left) {
        Real total[3];
#pragma unroll
        for (int k = 0; k < 3; ++k) {
          const auto a = *reinterpret_cast<const Four<Real>*>(ahead.part(k, lane, 0));
          const auto b_part = *reinterpret_cast<const Four<Real>*>(ahead.part(k, lane, 1));
          total[k] = ((a.at[0] + a.at[1]) + (a.at[2] + a.at[3])) +
                     ((b_part.at[0] + b_part.at[1]) + (b_part.at[2] + b_part.at[3]));
        }
        const Prepared<Real>& mine = ahead.samples[slot][lane];
        const int64_t sample = index.at((mine.number & kNumber) >> point_bits, mine.number & ((1u << point_bits) - 1));
        if (grad_weights.data != nullptr) store_one(grad_weights.data, grad_weights.dtype, sample, total[0]);
        if (grad_locations.data != nullptr) {
          const Real slope_x = (mine.number & kFlatX) != 0 ? Real(0) : slope_of<Real>(p, level.width);
          const Real slope_y = (mine.number & kFlatY) != 0 ? Real(0) : slope_of<Real>(p, level.height);
          store_two(grad_locations.data, grad_locations.dtype, sample,
                    location_gradient(total[1], mine.attention, slope_x),
                    location_gradient(total[2], mine.attention, slope_y));
        }
      }
    }
  }
  if (open) close();
}

}  // namespace msda::kernels::cuda
