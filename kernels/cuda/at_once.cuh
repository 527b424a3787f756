// The deterministic backward pass of a short call in one launch, without memory in between. Some blocks each take a
// part of a level of a head: they find the samples that reach it, group them by cell in their shared memory, and add up
// each pixel's addends from there. The other blocks compute the samples' own gradients (per_sample.cuh), which depend
// on nothing else; they keep the device busy while the first ones group.
#pragma once

#include "kernels/cuda/part_samples.cuh"
#include "kernels/cuda/per_sample.cuh"
#include "kernels/cuda/pixels.cuh"

namespace msda::kernels::cuda {

// The addends of a part's pixels: four channels of a thread.
template <bool kWhole, class Stored, class Real>
class Addends {
 public:
  __device__ Addends(const PartSample<Real>* sorted, const Stored* rows, uint32_t row_step, int channels)
      : sorted_(sorted), rows_(rows), row_step_(row_step), channels_(channels) {}
  // Of the corner c of this sample's cell.
  __device__ void one(uint32_t at, int c, Real (&addend)[4]) const {
    const PartSample<Real> sample = sorted_[at];
    Real row[4];
    load(sample, row);
    const Real one(1);
    const Real weight = ((c & 2) != 0 ? sample.fraction_y : one - sample.fraction_y) *
                        ((c & 1) != 0 ? sample.fraction_x : one - sample.fraction_x);  // corner_weights()
#pragma unroll
    for (int d = 0; d < 4; ++d) addend[d] = value_contribution(weight, row[d] * sample.attention);
  }
  // Adds samples [at, end) from left to right.
  __device__ void add_chain(uint32_t at, uint32_t end, int c, Real (&sum)[4]) const {
#pragma unroll 4
    for (; at < end; ++at) {
      Real addend[4];
      one(at, c, addend);
      add_to(sum, addend);
    }
  }
  // The tree of a cell's samples [begin, begin + count), of which the first is in `sum`; at most kFoldedSamples.
  __device__ void add_few(uint32_t begin, uint32_t count, int c, Real (&sum)[4]) const {
    add_chain(begin + 1, begin + min(count, static_cast<uint32_t>(kRun)), c, sum);
    if (count > kRun) add_run(begin + kRun, begin + count, c, sum);
  }
  // The tree of any number of samples.
  __device__ void sum_up(uint32_t begin, uint32_t count, int c, Real (&sum)[4]) const {
    if (count <= kFoldedSamples) {
      one(begin, c, sum);
      return add_few(begin, count, c, sum);
    }
    const uint32_t end = begin + count;
#pragma unroll 1
    for (uint32_t of_runs = begin; of_runs < end; of_runs += kRun * kRun) {
      Real chain[4];
      clear(chain);
#pragma unroll 1
      for (uint32_t run = of_runs; run < min(end, of_runs + kRun * kRun); run += kRun) {
        if (run + kRun <= end) {
          Real whole[4];
          load_four<true>(folded(run, c), 4, whole);
          add_to(chain, whole);
        } else {
          add_run(run, end, c, chain);
        }
      }
      if (of_runs == begin) {
#pragma unroll
        for (int d = 0; d < 4; ++d) sum[d] = chain[d];
      } else {
        add_to(sum, chain);
      }
    }
  }
  // All corners of kRun samples, which are then replaced by their sums. All lanes must call it.
  __device__ void fold(PartSample<Real>* run, bool is_there) const {
    Real sum[4][4];
#pragma unroll
    for (int c = 0; c < 4; ++c) clear(sum[c]);
#pragma unroll 4
    for (int i = 0; i < (is_there ? kRun : 0); ++i) {
      const PartSample<Real> sample = run[i];
      Real row[4] = {};
      if (channels_ > 0) load(sample, row);
      const auto weights = corner_weights(sample.fraction_y, sample.fraction_x);
#pragma unroll
      for (int d = 0; d < 4; ++d) {
        const Real weighted = row[d] * sample.attention;
#pragma unroll
        for (int c = 0; c < 4; ++c) sum[c][d] = sum[c][d] + value_contribution(weights.w[c], weighted);
      }
    }
    __syncwarp();
    if (!is_there) return;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      *reinterpret_cast<Four<Real>*>(rows_of(run) + c * kLanes) = *reinterpret_cast<Four<Real>*>(sum[c]);
    }
  }

 private:
  __device__ static void clear(Real (&sum)[4]) {
#pragma unroll
    for (int d = 0; d < 4; ++d) sum[d] = Real(-0.0);  // adding it changes no bit
  }
  __device__ void load(const PartSample<Real>& sample, Real (&row)[4]) const {
    load_four<kWhole>(row_at(rows_, sample.query, row_step_), channels_, row);
  }
  __device__ void add_run(uint32_t begin, uint32_t end, int c, Real (&sum)[4]) const {
    Real run[4];
    clear(run);
    add_chain(begin, end, c, run);
    add_to(sum, run);
  }
  static_assert(sizeof(PartSample<Real>) * kRun == sizeof(Real) * 4 * kLanes);
  __device__ static Real* rows_of(PartSample<Real>* run) {
    return reinterpret_cast<Real*>(run) + 4 * (threadIdx.x % kGroup);
  }
  __device__ const Real* folded(uint32_t run, int c) const {
    return reinterpret_cast<const Real*>(sorted_ + run) + 4 * (threadIdx.x % kGroup) + c * kLanes;
  }
  const PartSample<Real>* sorted_;
  const Stored* rows_;
  uint32_t row_step_;
  int channels_;
};

// The pixel at (y, x), from the samples of the cells around it; `starts` are those of cell (y - 1, x - 1) and on.
template <bool kWhole, class Stored, class Real>
__device__ inline void sum_pixel(const Addends<kWhole, Stored, Real>& addends, const uint32_t* starts,
                                 uint32_t cells_of_row, const Edges& edges, Real (&out)[4]) {
  uint32_t begin[4], count[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t* start = starts + i / 2 * cells_of_row + i % 2;
    begin[i] = start[0];
    count[i] = start[1] - start[0];
  }
  if (edges.at == 0) {
    Real sum[4][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int d = 0; d < 4; ++d) sum[i][d] = Real(-0.0);
      if (count[i] != 0 && count[i] <= kFoldedSamples) addends.one(begin[i], 3 - i, sum[i]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (count[i] > 1) {
        if (count[i] <= kFoldedSamples) {
          addends.add_few(begin[i], count[i], 3 - i, sum[i]);
        } else {
          addends.sum_up(begin[i], count[i], 3 - i, sum[i]);
        }
      }
      add_to(out, sum[i]);
    }
    return;
  }
#pragma unroll 1
  for (int i = 0; i < 16; ++i) {
    uint32_t at = begin[0], number = count[0];
#pragma unroll
    for (int cell = 1; cell < 4; ++cell) {
      if (i / 4 != cell) continue;
      at = begin[cell];
      number = count[cell];
    }
    if (number == 0 || !edges.reached_by(i / 4, i % 4)) continue;
    Real sum[4];
    addends.sum_up(at, number, i % 4, sum);
    add_to(out, sum);
  }
}

template <bool kWhole, class Stored, class Real>
__device__ inline void sum_part(const Problem<Stored>& p, const AtOncePlan& plan, const Part& part,
                                const Points& points, const Result& grad_value) {
  __shared__ PartCounts counts;
  const auto samples = static_cast<uint32_t>(p.Q * p.P);
  const PartRoom<Real> room(dynamic_shared<uint4>(), samples, plan.most_cells);
  const Level level = p.levels.near[part.l];
  const auto width = static_cast<uint32_t>(level.width);
  const uint32_t cells = (part.rows + 1) * (width + 1), stride = cells / kScanEach * kScanEach + kScanEach;
  for (uint32_t i = threadIdx.x; i < stride; i += kAtOnceThreads) room.starts[i] = 0;
  if (threadIdx.x == 0) counts.found = counts.crowded = counts.runs = 0;
  __syncthreads();
  const SampleIndex index(p, points, part.head, part.l);
  find_samples(p, index, part, samples, room, counts);
  __syncthreads();
  scan_part(room, stride, counts);
  __syncthreads();
  order_samples(room, counts);
  sort_samples(p, index, points, level, room, counts.found);
  __syncthreads();

  const int lane = static_cast<int>(threadIdx.x % kGroup);
  const int channel = 4 * lane, channels = static_cast<int>(p.D) - channel;
  const auto row_elements = static_cast<uint32_t>(p.M * p.D);
  const Stored* rows = p.grad_output + first_row_of(p, part.head, p.Q) * p.D + channel;
  const Addends<kWhole, Stored, Real> addends(room.sorted, rows, row_elements * uint32_t{sizeof(Stored)}, channels);
  if (counts.runs != 0) {
    for (uint32_t first = 0; first < counts.runs; first += kAtOnceGroups) {
      const uint32_t run = first + threadIdx.x / kGroup;
      const bool is_there = run < counts.runs;
      addends.fold(room.sorted + (is_there ? counts.run[run] : 0), is_there);
    }
    __syncthreads();
  }
  if (channels <= 0) return;
  const bool clamps = corners_clamp(p.dialect, p.padding);
  const int64_t first = (first_row_of(p, part.head, p.S) + level.start * p.M) * p.D + channel;
  for (uint32_t pixel = threadIdx.x / kGroup; pixel < part.rows * width; pixel += kAtOnceGroups) {
    const auto [row, x] = plan.levels[part.l].by_width.divide(pixel);
    const uint32_t y = part.first_row + row;
    Edges edges{0};
    if (clamps) {
      edges.at = (x == 0 ? edges.kLeft : 0) | (x + 1 == width ? edges.kRight : 0) | (y == 0 ? edges.kTop : 0) |
                 (y + 1 == static_cast<uint32_t>(level.height) ? edges.kBottom : 0);
    }
    Real out[4] = {};
    sum_pixel(addends, room.starts + row * (width + 1) + x, width + 1, edges, out);
    const int64_t at = first + int64_t{part.first_row * width + pixel} * row_elements;
    store_four<kWhole>(grad_value.data, grad_value.dtype, at, channels, out);
  }
}

// The first `part_blocks` blocks sum up parts, head by head. D is at most kLanes.
template <bool kWhole, class Stored, class Real>
__global__ void __launch_bounds__(kAtOnceThreads, kGradientBlocks<true, Real>)
    at_once_kernel(Problem<Stored> p, AtOncePlan plan, Division by_parts, Points points, uint32_t part_blocks,
                   int of_row, Result grad_value, Result grad_locations, Result grad_weights) {
  static_assert(kAtOnceThreads == kSampleThreads);
  if (blockIdx.x < part_blocks) {
    sum_part<kWhole, Stored, Real>(p, plan, part_of(p, plan, by_parts), points, grad_value);
  } else {
    sample_gradients<kWhole, true, false, Stored, Real>(p, blockIdx.x - part_blocks, gridDim.x - part_blocks, of_row,
                                                        static_cast<Real*>(nullptr), grad_locations, grad_weights);
  }
}

}  // namespace msda::kernels::cuda
