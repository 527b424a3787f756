// The passes over samples in their own order: the forward pass, and the gradients of single samples if runs.cuh does
// not compute them.
#pragma once

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
  __device__ static Prepared of(const Problem<Stored>& p, int64_t sample, int l) {
    const Level& level = level_of(p.levels, l);
    const Spot<Real> spot = locate_sample<Real>(p, level, sample);
    Corners corners{};
    if (cell_of(spot, level) >= 0) {
      corners =
          Corners::of_cell(p, level, static_cast<uint32_t>(spot.y.low + 1), static_cast<uint32_t>(spot.x.low + 1));
    }
    const auto start = static_cast<uint32_t>(level.start), width = static_cast<uint32_t>(level.width);
    return {spot.y.fraction,
            spot.x.fraction,
            static_cast<Real>(widened(p.attention_weights[sample])),
            spot.y.slope,
            spot.x.slope,
            start + corners.first,
            (spot.sampled ? corners.flags | kSampled : 0) | width << kWidth};
  }
  __device__ Corners corners() const { return {first, flags_and_width & (kSampled - 1)}; }
};
template <class T>
__device__ inline T of_lane(T mine, int lane) {
  return __shfl_sync(~0u, mine, lane, kGroup);
}

// grad_attention_weights and grad_sampling_locations of every sample.
template <bool kWhole, bool kOneChunk, class Stored, class Real>
__global__ void __launch_bounds__(kSampleThreads, (sizeof(Real) == 4 ? 4 : 2) / (kOneChunk ? 1 : 2))
    sample_gradients_kernel(Problem<Stored> p, Result grad_locations, Result grad_weights) {
  using Of = Prepared<Real>;
  constexpr int kBatch = 4, kGroups = kSampleThreads / kGroup;
  const int lane = static_cast<int>(threadIdx.x % kGroup);
  const int64_t rows = p.B * p.Q * p.M, step = int64_t{gridDim.x} * kGroups;
  const int64_t each = (rows + step - 1) / step * kGroups;
  const int64_t end = min(rows, (int64_t{blockIdx.x} + 1) * each);
  const int D = static_cast<int>(p.D), points = static_cast<int>(p.P), samples = static_cast<int>(p.L) * points;
  const int64_t pixel_step = p.M * p.D;
  for (int64_t first_row = blockIdx.x * each; first_row < end; first_row += kGroups) {
    const bool is_row = first_row + threadIdx.x / kGroup < end;
    const Row row = row_of(p, is_row ? first_row + threadIdx.x / kGroup : end - 1);
    const int64_t head = (row.b * p.Q + row.q) * p.M + row.m;
    const Stored* grad_row = p.grad_output + head * p.D + 4 * lane;
    const Stored* value = p.value + (row.b * p.S * p.M + row.m) * p.D + 4 * lane;
    Real whole_row[4] = {};
    if (4 * lane < D) load_four<kWhole>(grad_row, D - 4 * lane, whole_row);
    for (int first = 0; first < samples; first += kGroup) {
      Of mine{};
      if (first + lane < samples) mine = Of::of(p, head * samples + first + lane, (first + lane) / points);
#pragma unroll 1
      for (int half = 0; half < kGroup && first + half < samples; half += kBatch) {
        Real of[kBatch][3];
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
          Of sample;
          sample.fraction_y = of_lane(mine.fraction_y, half + i);
          sample.fraction_x = of_lane(mine.fraction_x, half + i);
          sample.first = of_lane(mine.first, half + i);
          sample.flags_and_width = of_lane(mine.flags_and_width, half + i);
          const Corners corners = sample.corners();
          const auto weights = corner_weights(sample.fraction_y, sample.fraction_x);
          ChannelSums<4, Real> channel_sums;
          for (int channel = 0; kOneChunk ? channel == 0 : channel < D; channel += kLanes) {
            const int count = D - channel - 4 * lane;
            if (count <= 0) break;
            Real go[4], v[4][4] = {};
            if (channel == 0) {
#pragma unroll
              for (int d = 0; d < 4; ++d) go[d] = whole_row[d];
            } else {
              load_four<kWhole>(grad_row + channel, count, go);
            }
#pragma unroll
            for (int c = 0; c < 4; ++c) {
              if (!corners.has(c)) continue;
              const uint32_t pixel = corners.pixel(c, sample.flags_and_width >> Of::kWidth);
              load_four<kWhole>(value + pixel * pixel_step + channel, count, v[c]);
            }
#pragma unroll
            for (int d = 0; d < 4; ++d) {
              if (!kWhole && d >= count) break;
              channel_sums.add(d, go[d], weights, sample.fraction_y, sample.fraction_x, v[0][d], v[1][d], v[2][d],
                               v[3][d]);
            }
          }
          sum_up(channel_sums, of[i]);
        }
        Real total[3];
        sums_over_group(of, total);
        const int number = half + lane % kBatch;
        const Real attention = of_lane(mine.attention, number), slope_y = of_lane(mine.slope_y, number),
                   slope_x = of_lane(mine.slope_x, number);
        const bool is_sampled = (of_lane(mine.flags_and_width, number) & Of::kSampled) != 0;
        if (!is_row || first + number >= samples) continue;
        const int64_t sample = head * samples + first + number;
        if (lane < kBatch) {
          if (grad_weights.data != nullptr) {
            store_one(grad_weights.data, grad_weights.dtype, sample, is_sampled ? total[0] : Real(0));
          }
        } else if (grad_locations.data != nullptr) {
          store_two(grad_locations.data, grad_locations.dtype, sample,
                    is_sampled ? location_gradient(total[1], attention, slope_x) : Real(0),
                    is_sampled ? location_gradient(total[2], attention, slope_y) : Real(0));
        }
      }
    }
  }
}

}  // namespace msda::kernels::cuda
