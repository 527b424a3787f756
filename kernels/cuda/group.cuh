// Groups the samples of every batch, head and level by cell, in the order of (query, point): a stable counting sort.
// Chunks of samples are counted side by side; one block adds the counts up; then each chunk knows where its samples of
// each cell go, and puts them there, 32 at a time in order.
#pragma once

#include <type_traits>

#include "kernels/cuda/plan.h"
#include "kernels/cuda/samples.cuh"

namespace msda::kernels::cuda {

inline constexpr int kWarp = 32, kWarps = kGroupThreads / kWarp, kScanThreads = 1024;

// One sample of a cell, as the sums need it.
template <class Real>
struct alignas(sizeof(Real) * 4) Entry {
  Real attention, fraction_y, fraction_x;
  std::conditional_t<sizeof(Real) == 8, uint64_t, uint32_t> sample;  // query << point_bits | point, and the flags below
  static constexpr uint32_t kRunBegins = 1u << 31, kFlatX = 1u << 30,
                            kFlatY = 1u << kNumberBits;  // flat: Axis::slope is 0
  static constexpr uint32_t kNumber = kFlatY - 1;
};

// Where the samples of a cell begin among those of its batch, head and level, and where its runs (sample.h, kRun) do.
struct alignas(8) CellStart {
  uint32_t sample, run;
};

// The cell of a run: its pixels (corner_pixels) in the form of the first one, the steps to the others, and which of
// them there are.
struct RunPlace {
  uint64_t packed;
  static constexpr int kFlags = 2 * kNumberBits;
  __device__ static RunPlace of(uint32_t run, int32_t y0, int32_t y1, int32_t x0, int32_t x1, int32_t width) {
    const auto y = static_cast<uint32_t>(y0 < 0 ? y1 : y0), x = static_cast<uint32_t>(x0 < 0 ? x1 : x0);
    const uint64_t flags = (y0 >= 0) | (y1 >= 0) << 1 | (x0 >= 0) << 2 | (x1 >= 0) << 3 | (y0 >= 0 && y1 > y0) << 4 |
                           (x0 >= 0 && x1 > x0) << 5;
    const uint32_t pixel = y * static_cast<uint32_t>(width) + x;
    return {uint64_t{run} | uint64_t{pixel} << kNumberBits | flags << kFlags};
  }
  __device__ uint32_t run() const { return static_cast<uint32_t>(packed) & ((1u << kNumberBits) - 1); }
  __device__ int32_t first() const { return static_cast<int32_t>(packed >> kNumberBits & ((1u << kNumberBits) - 1)); }
  // Whether there are four different pixels.
  __device__ bool is_inside() const { return packed >> kFlags == 63; }
  __device__ void pixels(int32_t width, int32_t (&to)[4]) const {
    const int32_t pixel = first();
    const auto flags = static_cast<uint32_t>(packed >> kFlags);
    const int32_t down = (flags & 16) != 0 ? width : 0, right = (flags & 32) != 0 ? 1 : 0;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const bool is = (flags >> (c / 2) & 1) != 0 && (flags >> (2 + c % 2) & 1) != 0;
      to[c] = is ? pixel + (c / 2 == 1 ? down : 0) + (c % 2 == 1 ? right : 0) : -1;
    }
  }
};

// A cell with more than kManySamples: its runs.
struct HotCell {
  uint32_t first_run, runs;
};

__device__ inline const LevelPlan& plan_of(const LevelPlans& plans, int l) {
  return plans.far != nullptr ? plans.far[l] : plans.near[l];
}

// A block's share of the work. A head's shares come one after the other: what they read and write then stays in the
// second-level cache.
struct Share {
  uint32_t head, number;  // batch * M + m, and which of the shares of this head
};
__device__ inline Share share_of(uint32_t each) { return {blockIdx.x / each, blockIdx.x % each}; }

// The chunk that a block works on.
struct Chunk {
  int l;
  uint32_t head, number, first, end;  // samples [first, end)
};
template <class Stored>
__device__ inline Chunk chunk_of(const Problem<Stored>& p, const LevelPlans& plans, uint32_t chunks) {
  const Share share = share_of(chunks);
  Chunk chunk{};
  chunk.head = share.head;
  while (chunk.l + 1 < p.L && plan_of(plans, chunk.l + 1).first_chunk <= share.number) ++chunk.l;
  const LevelPlan& plan = plan_of(plans, chunk.l);
  chunk.number = share.number - plan.first_chunk;
  chunk.first = chunk.number * plan.chunk_samples;
  chunk.end = min(chunk.first + plan.chunk_samples, static_cast<uint32_t>(p.Q * p.P));
  return chunk;
}
__device__ inline uint32_t* counts_of(uint32_t* counts, const LevelPlan& plan, const Chunk& chunk) {
  return counts + plan.first_count + (int64_t{chunk.head} * plan.chunks + chunk.number) * plan.stride;
}

// A sample's place in the tensors.
struct SampleIndex {
  int64_t first, query_step;
  uint32_t points;
  template <class Stored>
  __device__ SampleIndex(const Problem<Stored>& p, uint32_t head, int l)
      : first(((head / p.M * p.Q * p.M + head % p.M) * p.L + l) * p.P),
        query_step(p.M * p.L * p.P),
        points(static_cast<uint32_t>(p.P)) {}
  __device__ int64_t at(uint32_t query, uint32_t point) const { return first + query * query_step + point; }
};

// How many samples of a chunk are in each cell. `room` counters fit into the block's shared memory; a level with more
// cells is counted in device memory.
template <class Stored, class Real>
__global__ void __launch_bounds__(kGroupThreads)
    count_kernel(Problem<Stored> p, LevelPlans plans, uint32_t chunks, uint32_t* counts, uint32_t room) {
  extern __shared__ uint32_t shared[];
  const Chunk chunk = chunk_of(p, plans, chunks);
  const LevelPlan& plan = plan_of(plans, chunk.l);
  uint32_t* all = counts_of(counts, plan, chunk);
  uint32_t* count = plan.stride <= room ? shared : all;
  for (uint32_t i = threadIdx.x; i < plan.stride; i += kGroupThreads) count[i] = 0;
  __syncthreads();
  const SampleIndex index(p, chunk.head, chunk.l);
  for (uint32_t i = chunk.first + threadIdx.x; i < chunk.end; i += kGroupThreads) {
    const int64_t sample = index.at(i / index.points, i % index.points);
    const int64_t cell = cell_of(locate_sample<Real>(p, plan.level, sample), plan.level);
    if (cell >= 0) atomicAdd(&count[cell], 1u);
  }
  if (count == all) return;
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < plan.stride; i += kGroupThreads) all[i] = count[i];
}

// The sum of `mine` over the threads before this one, and over all in `total`; `sums` has a place for each warp and
// one more.
__device__ inline uint64_t sum_before(uint64_t mine, uint64_t* sums, uint64_t& total) {
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  uint64_t inclusive = mine;
#pragma unroll
  for (int step = 1; step < kWarp; step *= 2) {
    const uint64_t other = __shfl_up_sync(~0u, inclusive, step);
    if (lane >= step) inclusive += other;
  }
  if (lane == kWarp - 1) sums[warp] = inclusive;
  __syncthreads();
  if (warp == 0) {
    const uint64_t whole = sums[lane];
    uint64_t upto = whole;
#pragma unroll
    for (int step = 1; step < kWarp; step *= 2) {
      const uint64_t other = __shfl_up_sync(~0u, upto, step);
      if (lane >= step) upto += other;
    }
    sums[lane] = upto - whole;
    if (lane == kWarp - 1) sums[kWarp] = upto;
  }
  __syncthreads();
  total = sums[kWarp];
  const uint64_t before = sums[warp] + inclusive - mine;
  __syncthreads();
  return before;
}

// From counts to places: of each cell where its samples and runs begin, of each chunk how many of a cell's samples are
// in earlier chunks. A block to each batch, head and level, eight cells to a thread.
static __global__ void __launch_bounds__(kScanThreads)
    scan_kernel(uint32_t levels, LevelPlans plans, uint32_t* counts, CellStart* cells, HotCell* hot,
                uint32_t* hot_count, uint32_t most_hot) {
  constexpr uint32_t kEach = 8;
  __shared__ uint64_t sums[kWarp + 1];
  __shared__ uint32_t hot_here;
  const uint32_t head = blockIdx.x / levels;
  const LevelPlan& plan = plan_of(plans, static_cast<int>(blockIdx.x % levels));
  uint32_t* of_head = counts + plan.first_count + int64_t{head} * plan.chunks * plan.stride;
  CellStart* to = cells + plan.first_cell + int64_t{head} * plan.stride;
  if (threadIdx.x == 0) hot_here = 0;
  uint64_t begin = 0;  // runs in the upper half
  for (uint32_t tile = 0; tile < plan.stride; tile += kEach * kScanThreads) {
    const uint32_t at = tile + kEach * threadIdx.x;
    uint32_t number[kEach] = {};
    if (at < plan.stride) {
      constexpr uint32_t kAhead = 3;
      for (uint32_t first = 0; first < plan.chunks; first += kAhead) {
        const auto counts_at = [&](uint32_t i) {
          return reinterpret_cast<uint4*>(of_head + int64_t{first + i} * plan.stride + at);
        };
        uint4 of[kAhead][2];
#pragma unroll
        for (uint32_t i = 0; i < kAhead; ++i) {
          if (first + i >= plan.chunks) break;
          of[i][0] = counts_at(i)[0];
          of[i][1] = counts_at(i)[1];
        }
#pragma unroll
        for (uint32_t i = 0; i < kAhead; ++i) {
          if (first + i >= plan.chunks) break;
#pragma unroll
          for (uint32_t half = 0; half < 2; ++half) {
            uint32_t* sum = number + 4 * half;
            counts_at(i)[half] = make_uint4(sum[0], sum[1], sum[2], sum[3]);
            sum[0] += of[i][half].x;
            sum[1] += of[i][half].y;
            sum[2] += of[i][half].z;
            sum[3] += of[i][half].w;
          }
        }
      }
    }
    const auto samples_and_runs = [](uint32_t samples) {
      return uint64_t{samples} | uint64_t{(samples + kRun - 1) / kRun} << 32;
    };
    uint64_t mine = 0, total = 0;
#pragma unroll
    for (uint32_t i = 0; i < kEach; ++i) mine += samples_and_runs(number[i]);
    uint64_t next = begin + sum_before(mine, sums, total);
    begin += total;
    if (at >= plan.stride) continue;
    auto* pairs = reinterpret_cast<ulonglong2*>(to + at);
#pragma unroll
    for (uint32_t i = 0; i < kEach; i += 2) {
      const uint64_t after = next + samples_and_runs(number[i]);
      pairs[i / 2] = make_ulonglong2(next, after);
#pragma unroll
      for (uint32_t of_pair = 0; of_pair < 2; ++of_pair) {
        if (number[i + of_pair] <= kManySamples) continue;
        const uint64_t start = of_pair == 0 ? next : after;
        hot[int64_t{blockIdx.x} * most_hot + atomicAdd(&hot_here, 1u)] = {static_cast<uint32_t>(start >> 32),
                                                                          (number[i + of_pair] + kRun - 1) / kRun};
      }
      next = after + samples_and_runs(number[i + 1]);
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) hot_count[blockIdx.x] = hot_here;
}

// Gradients of those samples of a chunk that reach no pixel: zeros, unless what they are multiplied with is not finite.
template <class Stored, class Real>
__device__ inline void store_unreached(const Problem<Stored>& p, const LevelPlan& plan, const Chunk& chunk,
                                       const SampleIndex& index, const Result& grad_locations,
                                       const Result& grad_weights) {
  const Stored* grad_output = p.grad_output + (chunk.head / p.M * p.Q * p.M + chunk.head % p.M) * p.D;
  for (uint32_t i = chunk.first + threadIdx.x; i < chunk.end; i += kGroupThreads) {
    const int64_t query = i / index.points, sample = index.at(i / index.points, i % index.points);
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

// Where the next sample of a cell goes, and how many are in its last run.
struct NextPlace {
  uint32_t packed;
  __device__ static uint32_t of(uint32_t at, uint32_t in_run) { return at | in_run << kPlaceBits; }
  __device__ NextPlace operator+(uint32_t samples) const { return {of(at() + samples, (in_run() + samples) % kRun)}; }
  __device__ uint32_t at() const { return packed & ((1u << kPlaceBits) - 1); }
  __device__ uint32_t in_run() const { return packed >> kPlaceBits; }
};

// Puts each sample to its cell, in the order of (query, point). Samples that reach no cell end here, with their
// gradients.
template <class Stored, class Real>
__global__ void __launch_bounds__(kGroupThreads, 2)
    place_kernel(Problem<Stored> p, LevelPlans plans, uint32_t chunks, uint32_t point_bits, uint32_t* counts,
                 uint32_t room, const CellStart* cells, Entry<Real>* sorted, RunPlace* run_places,
                 Result grad_locations, Result grad_weights) {
  extern __shared__ uint32_t shared[];
  const Chunk chunk = chunk_of(p, plans, chunks);
  const LevelPlan& plan = plan_of(plans, chunk.l);
  const Level level = plan.level;
  uint32_t* all = counts_of(counts, plan, chunk);
  uint32_t* place = plan.stride <= room ? shared : all;
  const CellStart* starts = cells + plan.first_cell + int64_t{chunk.head} * plan.stride;
  for (uint32_t i = threadIdx.x; i < plan.stride; i += kGroupThreads) {
    const uint32_t before = all[i];  // in earlier chunks
    place[i] = NextPlace::of(starts[i].sample + before, before % kRun);
  }
  __syncthreads();
  const int64_t list = (int64_t{chunk.head} * p.L + chunk.l) * (p.Q * p.P);
  const SampleIndex index(p, chunk.head, chunk.l);
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  // What a sample needs of memory is read while the one before has its turn.
  struct Read {
    Stored x, y, attention;
  };
  const auto read = [&](uint32_t i) {
    if (i >= chunk.end) return Read{};
    const int64_t sample = index.at(i / index.points, i % index.points);
    return Read{p.sampling_locations[2 * sample], p.sampling_locations[2 * sample + 1], p.attention_weights[sample]};
  };
  Read next = read(chunk.first + threadIdx.x);
  bool has_unreached = false;
  for (uint32_t tile = chunk.first; tile < chunk.end; tile += kGroupThreads) {
    const uint32_t i = tile + threadIdx.x, query = i / index.points, point = i - query * index.points;
    const Read now = next;
    next = read(i + kGroupThreads);
    const Spot<Real> spot = locate_at(p, level, static_cast<Real>(widened(now.x)), static_cast<Real>(widened(now.y)));
    const int32_t cell = i < chunk.end ? static_cast<int32_t>(cell_of(spot, level)) : -1;
    has_unreached |= cell < 0 && i < chunk.end;
    NextPlace to{};
    // Equal cells of one warp in the order of its lanes, the last of which moves the counter on; warp after warp.
    const unsigned alike = __match_any_sync(~0u, cell);
    const unsigned before = __popc(alike & ((1u << lane) - 1)), number_alike = __popc(alike);
    for (unsigned turn = 0; turn < kWarps; ++turn) {
      if (warp == turn) {
        if (cell >= 0) to = NextPlace{place[cell]} + before;
        __syncwarp();
        if (cell >= 0 && before + 1 == number_alike) place[cell] = (to + 1).packed;
      }
      __syncthreads();
    }
    if (cell < 0) continue;
    uint32_t flags =
        (spot.x.slope == Real(0) ? Entry<Real>::kFlatX : 0u) | (spot.y.slope == Real(0) ? Entry<Real>::kFlatY : 0u);
    if (to.in_run() == 0) {
      flags |= Entry<Real>::kRunBegins;
      const CellStart start = starts[cell];
      const auto pixel = [&](int32_t low, int upper, int32_t size) {
        return corner_pixel(p.dialect, p.padding, low, upper, size);
      };
      run_places[list + to.at()] =
          RunPlace::of(start.run + (to.at() - start.sample) / kRun, pixel(spot.y.low, 0, level.height),
                       pixel(spot.y.low, 1, level.height), pixel(spot.x.low, 0, level.width),
                       pixel(spot.x.low, 1, level.width), level.width);
    }
    sorted[list + to.at()] = {static_cast<Real>(widened(now.attention)), spot.y.fraction, spot.x.fraction,
                              query << point_bits | point | flags};
  }
  if (has_unreached && (grad_locations.data != nullptr || grad_weights.data != nullptr)) {
    store_unreached<Stored, Real>(p, plan, chunk, index, grad_locations, grad_weights);
  }
}

}  // namespace msda::kernels::cuda
