// Groups the samples of every batch, head and level by cell, each cell's in the order of (query, point): the data
// structures, and what the two implementations share. group_short.cuh sorts a list with one block, group_long.cuh with
// several.
#pragma once

#include <cstring>
#include <type_traits>

#include "kernels/cuda/common/prefix_sums.cuh"
#include "kernels/cuda/common/result.h"
#include "kernels/cuda/msda/plan.h"
#include "kernels/cuda/msda/samples.cuh"

namespace msda::kernels::cuda {

// A run's number, and the corners of its cell; the first pixel is numbered within the level.
struct RunPlace {
  uint32_t run;
  Corners corners;
  template <class Conventions>
  __device__ static RunPlace of(const Conventions& call, const LevelPlan& plan, uint32_t run, uint32_t cell) {
    const auto [row, column] = plan.by_cells_of_row.divide(cell);
    return {run, Corners::of_cell(call, plan.level, row, column)};
  }
};

// One sample of a cell, as the sums need it. With float it is one sector of memory: written whole, it costs half as
// much as in two parts.
template <class Real>
struct alignas(sizeof(Real) * 8) Entry {
  Real attention, fraction_y, fraction_x;
  std::conditional_t<sizeof(Real) == 8, uint64_t, uint32_t> sample;  // SampleIndex::number_of, and the flags below
  RunPlace place;                                                    // where kRunBegins
  static constexpr uint32_t kRunBegins = 1u << 31, kFlatX = 1u << 30,
                            kFlatY = 1u << kNumberBits;  // flat: Axis::slope is 0
  static constexpr uint32_t kNumber = kFlatY - 1;
};
static_assert(sizeof(Entry<float>) == 32);
// The part of an entry that a thread reads or writes at once.
using EntryPart = uint4;
template <class Real>
inline constexpr int kEntryParts = sizeof(Entry<Real>) / sizeof(EntryPart);

template <class Real>
__device__ inline uint32_t flat_flags(const Spot<Real>& spot) {
  return (spot.x.slope == Real(0) ? Entry<Real>::kFlatX : 0u) | (spot.y.slope == Real(0) ? Entry<Real>::kFlatY : 0u);
}

__device__ inline uint4 of_partner(const uint4& mine, int step) {
  return make_uint4(__shfl_xor_sync(~0u, mine.x, step), __shfl_xor_sync(~0u, mine.y, step),
                    __shfl_xor_sync(~0u, mine.z, step), __shfl_xor_sync(~0u, mine.w, step));
}

// Writes an entry of each thread for which `is_there`; as many adjacent lanes as an entry has parts write it together.
// All lanes must call it.
template <class Real>
__device__ inline void store_entry(Entry<Real>* to, uint32_t at, const Entry<Real>& entry, bool is_there) {
  constexpr int kParts = kEntryParts<Real>;
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  EntryPart parts[kParts];  // of this lane's entry; after the exchange, one of each lane's
  memcpy(parts, &entry, sizeof(entry));
#pragma unroll
  for (int step = 1; step < kParts; step *= 2) {
    const bool upper = (lane & step) != 0;
#pragma unroll
    for (int i = 0; i < kParts; ++i) {
      if ((i & step) != 0) continue;
      EntryPart given = parts[i + step];
      if (upper) given = parts[i];
      const EntryPart received = of_partner(given, step);
      if (upper) {
        parts[i] = received;
      } else {
        parts[i + step] = received;
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kParts; ++i) {
    const int from = lane / kParts * kParts + i;
    const uint32_t place = __shfl_sync(~0u, at, from);
    const bool is = __shfl_sync(~0u, is_there ? 1 : 0, from) != 0;
    if (is) reinterpret_cast<EntryPart*>(to + place)[lane % kParts] = parts[i];
  }
}

// Where the samples and the runs (sample.h, kRun) of a cell begin among those of its batch, head and level.
struct alignas(8) CellStart {
  uint32_t sample, run;
};

// A cell with more than kManySamples: its runs.
struct HotCell {
  uint32_t first_run, runs;
};

__device__ inline const LevelPlan& plan_of(const LevelPlans& plans, int l) {
  return plans.far != nullptr ? plans.far[l] : plans.near[l];
}

// Returns where the tables of a batch, head and level begin.
template <class Start>
__device__ inline Start* starts_of(Start* cells, const LevelPlan& plan, uint32_t head) {
  return cells + plan.first_cell + int64_t{head} * plan.stride;
}
template <class Stored>
__device__ inline int64_t list_of(const Problem<Stored>& p, uint32_t head, int l) {
  return (int64_t{head} * p.L + l) * (p.Q * p.P);
}

// A block's share of the work. A head's shares come one after the other: what they read and write then stays in the
// second-level cache.
struct Share {
  uint32_t head, number;  // from Problem::first_head on, and which of the shares of this head
};
__device__ inline Share share_of(const Division& by_shares) {
  const auto [head, number] = by_shares.divide(blockIdx.x);
  return {head, number};
}

// Returns the first of a head's rows of (batch, query or pixel, head). Heads are counted from Problem::first_head on.
template <class Stored>
__device__ inline int64_t first_row_of(const Problem<Stored>& p, uint32_t head, int64_t rows) {
  const auto [b, m] = p.by_M.divide(p.first_head + head);
  return b * rows * p.M + m;
}

// Where a sample of a batch, head and level is in the tensors, by its place in the order of (query, point), and by its
// number.
class SampleIndex {
 public:
  template <class Stored>
  __device__ SampleIndex(const Problem<Stored>& p, Points points, uint32_t head, int l)
      : points_(points),
        first_(kept((first_row_of(p, head, p.Q) * p.L + l) * p.P)),
        query_step_(kept(static_cast<uint32_t>(p.M * p.L * p.P))) {}
  __device__ int64_t of_place(uint32_t place) const {
    const auto [query, point] = points_.by_count.divide(place);
    return at(query, point);
  }
  __device__ int64_t of_number(uint32_t number) const {
    return at(number >> points_.bits, number & ((1u << points_.bits) - 1));
  }
  __device__ uint32_t number_of(uint32_t place) const {
    const auto [query, point] = points_.by_count.divide(place);
    return query << points_.bits | point;
  }

 private:
  __device__ int64_t at(uint32_t query, uint32_t point) const {
    return first_ + static_cast<int64_t>(uint64_t{query} * query_step_ + point);
  }
  Points points_;
  int64_t first_;
  uint32_t query_step_;
};

// What grouping needs of a sample.
template <class Stored>
struct Read {
  Two<Stored> location;
  Stored attention;
};
template <class Stored>
__device__ inline Read<Stored> read_sample(const Problem<Stored>& p, int64_t sample) {
  return {location_of(p, sample), p.attention_weights[sample]};
}

// From the number of samples of each cell, finds where its samples and runs begin, kScanEach cells a thread. Calls
// use(first cell, starts, numbers) for these in the thread that has read the numbers.
inline constexpr uint32_t kScanEach = 8;
template <class T>
struct alignas(16) OfCells {
  T of[kScanEach];
};
template <int kThreads, class Use>
__device__ inline void scan_cells(uint32_t stride, const uint32_t* numbers, CellStart* cells, uint64_t* sums, Use use) {
  const auto samples_and_runs = [](uint32_t samples) {
    return uint64_t{samples} | uint64_t{(samples + kRun - 1) / kRun} << 32;
  };
  uint64_t begin = 0;  // runs in the upper half
  for (uint32_t tile = 0; tile < stride; tile += kScanEach * kThreads) {
    const uint32_t at = tile + kScanEach * threadIdx.x;
    OfCells<uint32_t> number{};
    if (at < stride) number = *reinterpret_cast<const OfCells<uint32_t>*>(numbers + at);
    uint64_t mine = 0, total = 0;
#pragma unroll
    for (uint32_t i = 0; i < kScanEach; ++i) mine += samples_and_runs(number.of[i]);
    uint64_t next = begin + sum_before(mine, sums, total);
    begin += total;
    if (at >= stride) continue;
    OfCells<CellStart> start;
#pragma unroll
    for (uint32_t i = 0; i < kScanEach; ++i) {
      start.of[i] = {static_cast<uint32_t>(next), static_cast<uint32_t>(next >> 32)};
      next += samples_and_runs(number.of[i]);
    }
    *reinterpret_cast<OfCells<CellStart>*>(cells + at) = start;
    use(at, start, number);
  }
}

// The samples [first, end) of a batch, head and level.
struct Chunk {
  int l;
  uint32_t head, number, first, end;
};

// Writes the gradients of a chunk's samples that reach no pixel: zeros, or NaN if a factor is not finite.
template <class Stored, class Real>
__device__ inline void store_unreached(const Problem<Stored>& p, const LevelPlan& plan, const Chunk& chunk,
                                       Points points, const Result& grad_locations, const Result& grad_weights) {
  const SampleIndex index(p, points, chunk.head, chunk.l);
  const Stored* grad_output = p.grad_output + first_row_of(p, chunk.head, p.Q) * p.D;
  for (uint32_t i = chunk.first + threadIdx.x; i < chunk.end; i += blockDim.x) {
    const int64_t query = points.by_count.divide(i).quotient, sample = index.of_place(i);
    const Spot<Real> spot = locate_sample<Real>(p, plan.level, sample);
    if (cell_of(spot, plan.level) >= 0) continue;
    Real of_attention(0), of_x(0), of_y(0);
    if (spot.sampled) {
      const Real zero(0), attention = static_cast<Real>(widened(p.attention_weights[sample]));
      const Real value = interpolate(corner_weights(spot.y.fraction, spot.x.fraction), zero, zero, zero, zero);
      const Real across_x = slope_across(zero, zero, zero, zero, spot.y.fraction);
      const Real across_y = slope_across(zero, zero, zero, zero, spot.x.fraction);
      for (int64_t d = 0; d < p.D; ++d) {
        const Real go = static_cast<Real>(widened(grad_output[query * (p.M * p.D) + d]));
        of_attention = fma(go, value, of_attention);
        of_x = fma(go, across_x, of_x);
        of_y = fma(go, across_y, of_y);
      }
      of_x = location_gradient(of_x, attention, spot.x.slope);
      of_y = location_gradient(of_y, attention, spot.y.slope);
    }
    if (grad_weights.data != nullptr) store_one(grad_weights.data, grad_weights.dtype, sample, of_attention);
    if (grad_locations.data != nullptr) store_two(grad_locations.data, grad_locations.dtype, sample, of_x, of_y);
  }
}

}  // namespace msda::kernels::cuda
