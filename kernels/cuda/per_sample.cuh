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

// Blocks of sample_gradients that a multiprocessor runs at a time.
template <bool kOneChunk, class Real>
inline constexpr int kGradientBlocks = (sizeof(Real) == 4 ? 4 : 2) / (kOneChunk ? 1 : 2);

// What a group of threads takes: samples [first, end) of a row, which is cut into parts of `each` samples.
struct RowPart {
  int64_t row;
  int first, end;
};
__device__ inline RowPart row_part_of(int64_t number, int parts, int each, int samples) {
  if (parts == 1) return {number, 0, samples};
  const int64_t row = number <= INT32_MAX ? static_cast<int32_t>(number) / parts : number / parts;
  const int first = static_cast<int>(number - row * parts) * each;
  return {row, first, min(samples, first + each)};
}

// grad_attention_weights and grad_sampling_locations of every sample, by block `block` of `blocks`. `each` samples of a
// row go to a group of threads: a multiple of kGroup / 2, or all. kAdds: adds the samples' addends of grad_value to
// `sums` atomically, too.
template <bool kWhole, bool kOneChunk, bool kAdds, class Stored, class Real>
__device__ inline void sample_gradients(const Problem<Stored>& p, unsigned block, unsigned blocks, int each, Real* sums,
                                        const Result& grad_locations, const Result& grad_weights) {
  using Of = Prepared<Real>;
  constexpr int kBatch = 4, kGroups = kSampleThreads / kGroup;
  const int lane = static_cast<int>(threadIdx.x % kGroup);
  const int D = static_cast<int>(p.D), points = static_cast<int>(p.P), samples = static_cast<int>(p.L) * points;
  const int parts = (samples - 1) / each + 1;
  const int64_t units = p.B * p.Q * p.M * parts, step = int64_t{blocks} * kGroups;
  const int64_t of_block = (units + step - 1) / step * kGroups;
  const int64_t end_unit = min(units, (int64_t{block} + 1) * of_block);
  const int64_t pixel_step = p.M * p.D;
  const int most = min(each, samples);
  for (int64_t first_unit = block * of_block; first_unit < end_unit; first_unit += kGroups) {
    const bool is_row = first_unit + threadIdx.x / kGroup < end_unit;
    const RowPart part = row_part_of(is_row ? first_unit + threadIdx.x / kGroup : end_unit - 1, parts, each, samples);
    const Row row = row_of(p, part.row);
    const int64_t head = (row.b * p.Q + row.q) * p.M + row.m;
    const Stored* grad_row = p.grad_output + head * p.D + 4 * lane;
    const int64_t first_pixel = (row.b * p.S * p.M + row.m) * p.D + 4 * lane;
    const Stored* value = p.value + first_pixel;
    Real whole_row[4] = {};
    if (4 * lane < D) load_four<kWhole>(grad_row, D - 4 * lane, whole_row);
    for (int done = 0; done < most; done += kGroup) {  // in step, as the groups of a warp exchange numbers
      const int first = part.first + done;
      Of mine{};
      if (is_row && first + lane < part.end) {
        mine = Of::of(p, head * samples + first + lane, (first + lane) / points);
      }
#pragma unroll 1
      for (int half = 0; half < kGroup && done + half < most; half += kBatch) {
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
          [[maybe_unused]] Real factor(0);
          if constexpr (kAdds) factor = of_lane(mine.attention, half + i);
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
            if constexpr (kAdds) {
#pragma unroll
              for (int c = 0; c < 4; ++c) {
                if (!corners.has(c)) continue;
                const uint32_t pixel = corners.pixel(c, sample.flags_and_width >> Of::kWidth);
                Real addend[4];
#pragma unroll
                for (int d = 0; d < 4; ++d) addend[d] = value_contribution(weights.w[c], go[d] * factor);
                add_four<kWhole>(sums + first_pixel + pixel * pixel_step + channel, count, addend);
              }
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
        if (!is_row || first + number >= part.end) continue;
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

// The same as a kernel of its own.
template <bool kWhole, bool kOneChunk, bool kAdds, class Stored, class Real>
__global__ void __launch_bounds__(kSampleThreads, kGradientBlocks<kOneChunk, Real>)
    sample_gradients_kernel(Problem<Stored> p, int each, Real* sums, Result grad_locations, Result grad_weights) {
  sample_gradients<kWhole, kOneChunk, kAdds, Stored, Real>(p, blockIdx.x, gridDim.x, each, sums, grad_locations,
                                                           grad_weights);
}

}  // namespace msda::kernels::cuda
