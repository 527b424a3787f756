// The passes over samples in their own order: the forward pass, and the gradients of single samples if runs.cuh does
// not compute them.
#pragma once

#include "kernels/cuda/add_four.cuh"
#include "kernels/cuda/samples.cuh"

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
      prepared.flags_and_width =
          (spot.sampled ? corners.flags | kSampled : 0) | static_cast<uint32_t>(level.width) << kWidth;
    });
    return prepared;
  }
  __device__ Corners corners() const { return {first, flags_and_width & (kSampled - 1)}; }
};
template <class T>
__device__ inline T of_lane(T mine, int lane) {
  return __shfl_sync(~0u, mine, lane, kGroup);
}

// Where a group of threads finds a row: its grad_output, and pixel 0 of its batch and head; this thread's channels.
template <class Stored>
struct RowAddress {
  const Stored* grad_output;
  int64_t first_pixel;  // an element of value
  __device__ RowAddress(const Problem<Stored>& p, const Row& row, int64_t number, int lane)
      : grad_output(p.grad_output + number * p.D + 4 * lane),
        first_pixel((row.b * p.S * p.M + row.m) * p.D + 4 * lane) {}
};

inline constexpr int kBatch = 4;  // samples of a group whose sums over channels are computed at the same time

// The sums over channels of samples [first, first + kBatch) among those that the lanes of a group have prepared: lane j
// gets those of sample first + j % kBatch. `row` is grad_output of the thread's first channels. kOneChunk: D is at most
// kLanes. kAdds: adds the samples' addends of grad_value to `sums` atomically, too. All lanes of a warp must call it.
template <bool kWhole, bool kOneChunk, bool kAdds, class Stored, class Real>
__device__ inline void sum_channels(const Problem<Stored>& p, const RowAddress<Stored>& address, const Real (&row)[4],
                                    const Prepared<Real>& mine, int first, Real* sums, Real (&total)[3]) {
  using Of = Prepared<Real>;
  const int D = static_cast<int>(p.D), left = D - static_cast<int>(4 * (threadIdx.x % kGroup));
  const auto pixel_elements = static_cast<uint32_t>(p.M * p.D);
  const Stored* value = p.value + address.first_pixel;
  Real of[kBatch][3];
#pragma unroll
  for (int i = 0; i < kBatch; ++i) {
    const Real fraction_y = of_lane(mine.fraction_y, first + i), fraction_x = of_lane(mine.fraction_x, first + i);
    Of sample;
    sample.first = of_lane(mine.first, first + i);
    sample.flags_and_width = of_lane(mine.flags_and_width, first + i);
    const Corners corners = sample.corners();
    const uint32_t width = sample.flags_and_width >> Of::kWidth;
    const auto weights = corner_weights(fraction_y, fraction_x);
    [[maybe_unused]] Real factor(0);
    if constexpr (kAdds) factor = of_lane(mine.attention, first + i);
    ChannelSums<4, Real> channel_sums;
    for (int channel = 0; kOneChunk ? channel == 0 : channel < D; channel += kLanes) {
      const int count = left - channel;
      if (count <= 0) break;
      Real go[4], v[4][4] = {};
      if (channel == 0) {
#pragma unroll
        for (int d = 0; d < 4; ++d) go[d] = row[d];
      } else {
        load_four<kWhole>(address.grad_output + channel, count, go);
      }
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        if (!corners.has(c)) continue;
        const Stored* pixel = row_at(value, corners.pixel(c, width), pixel_elements * uint32_t{sizeof(Stored)});
        load_four<kWhole>(pixel + channel, count, v[c]);
      }
#pragma unroll
      for (int d = 0; d < 4; ++d) {
        if (!kWhole && d >= count) break;
        channel_sums.add(d, go[d], weights, fraction_y, fraction_x, v[0][d], v[1][d], v[2][d], v[3][d]);
      }
      if constexpr (kAdds) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          if (!corners.has(c)) continue;
          Real* pixel = row_at(sums + address.first_pixel, corners.pixel(c, width),
                               pixel_elements * uint32_t{sizeof(Real)});
          Real addend[4];
#pragma unroll
          for (int d = 0; d < 4; ++d) addend[d] = value_contribution(weights.w[c], go[d] * factor);
          add_four<kWhole>(pixel + channel, count, addend);
        }
      }
    }
    sum_up(channel_sums, of[i]);
  }
  sums_over_group(of, total);
}

// Writes the gradients of the sample that lane `number` of a group has prepared: half of the group's threads the one,
// half the other. All lanes of a warp must call it.
template <class Real>
__device__ inline void store_gradients(const Prepared<Real>& mine, int number, bool is_there, int64_t sample,
                                       const Real (&total)[3], const Result& grad_locations,
                                       const Result& grad_weights) {
  const Real attention = of_lane(mine.attention, number), slope_y = of_lane(mine.slope_y, number),
             slope_x = of_lane(mine.slope_x, number);
  const bool is_sampled = (of_lane(mine.flags_and_width, number) & Prepared<Real>::kSampled) != 0;
  if (!is_there) return;
  if (threadIdx.x % kGroup < kBatch) {
    if (grad_weights.data != nullptr) {
      store_one(grad_weights.data, grad_weights.dtype, sample, is_sampled ? total[0] : Real(0));
    }
  } else if (grad_locations.data != nullptr) {
    store_two(grad_locations.data, grad_locations.dtype, sample,
              is_sampled ? location_gradient(total[1], attention, slope_x) : Real(0),
              is_sampled ? location_gradient(total[2], attention, slope_y) : Real(0));
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
      if (is_row && first + lane < samples) {
        mine = Prepared<Real>::of(p, level_of(p.levels, (first + lane) / points), number * samples + first + lane);
      }
#pragma unroll 1
      for (int half = 0; half < kGroup && first + half < samples; half += kBatch) {
        Real total[3];
        sum_channels<kWhole, kOneChunk, false>(p, address, whole_row, mine, half, static_cast<Real*>(nullptr), total);
        const int of_lane = half + lane % kBatch;
        store_gradients(mine, of_lane, is_row && first + of_lane < samples, number * samples + first + of_lane, total,
                        grad_locations, grad_weights);
      }
    }
  }
}

}  // namespace msda::kernels::cuda
