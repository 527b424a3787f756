// The gradients of the samples of a short call. There are too few rows to fill the device: a group of threads takes
// only some samples of a row, and then ends.
#pragma once

#include "kernels/cuda/msda/per_sample.cuh"

namespace msda::kernels::cuda {

// Rows of (batch, head, query), each divided into `parts` of at most `each` samples, kGroup or half of it. Numbers fit
// into 32 bits.
struct RowParts {
  Division by_parts, by_queries, by_points;
  uint32_t each, count;  // count: parts of all rows
  RowParts(int64_t heads, int64_t Q, int64_t L, int64_t P)
      : by_queries(Q), by_points(P), each(L * P % kGroup >= 1 && L * P % kGroup <= kGroup / 2 ? kGroup / 2 : kGroup) {
    const int64_t parts = (L * P + each - 1) / each;
    by_parts = Division(parts);
    count = static_cast<uint32_t>(heads * Q * parts);
  }
};

// Computes the rows of block `block`. D is at most kLanes. kAdds: as in sum_channels.
template <bool kWhole, bool kAdds, class Stored, class Real>
__device__ inline void short_gradients(const Problem<Stored>& p, const RowParts& parts, uint32_t block, Real* sums,
                                       const Result& grad_locations, const Result& grad_weights) {
  const int lane = static_cast<int>(threadIdx.x % kGroup), D = static_cast<int>(p.D);
  const auto samples = static_cast<uint32_t>(p.L * p.P);
  const uint32_t part = block * (kSampleThreads / kGroup) + threadIdx.x / kGroup;
  const bool is_part = part < parts.count;
  const auto [row, of_row] = parts.by_parts.divide(is_part ? part : 0);
  const auto [head, q] = parts.by_queries.divide(row);
  const auto [b, m] = p.by_M.divide(head);
  const int64_t number = (b * p.Q + q) * p.M + m;
  const RowAddress address(p, Row{b, q, m}, number, lane);
  Real whole_row[4] = {};
  if (4 * lane < D) load_four<kWhole>(address.grad_output, D - 4 * lane, whole_row);
  const uint32_t sample_of_row = of_row * parts.each + lane;
  const int64_t sample = number * samples + sample_of_row;
  const bool is_there = is_part && static_cast<uint32_t>(lane) < parts.each && sample_of_row < samples;
  Prepared<Real> mine{};
  if (is_there) mine = Prepared<Real>::of(p, p.levels.near[parts.by_points.divide(sample_of_row).quotient], sample);
  Real total[3];
  sum_channels<kWhole, true, kAdds>(p, address, whole_row, mine, static_cast<int>(parts.each), sums, total);
  if (is_there) store_gradients(mine, sample, total, grad_locations, grad_weights);
}

// Does the same as a kernel of its own.
template <bool kWhole, bool kAdds, class Stored, class Real>
__global__ void __launch_bounds__(kSampleThreads, kGradientBlocks<true, Real>)
    short_gradients_kernel(Problem<Stored> p, RowParts parts, Real* sums, Result grad_locations, Result grad_weights) {
  short_gradients<kWhole, kAdds>(p, parts, blockIdx.x, sums, grad_locations, grad_weights);
}

}  // namespace msda::kernels::cuda
