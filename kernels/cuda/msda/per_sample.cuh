// The passes over samples in their own order: the forward pass, and the gradients of single samples if runs.cuh does
// not compute them.
#pragma once

#include "kernels/cuda/common/result.h"
#include "kernels/cuda/msda/add_four.cuh"
#include "kernels/cuda/msda/samples.cuh"

namespace msda::kernels::cuda {

inline constexpr int kSampleThreads = 256;

// Rows of (batch, head, query). The rows that a block takes one after the other share a head, so that what they read
// from value stays in the multiprocessor's cache.
struct Row {
  int64_t b, q, m;
};
template <class Stored>
__device__ inline Row row_of(const Problem<Stored>& p, int64_t number) {
  if (p.B * p.Q * p.M <= INT32_MAX) {  // 64-bit divisions take several times as long
    const auto n = static_cast<uint32_t>(number), Q = static_cast<uint32_t>(p.Q), head = n / Q;
    const auto [b, m] = p.by_M.divide(head);
    return {b, n - head * Q, m};
  }
  const int64_t q = number % p.Q, head = number / p.Q;
  return {head / p.M, q, head % p.M};
}

template <bool kWhole, class Stored, class Real>
__global__ void __launch_bounds__(kSampleThreads) forward_kernel(Problem<Stored> p, Result output) {
  const int lane = static_cast<int>(threadIdx.x % kGroup);
  const int64_t rows = p.B * p.Q * p.M, step = int64_t{gridDim.x} * (kSampleThreads / kGroup);
  const int64_t each = (rows + step - 1) / step * (kSampleThreads / kGroup);
  const int64_t end = min(rows, (int64_t{blockIdx.x} + 1) * each);
  for (int64_t number = blockIdx.x * each + threadIdx.x / kGroup; number < end; number += kSampleThreads / kGroup) {
    const Row row = row_of(p, number);
    const int64_t head = (row.b * p.Q + row.q) * p.M + row.m;
    for (int first = 0; first < p.D; first += kLanes) {
      const int channel = first + 4 * lane, count = static_cast<int>(p.D) - channel;
      Real out[4] = {};
      for (int l = 0; l < p.L; ++l) {
        const Level& level = level_of(p.levels, l);
        const Stored* level_value = p.value + ((row.b * p.S + level.start) * p.M + row.m) * p.D;
        for (int point = 0; point < p.P; ++point) {
          const int64_t sample = (head * p.L + l) * p.P + point;
          const Spot<Real> spot = locate_sample<Real>(p, level, sample);
          if (!spot.sampled) continue;
          const auto weights = corner_weights(spot.y.fraction, spot.x.fraction);
          const Real attention = static_cast<Real>(widened(p.attention_weights[sample]));
          int64_t pixels[4];
          corner_pixels(p, level, spot.y.low, spot.x.low, pixels);
          Real v[4][4] = {};
#pragma unroll
          for (int c = 0; c < 4; ++c) {
            if (pixels[c] >= 0) load_four<kWhole>(level_value + pixels[c] * p.M * p.D + channel, count, v[c]);
          }
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            out[i] = fma(attention, interpolate(weights, v[0][i], v[1][i], v[2][i], v[3][i]), out[i]);
          }
        }
      }
      if (count > 0) store_four<kWhole>(output.data, output.dtype, head * p.D + channel, count, out);
    }
  }
}

template <class T>
__device__ inline T of_lane(T mine, int lane) {
  return __shfl_sync(~0u, mine, lane, kGroup);
}

// What one thread computes about a sample for all threads of its group: where the corners are, and the factors.
template <class Real>
struct Prepared {
  Real fraction_y, fraction_x, attention, slope_y, slope_x;
  uint32_t first;            // pixel of all levels
  uint32_t flags_and_width;  // those of Corners, and kSampled
  static constexpr uint32_t kSampled = 1u << Corners::kFlagBits, kWidth = Corners::kFlagBits + 1;

  template <class Stored>
  __device__ static Prepared of(const Problem<Stored>& p, const Level& level, int64_t sample) {
    Prepared prepared;
    prepared.attention = static_cast<Real>(widened(p.attention_weights[sample]));
    const Two<Stored> location = location_of(p, sample);
    with_fixed(p, [&](const auto& call) {
      const Spot<Real> spot = locate_sample<Real>(call, level, location);
      Corners corners{};
      if (cell_of(spot, level) >= 0) {
        corners =
            Corners::of_cell(call, level, static_cast<uint32_t>(spot.y.low + 1), static_cast<uint32_t>(spot.x.low + 1));
      }
      prepared.fraction_y = spot.y.fraction;
      prepared.fraction_x = spot.x.fraction;
      prepared.slope_y = spot.y.slope;
      prepared.slope_x = spot.x.slope;
      prepared.first = static_cast<uint32_t>(level.start) + corners.first;
      prepared.flags_and_width = (spot.sampled ? corners.flags | kSampled : 0) | static_cast<uint32_t>(level.width)
                                                                                     << kWidth;
    });
    return prepared;
  }
  __device__ Corners corners() const { return {first, flags_and_width & (kSampled - 1)}; }
  __device__ uint32_t pixel(int c) const { return corners().pixel(c, flags_and_width >> kWidth); }
  // Returns where the corners are of the sample that a lane of the group has prepared.
  __device__ Prepared places_of_lane(int lane) const {
    Prepared places{};
    places.first = of_lane(first, lane);
    places.flags_and_width = of_lane(flags_and_width, lane);
    return places;
  }
};

// Where a group of threads finds a row: its grad_output, and pixel 0 of its batch and head; this thread's channels.
template <class Stored>
struct RowAddress {
  const Stored* grad_output;
  int64_t first_pixel;  // an element of value
  __device__ RowAddress(const Problem<Stored>& p, const Row& row, int64_t number, int lane)
      : grad_output(p.grad_output + number * p.D + 4 * lane),
        first_pixel((row.b * p.S * p.M + row.m) * p.D + 4 * lane) {}
};

// Samples of a group of threads that are computed at the same time.
inline constexpr int kPair = 2;

// What the corners of two samples read in four channels. There is no branch between the reads: a thread would wait
// for one before the next begins.
template <bool kWhole, class Stored, class Real>
struct CornerValues {
  Real at[kPair][4][4];
  __device__ CornerValues(const Stored* value, uint32_t pixel_bytes, const Prepared<Real> (&samples)[kPair], int count)
      : at{} {
#pragma unroll
    for (int i = 0; i < kPair; ++i) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        if (!samples[i].corners().has(c) || count <= 0) continue;
        load_four<kWhole>(row_at(value, samples[i].pixel(c), pixel_bytes), count, at[i][c]);
      }
    }
  }
};

// Finishes the tree over channels (sums_over_group) for two samples: even lanes get the sum of the first.
template <class Real>
__device__ inline Real pair_over_group(Real first, Real second) {
  const bool odd = (threadIdx.x & 1) != 0;
  Real sum = (odd ? second : first) + __shfl_xor_sync(~0u, odd ? first : second, 1);
  sum = sum + __shfl_xor_sync(~0u, sum, 2);
  return sum + __shfl_xor_sync(~0u, sum, 4);
}

// Adds a sample's addends to the pixels that it reads, atomically: those of the channels from first_channel on, of
// which `grad_output` is and `count` are left.
template <bool kWhole, class Real>
__device__ inline void add_to_corners(Real* sums, uint32_t pixel_bytes, const Prepared<Real>& places, Real fraction_y,
                                      Real fraction_x, const Real (&grad_output)[4], Real attention, int count) {
  const auto weights = corner_weights(fraction_y, fraction_x);
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    if (!places.corners().has(c) || count <= 0) continue;
    Real addend[4];
#pragma unroll
    for (int d = 0; d < 4; ++d) addend[d] = value_contribution(weights.w[c], grad_output[d] * attention);
    add_four<kWhole, kChannelStep<Real>>(row_at(sums, places.pixel(c), pixel_bytes), count, addend);
  }
}

// The sums over channels of the samples that the lanes of a group have prepared, `most` of them in some group: each
// lane gets those of its own. `row` is grad_output of the thread's first channels. kOneChunk: D is at most kLanes.
// kAdds: adds the samples' addends of grad_value to `sums` atomically, too. All lanes of a warp must call it.
template <bool kWhole, bool kOneChunk, bool kAdds, class Stored, class Real>
__device__ inline void sum_channels(const Problem<Stored>& p, const RowAddress<Stored>& address, const Real (&row)[4],
                                    const Prepared<Real>& mine, int most, Real* sums, Real (&total)[3]) {
  const int lane = static_cast<int>(threadIdx.x % kGroup), D = static_cast<int>(p.D), left = D - 4 * lane;
  const auto pixel_elements = static_cast<uint32_t>(p.M * p.D);
  Real added[4] = {row[0], row[1], row[2], row[3]};
  if constexpr (kAdds) exchange_channels(added);
  const int first_added = first_channel<Real>(lane);
#pragma unroll 1
  for (int first = 0; first < most; first += kPair) {
    Prepared<Real> samples[kPair];
    ChannelSums<4, Real> channel_sums[kPair];
#pragma unroll
    for (int i = 0; i < kPair; ++i) samples[i] = mine.places_of_lane(first + i);
    for (int channel = 0; kOneChunk ? channel == 0 : channel < D; channel += kLanes) {
      const int count = left - channel;
      Real go[4] = {row[0], row[1], row[2], row[3]};
      if (!kOneChunk && channel > 0 && count > 0) load_four<kWhole>(address.grad_output + channel, count, go);
      if constexpr (kAdds) {
        static_assert(kOneChunk);
#pragma unroll
        for (int i = 0; i < kPair; ++i) {
          add_to_corners<kWhole>(sums + address.first_pixel + (first_added - 4 * lane),
                                 pixel_elements * uint32_t{sizeof(Real)}, samples[i],
                                 of_lane(mine.fraction_y, first + i), of_lane(mine.fraction_x, first + i), added,
                                 of_lane(mine.attention, first + i), D - first_added);
        }
      }
      const CornerValues<kWhole, Stored, Real> v(p.value + address.first_pixel + channel,
                                                 pixel_elements * uint32_t{sizeof(Stored)}, samples, count);
#pragma unroll
      for (int i = 0; i < kPair; ++i) {
        const Real fraction_y = of_lane(mine.fraction_y, first + i), fraction_x = of_lane(mine.fraction_x, first + i);
        const auto weights = corner_weights(fraction_y, fraction_x);
#pragma unroll
        for (int d = 0; d < 4; ++d) {
          if (!(kWhole && kOneChunk) && d >= count) break;
          channel_sums[i].add(d, go[d], weights, fraction_y, fraction_x, v.at[i][0][d], v.at[i][1][d], v.at[i][2][d],
                              v.at[i][3][d]);
        }
      }
    }
    Real of[kPair][3];
#pragma unroll
    for (int i = 0; i < kPair; ++i) sum_up(channel_sums[i], of[i]);
#pragma unroll
    for (int k = 0; k < 3; ++k) {
      const bool has_channels = !(kWhole && kOneChunk) || left > 0;  // else what was summed is no channel
      const Real sum = pair_over_group(has_channels ? of[0][k] : Real(0), has_channels ? of[1][k] : Real(0));
      if (lane / kPair == first / kPair) total[k] = sum;
    }
  }
}

// Writes the gradients of a sample.
template <class Real>
__device__ inline void store_gradients(const Prepared<Real>& prepared, int64_t sample, const Real (&total)[3],
                                       const Result& grad_locations, const Result& grad_weights) {
  const bool is_sampled = (prepared.flags_and_width & Prepared<Real>::kSampled) != 0;
  if (grad_weights.data != nullptr) {
    store_one(grad_weights.data, grad_weights.dtype, sample, is_sampled ? total[0] : Real(0));
  }
  if (grad_locations.data != nullptr) {
    store_two(grad_locations.data, grad_locations.dtype, sample,
              is_sampled ? location_gradient(total[1], prepared.attention, prepared.slope_x) : Real(0),
              is_sampled ? location_gradient(total[2], prepared.attention, prepared.slope_y) : Real(0));
  }
}

// Blocks that a multiprocessor runs at a time.
template <bool kOneChunk, class Real>
inline constexpr int kGradientBlocks = (sizeof(Real) == 4 ? 4 : 2) / (kOneChunk ? 1 : 2);

// grad_attention_weights and grad_sampling_locations of every sample. A group of threads takes a row.
template <bool kWhole, bool kOneChunk, class Stored, class Real>
__global__ void __launch_bounds__(kSampleThreads, kGradientBlocks<kOneChunk, Real>)
    sample_gradients_kernel(Problem<Stored> p, Result grad_locations, Result grad_weights) {
  constexpr int kGroups = kSampleThreads / kGroup;
  const int lane = static_cast<int>(threadIdx.x % kGroup);
  const int D = static_cast<int>(p.D), points = static_cast<int>(p.P), samples = static_cast<int>(p.L) * points;
  const int64_t rows = p.B * p.Q * p.M, step = int64_t{gridDim.x} * kGroups;
  const int64_t of_block = (rows + step - 1) / step * kGroups;
  const int64_t end = min(rows, (int64_t{blockIdx.x} + 1) * of_block);
  for (int64_t first_row = blockIdx.x * of_block; first_row < end; first_row += kGroups) {
    const bool is_row = first_row + threadIdx.x / kGroup < end;
    const Row row = row_of(p, is_row ? first_row + threadIdx.x / kGroup : end - 1);
    const int64_t number = (row.b * p.Q + row.q) * p.M + row.m;
    const RowAddress address(p, row, number, lane);
    Real whole_row[4] = {};
    if (4 * lane < D) load_four<kWhole>(address.grad_output, D - 4 * lane, whole_row);
    for (int first = 0; first < samples; first += kGroup) {  // in step, as the groups of a warp exchange numbers
      Prepared<Real> mine{};
      const int64_t sample = number * samples + first + lane;
      const bool is_there = is_row && first + lane < samples;
      if (is_there) mine = Prepared<Real>::of(p, level_of(p.levels, (first + lane) / points), sample);
      Real total[3];
      sum_channels<kWhole, kOneChunk, false>(p, address, whole_row, mine, min(kGroup, samples - first),
                                             static_cast<Real*>(nullptr), total);
      if (is_there) store_gradients(mine, sample, total, grad_locations, grad_weights);
    }
  }
}

}  // namespace msda::kernels::cuda
