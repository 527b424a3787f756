// The pixels of a part of a level, from its samples grouped by cell in a block's shared memory: a group of threads
// takes a pixel, each thread four of its channels. A short call runs through its instructions about once, and fetching
// them takes a large part of its time: so each loop is there once, and few are unrolled.
#pragma once

#include "kernels/cuda/msda/part_samples.cuh"
#include "kernels/cuda/msda/pixels.cuh"

namespace msda::kernels::cuda {

// The addends of a part's pixels: each thread takes four channels.
template <bool kWhole, class Stored, class Real>
class Addends {
 public:
  __device__ Addends(const PartSample<Real>* sorted, const Stored* rows, uint32_t row_step, int channels)
      : sorted_(sorted), rows_(rows), row_step_(row_step), channels_(channels) {}
  // The numbers from which an addend is computed.
  struct Read {
    PartSample<Real> sample;
    Real row[4];
  };
  __device__ Read read(uint32_t at) const {
    Read read{sorted_[at], {}};
    load(read.sample, read.row);
    return read;
  }
  // Adds the addend of the cell's corner in its lower or upper row, right or left, if there is one.
  __device__ static void add(const Read& read, bool is_lower, bool is_right, bool is_there, Real (&sum)[4]) {
    const PartSample<Real>& sample = read.sample;
    const Real one(1);
    const Real weight = (is_lower ? sample.fraction_y : one - sample.fraction_y) *
                        (is_right ? sample.fraction_x : one - sample.fraction_x);  // corner_weights()
#pragma unroll
    for (int d = 0; d < 4; ++d) {
      const Real addend = value_contribution(weight, read.row[d] * sample.attention);
      sum[d] = sum[d] + (is_there ? addend : Real(-0.0));
    }
  }
  // Adds up a cell's samples by the tree.
  __device__ void sum_up(uint32_t begin, uint32_t count, int c, Real (&sum)[4]) const {
    static_assert(kAtOnceSamples <= kRun * kRun * kRun);
    const uint32_t end = begin + count;
    clear(sum);
#pragma unroll 1
    for (uint32_t of_runs = begin; of_runs < end; of_runs += kRun * kRun) {
      Real chain[4];
      clear(chain);
#pragma unroll 1
      for (uint32_t run = of_runs; run < min(end, of_runs + kRun * kRun); run += kRun) {
        Real whole[4];
        if (count > kFoldedSamples && run + kRun <= end) {
          load_four<true>(folded(run, c), 4, whole);
        } else {
          add_up(run, min(end, run + kRun), c, whole);
        }
        add_to(chain, whole);
      }
      add_to(sum, chain);
    }
  }
  // Adds up all corners of kRun samples, and replaces the samples by these sums. All lanes must call it.
  __device__ void fold(PartSample<Real>* run, bool is_there) const {
    Real sum[4][4];
#pragma unroll
    for (int c = 0; c < 4; ++c) clear(sum[c]);
#pragma unroll 2
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
  __device__ static void clear(Real (&sum)[4]) {
#pragma unroll
    for (int d = 0; d < 4; ++d) sum[d] = Real(-0.0);  // adding it, or to it, changes no bit
  }

 private:
  // Adds samples [begin, end) from left to right.
  __device__ void add_up(uint32_t begin, uint32_t end, int c, Real (&sum)[4]) const {
    clear(sum);
#pragma unroll 2
    for (uint32_t at = begin; at < end; ++at) add(read(at), (c & 2) != 0, (c & 1) != 0, true, sum);
  }
  __device__ void load(const PartSample<Real>& sample, Real (&row)[4]) const {
    load_four<kWhole>(row_at(rows_, sample.query, row_step_), channels_, row);
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

// Sums up the whole runs of cells that have many samples. All threads must call it.
template <bool kWhole, class Stored, class Real>
__device__ inline void fold_runs(const Addends<kWhole, Stored, Real>& addends, const PartRoom<Real>& room,
                                 const PartCounts& counts) {
  if (counts.runs == 0) return;
  for (uint32_t first = 0; first < counts.runs; first += kAtOnceGroups) {
    const uint32_t run = first + threadIdx.x / kGroup;
    const bool is_there = run < counts.runs;
    addends.fold(room.sorted + (is_there ? counts.run[run] : 0), is_there);
  }
  __syncthreads();
}

// The samples of the four cells around a pixel, numbered in the order of the cells. The samples of two cells side by
// side are adjacent.
struct SamplesAround {
  uint32_t above, below;                // what is added to the number of a sample to find it
  uint32_t second, third, fourth, end;  // the first numbers of these cells, and the number of samples
  // `starts` begins with the one of cell (y - 1, x - 1).
  __device__ SamplesAround(const uint32_t* starts, uint32_t cells_of_row) {
    const uint32_t* next_row = starts + cells_of_row;
    above = starts[0];
    second = starts[1] - above;
    third = starts[2] - above;
    below = next_row[0] - third;
    fourth = next_row[1] - below;
    end = next_row[2] - below;
  }
  __device__ bool begins_cell(uint32_t number) const { return number == second || number == third || number == fourth; }
  __device__ uint32_t place(uint32_t number) const { return number + (is_above(number) ? above : below); }
  __device__ bool is_above(uint32_t number) const { return number < third; }
  __device__ bool is_left(uint32_t number) const { return number < (is_above(number) ? second : fourth); }
};

// Sums up a pixel that one corner of each cell reaches, with at most kRun samples. Reads several at the same time, also
// of different cells, without a branch between them: a thread would wait for one before the next begins.
template <bool kWhole, class Stored, class Real>
__device__ inline void add_samples(const Addends<kWhole, Stored, Real>& addends, const SamplesAround& samples,
                                   Real (&out)[4]) {
  constexpr uint32_t kAhead = 2;
  Real of_cell[4];
  addends.clear(of_cell);
#pragma unroll 1
  for (uint32_t first = 0; first < samples.end; first += kAhead) {
    typename Addends<kWhole, Stored, Real>::Read reads[kAhead];
#pragma unroll
    for (uint32_t i = 0; i < kAhead; ++i) reads[i] = addends.read(samples.place(min(first + i, samples.end - 1)));
#pragma unroll
    for (uint32_t i = 0; i < kAhead; ++i) {
      const uint32_t number = first + i;
      if (samples.begins_cell(number)) {
        add_to(out, of_cell);
        addends.clear(of_cell);
      }
      addends.add(reads[i], samples.is_above(number), samples.is_left(number), number < samples.end, of_cell);
    }
  }
  add_to(out, of_cell);
}

// Sums up a pixel that several corners of a cell can reach, with at most kRun samples: adds up all corners of each
// cell.
template <bool kWhole, class Stored, class Real>
__device__ inline void add_edge_samples(const Addends<kWhole, Stored, Real>& addends, const SamplesAround& samples,
                                        const Edges& edges, Real (&out)[4]) {
  Real of_cell[4][4];
#pragma unroll
  for (auto& corner : of_cell) addends.clear(corner);
  auto next = addends.read(samples.place(0));
#pragma unroll 1
  for (uint32_t number = 0;; ++number) {
    const bool is_end = number == samples.end;
    if (is_end || samples.begins_cell(number)) {
      const int cell = (samples.is_above(number - 1) ? 0 : 2) + (samples.is_left(number - 1) ? 0 : 1);
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        if (edges.reached_by(cell, c)) add_to(out, of_cell[c]);
        addends.clear(of_cell[c]);
      }
    }
    if (is_end) return;
    const auto read = next;
    next = addends.read(samples.place(min(number + 1, samples.end - 1)));
#pragma unroll
    for (int c = 0; c < 4; ++c) addends.add(read, (c & 2) != 0, (c & 1) != 0, true, of_cell[c]);
  }
}

// Sums up any pixel, one corner of a cell after the other.
template <bool kWhole, class Stored, class Real>
__device__ inline void add_corners(const Addends<kWhole, Stored, Real>& addends, const uint32_t* starts,
                                   uint32_t cells_of_row, const Edges& edges, Real (&out)[4]) {
#pragma unroll 1
  for (int cell = 0; cell < 4; ++cell) {
    const uint32_t* start = starts + (cell >= 2 ? cells_of_row : 0) + cell % 2;
    const uint32_t begin = start[0], count = start[1] - begin;
#pragma unroll 1
    for (int c = 0; c < (count == 0 ? 0 : 4); ++c) {
      if (!edges.reached_by(cell, c)) continue;
      Real sum[4];
      addends.sum_up(begin, count, c, sum);
      add_to(out, sum);
    }
  }
}

template <bool kWhole, class Stored, class Real>
__device__ inline void sum_pixel(const Addends<kWhole, Stored, Real>& addends, const uint32_t* starts,
                                 uint32_t cells_of_row, const Edges& edges, Real (&out)[4]) {
  const SamplesAround samples(starts, cells_of_row);
  if (samples.end > kRun) {
    add_corners(addends, starts, cells_of_row, edges, out);
  } else if (edges.at == 0) {
    add_samples(addends, samples, out);
  } else if (samples.end != 0) {
    add_edge_samples(addends, samples, edges, out);
  }
}

}  // namespace msda::kernels::cuda
