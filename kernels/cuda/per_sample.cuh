// The passes that go over samples where they are: the forward pass, and the gradients that belong to one sample where
// runs.cuh does not compute them.
#pragma once

#include "kernels/cuda/samples.cuh"

namespace msda::kernels::cuda {

inline constexpr int kSampleThreads = 256;

// Rows of (batch, head, query): those that a block takes one after the other share a head, so that what they read of
// value stays in the multiprocessor's cache.
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

// grad_attention_weights and grad_sampling_locations of every sample.
template <bool kWhole, class Stored, class Real>
__global__ void __launch_bounds__(kSampleThreads, sizeof(Real) == 4 ? 4 : 2)
    sample_gradients_kernel(Problem<Stored> p, Result grad_locations, Result grad_weights) {
  const int lane = static_cast<int>(threadIdx.x % kGroup);
  const int64_t rows = p.B * p.Q * p.M, step = int64_t{gridDim.x} * (kSampleThreads / kGroup);
  const int64_t each = (rows + step - 1) / step * (kSampleThreads / kGroup);
  const int64_t end = min(rows, (int64_t{blockIdx.x} + 1) * each);
  const int D = static_cast<int>(p.D);
  for (int64_t number = blockIdx.x * each + threadIdx.x / kGroup; number < end; number += kSampleThreads / kGroup) {
    const Row row = row_of(p, number);
    const int64_t head = (row.b * p.Q + row.q) * p.M + row.m;
    const Stored* grad_row = p.grad_output + head * p.D;
    Real whole_row[4];
    if (kWhole && D == kLanes) load_four<kWhole>(grad_row + 4 * lane, 4, whole_row);
    for (int l = 0; l < p.L; ++l) {
      const Level level = level_of(p.levels, l);
      const int64_t level_offset = ((row.b * p.S + level.start) * p.M + row.m) * p.D;
      for (int point = 0; point < p.P; ++point) {
        const int64_t sample = (head * p.L + l) * p.P + point;
        const Spot<Real> spot = locate_sample<Real>(p, level, sample);
        Real attention_sum(0), x_sum(0), y_sum(0);
        const Real attention = static_cast<Real>(widened(p.attention_weights[sample]));
        if (spot.sampled) {
          const auto weights = corner_weights(spot.y.fraction, spot.x.fraction);
          int64_t pixels[4];
          corner_pixels(p, level, spot.y.low, spot.x.low, pixels);
          Real of_attention[4] = {}, of_x[4] = {}, of_y[4] = {};
          for (int first = 0; first < D; first += kLanes) {
            const int channel = first + 4 * lane, count = D - channel;
            Real go[4], v[4][4] = {};
            if (kWhole && D == kLanes) {
#pragma unroll
              for (int i = 0; i < 4; ++i) go[i] = whole_row[i];
            } else {
              load_four<kWhole>(grad_row + (count > 0 ? channel : 0), count, go);
            }
#pragma unroll
            for (int c = 0; c < 4; ++c) {
              if (pixels[c] >= 0 && count > 0) {
                load_four<kWhole>(p.value + level_offset + pixels[c] * p.M * p.D + channel, count, v[c]);
              }
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              if (kWhole ? count <= 0 : i >= count) break;
              of_attention[i] = fma(go[i], interpolate(weights, v[0][i], v[1][i], v[2][i], v[3][i]), of_attention[i]);
              of_x[i] = fma(go[i], slope_across(v[0][i], v[1][i], v[2][i], v[3][i], spot.y.fraction), of_x[i]);
              of_y[i] = fma(go[i], slope_across(v[0][i], v[2][i], v[1][i], v[3][i], spot.x.fraction), of_y[i]);
            }
          }
          attention_sum = sum_over_group(of_attention);
          x_sum = location_gradient(sum_over_group(of_x), attention, spot.x.slope);
          y_sum = location_gradient(sum_over_group(of_y), attention, spot.y.slope);
        }
        if (lane == 0 && grad_weights.data != nullptr) {
          store_one(grad_weights.data, grad_weights.dtype, sample, attention_sum);
        }
        if (lane < 2 && grad_locations.data != nullptr) {
          store_one(grad_locations.data, grad_locations.dtype, 2 * sample + lane, lane == 0 ? x_sum : y_sum);
        }
      }
    }
  }
}

}  // namespace msda::kernels::cuda
