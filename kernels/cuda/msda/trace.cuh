// The kernels behind the stages and the mode `mixed` (stages.h): a warp computes a sample, and a thread one element of
// grad_value. Simple rather than fast; the operator's own kernels are elsewhere.
#pragma once

#include "kernels/cuda/msda/grouping.cuh"
#include "kernels/cuda/msda/samples.cuh"
#include "kernels/cuda/msda/stages.h"
#include "kernels/stages.h"
#include "kernels/tree_sum.h"

namespace msda::kernels::cuda {

inline constexpr int kTraceThreads = 256, kTraceWarps = kTraceThreads / kLanes;

__device__ inline int64_t cells_before(const Levels& levels, int64_t l) {
  int64_t cells = 0;
  for (int i = 0; i < l; ++i) cells += cpu::cells_of(level_of(levels, i));
  return cells;
}

// Writes element `index` of a stage, if the stage is wanted.
__device__ inline void put(const StageResults& results, msda_stage_id stage, int64_t index, double x) {
  const Result& result = results.of[stage];
  if (result.data != nullptr) store_one(result.data, result.dtype, index, x);
}

template <class In>
__device__ inline TracedSpot trace_sample_at(const Problem<In>& p, uint32_t float64_stages, const Level& level,
                                             int64_t sample) {
  return trace_spot(p, float64_stages, static_cast<double>(p.sampling_locations[2 * sample]),
                    static_cast<double>(p.sampling_locations[2 * sample + 1]), level);
}

// All stages but grad_value. Lane j of a warp takes the channels j, j + 32, ...
template <class In>
__device__ inline void trace_channels(const Problem<In>& p, uint32_t float64_stages, const StageResults& results,
                                      const TracedSpot& spot, const In* level_value, int64_t row, int64_t sample) {
  const int lane = static_cast<int>(threadIdx.x % kLanes);
  const double attention = static_cast<double>(p.attention_weights[sample]);
  TracedSums sums{};
  for (int64_t d = lane; d < p.D; d += kLanes) {
    const double grad_output = static_cast<double>(p.grad_output[row * p.D + d]);
    double v[4] = {}, sampled_value = 0;
    if (spot.sampled) {
      for (int c = 0; c < 4; ++c) {
        if (spot.pixels[c] >= 0) v[c] = static_cast<double>(level_value[spot.pixels[c] * p.M * p.D + d]);
      }
      sampled_value = trace_sampled_value(spot, float64_stages, v);
      trace_channel(spot, float64_stages, grad_output, v, sampled_value, sums);
    }
    put(results, MSDA_STAGE_SAMPLED_VALUE, sample * p.D + d, sampled_value);
    for (int c = 0; c < 4; ++c) {
      const bool reads = spot.sampled && spot.pixels[c] >= 0;
      const int64_t at = (4 * sample + c) * p.D + d;
      put(results, MSDA_STAGE_CORNER_VALUES, at, v[c]);
      put(results, MSDA_STAGE_VALUE_CONTRIBUTIONS, at,
          reads ? trace_contribution(float64_stages, spot.weights[c], grad_output, attention) : 0.0);
    }
  }
  for (int step = 1; step < kLanes; step *= 2) {
    const TracedSums received{__shfl_xor_sync(~0u, sums.attention, step), __shfl_xor_sync(~0u, sums.x, step),
                              __shfl_xor_sync(~0u, sums.y, step)};
    sums = add_traced(float64_stages, sums, received);
  }
  if (lane != 0) return;
  double gradient[2] = {};
  if (spot.sampled) trace_location_gradient(spot, float64_stages, attention, sums, gradient);
  put(results, MSDA_STAGE_GRAD_ATTENTION_WEIGHTS, sample, sums.attention);
  for (int i = 0; i < 2; ++i) put(results, MSDA_STAGE_GRAD_SAMPLING_LOCATIONS, 2 * sample + i, gradient[i]);
}

// Computes the wanted stages of every sample, those with channels only if `with_channels`, and, unless `numbers.cell`
// is null, the cell numbers by which samples are grouped for grad_value.
template <class In>
__global__ void __launch_bounds__(kTraceThreads)
    trace_kernel(Problem<In> p, uint32_t float64_stages, StageResults results, bool with_channels,
                 CellNumbers numbers) {
  const int64_t samples = p.B * p.Q * p.M * p.L * p.P, step = int64_t{gridDim.x} * kTraceWarps;
  for (int64_t sample = int64_t{blockIdx.x} * kTraceWarps + threadIdx.x / kLanes; sample < samples; sample += step) {
    const int64_t point = sample % p.P, l = sample / p.P % p.L, row = sample / (p.P * p.L);
    const int64_t m = row % p.M, q = row / p.M % p.Q, b = row / (p.M * p.Q);
    const Level level = level_of(p.levels, static_cast<int>(l));
    const TracedSpot spot = trace_sample_at(p, float64_stages, level, sample);
    if (threadIdx.x % kLanes == 0) {
      for (int i = 0; i < 2; ++i) {
        put(results, MSDA_STAGE_PIXEL_COORDINATES, 2 * sample + i, spot.pixel[i]);
        put(results, MSDA_STAGE_CELL, 2 * sample + i, spot.cell[i]);
      }
      for (int c = 0; c < 4; ++c) put(results, MSDA_STAGE_INTERPOLATION_WEIGHTS, 4 * sample + c, spot.weights[c]);
      if (numbers.cell != nullptr) {
        const int64_t cell = traced_cell(spot, level), head = b * p.M + m;
        numbers.cell[sample] = static_cast<uint64_t>(
            cell < 0 ? p.B * p.M * numbers.of_head : head * numbers.of_head + cells_before(p.levels, l) + cell);
        numbers.sample[sample] = static_cast<uint32_t>(q * p.P + point);
      }
    }
    if (!with_channels) continue;
    const In* level_value = p.value + ((b * p.S + level.start) * p.M + m) * p.D;
    trace_channels(p, float64_stages, results, spot, level_value, row, sample);
  }
}

// The scatter sum. Real: the arithmetic of the stage grad_value.
template <class Real, class In>
__global__ void __launch_bounds__(kTraceThreads)
    grad_value_kernel(Problem<In> p, uint32_t float64_stages, CellSamples samples, Result grad_value) {
  const int64_t elements = p.B * p.S * p.M * p.D, step = int64_t{gridDim.x} * kTraceThreads;
  for (int64_t i = int64_t{blockIdx.x} * kTraceThreads + threadIdx.x; i < elements; i += step) {
    const int64_t d = i % p.D, m = i / p.D % p.M, s = i / (p.D * p.M) % p.S, b = i / (p.D * p.M * p.S);
    int l = 0;
    while (l + 1 < p.L && s >= level_of(p.levels, l + 1).start) ++l;
    const Level level = level_of(p.levels, l);
    const int64_t first_cell = (b * p.M + m) * samples.of_head + cells_before(p.levels, l);
    const auto y = static_cast<int32_t>((s - level.start) / level.width);
    const auto x = static_cast<int32_t>((s - level.start) % level.width);
    Real sum(0);
    for (int neighbour = 0; neighbour < 4; ++neighbour) {
      const int32_t row = y - 1 + neighbour / 2, column = x - 1 + neighbour % 2;
      const int64_t cell = first_cell + (int64_t{row} + 1) * (int64_t{level.width} + 1) + column + 1;
      const int64_t begin = samples.begin[cell], end = samples.begin[cell + 1];
      if (begin == end) continue;
      for (int c = 0; c < 4; ++c) {
        if (corner_pixel(p.dialect, p.padding, row, c / 2, level.height) != y ||
            corner_pixel(p.dialect, p.padding, column, c % 2, level.width) != x) {
          continue;
        }
        TreeSum<Real> corner;
        for (int64_t at = begin; at < end; ++at) {
          const int64_t query = samples.sample[at] / p.P, point = samples.sample[at] % p.P;
          const int64_t of_query = (b * p.Q + query) * p.M + m, sample = (of_query * p.L + l) * p.P + point;
          const TracedSpot spot = trace_sample_at(p, float64_stages, level, sample);
          corner.add(static_cast<Real>(trace_contribution(float64_stages, spot.weights[c],
                                                          static_cast<double>(p.grad_output[of_query * p.D + d]),
                                                          static_cast<double>(p.attention_weights[sample]))));
        }
        sum = sum + corner.sum();
      }
    }
    store_one(grad_value.data, grad_value.dtype, i, static_cast<double>(sum));
  }
}

}  // namespace msda::kernels::cuda
