// grad_input of ROIAlign on a GPU: each pixel gathers what boxes send to it, so nothing has to be added atomically, or
// cleared. A warp takes a tile of pixels and four channels, a lane a column of the tile, whose sums it keeps in
// registers. It goes through the boxes that may reach the tile, in their order. What the bins of a row of bins send
// along x to a column is summed up once, in shared memory, for all rows of pixels that read that row of bins. Warps
// share nothing, and so never wait for one another.
#pragma once

#include "kernels/cuda/common/ahead.cuh"
#include "kernels/cuda/common/result.h"
#include "kernels/cuda/roi_align/tables.cuh"

namespace msda::kernels::cuda {

inline constexpr int kRoiMostWarps = 4, kRoiChannels = 4;
// Rows of a tile: a low tile is used if warps are few, so that more share the work.
inline constexpr int kRoiHigh = 8, kRoiLow = 4;

// The sums of the batches before, and where the sums go.
template <class Real>
struct RoiSums {
  const Real* before;  // null: nothing
  Result to;
};

template <class Real>
__device__ inline Four<Real> times(Real weight, const Four<Real>& x) {
  return {{weight * x.at[0], weight * x.at[1], weight * x.at[2], weight * x.at[3]}};
}
template <class Real>
__device__ inline Four<Real> fused(Real weight, const Four<Real>& x, const Four<Real>& sum) {
  Four<Real> result;
#pragma unroll
  for (int c = 0; c < 4; ++c) result.at[c] = kernels::fma(weight, x.at[c], sum.at[c]);
  return result;
}
template <class Real>
__device__ inline void add_to(Four<Real>& sum, const Four<Real>& x) {
#pragma unroll
  for (int c = 0; c < 4; ++c) sum.at[c] = sum.at[c] + x.at[c];
}

// A warp's shared memory, for `together` boxes.
template <class Real>
struct RoiRoom {
  Four<Real>* gradients;     // [together, bins of a box]
  Four<Real>* sums;          // [rows of bins, columns]: of one box, along x
  Real* of_columns;          // [together, kRoiListed, columns]: weights
  Real* of_rows;             // [kRoiListed, together and rows]: weights
  uint32_t *columns, *rows;  // RoiBins; [together, columns], [together and rows]
  MSDA_HOST_DEVICE static int64_t bytes(const RoiSizes& s, int together) {
    const int64_t fours = int64_t{together} * s.bins_of_box() + int64_t{kRoiWide} * s.bins[1];
    return fours * int64_t{sizeof(Four<Real>)} +
           (together + 1) * kWarp * (kRoiListed * int64_t{sizeof(Real)} + int64_t{sizeof(uint32_t)});
  }
  __device__ RoiRoom(void* memory, const RoiSizes& s, int together)
      : gradients(static_cast<Four<Real>*>(memory)),
        sums(gradients + together * s.bins_of_box()),
        of_columns(reinterpret_cast<Real*>(sums + kRoiWide * s.bins[1])),
        of_rows(of_columns + together * kRoiListed * kRoiWide),
        columns(reinterpret_cast<uint32_t*>(of_rows + kRoiListed * kWarp)),
        rows(columns + together * kRoiWide) {}
};

// A few boxes, one after the other. `box`: the one of which this lane has a row; `row`: that row's RoiBins; first_bin
// and end_bin: the rows of the box's bins that the tile reads.
struct RoiGroup {
  int count = 0;
  uint32_t box = RoiBoxes::kNone, row = 0, first_bin = 0, end_bin = 0;
};

template <int kHigh, class Stored, class Real>
class RoiWarp {
 public:
  __device__ RoiWarp(const RoiCall<Stored>& p, const RoiTables<Real>& tables, const RoiTile& tile, int64_t channel,
                     int together, void* memory)
      : p_(p), tables_(tables), tile_(tile), channel_(channel), together_(together), room_(memory, p, together) {}

  __device__ void start(const Real* before) {
    each_pixel([&](int row, int c, int64_t at) { total_[row].at[c] = before[at]; });
  }
  __device__ void add_boxes() {
    RoiBoxes boxes(tables_.reach + int64_t{blockIdx.x} * p_.words, p_.words);
    uint32_t next = boxes.next(), last_run = RoiBoxes::kNone;
    RoiGroup group = take(boxes, next);
    while (group.count > 0) {
      fetch(group);
      const uint32_t following = next;
      const RoiGroup next_group = take(boxes, next);  // what it reads arrives while this group is added
      wait_for_copies();
      __syncwarp();
      add(group, following, last_run);
      __syncwarp();
      group = next_group;
    }
  }
  __device__ void store(const Result& to) const {
    visit_elements(to.data, to.dtype, [&]<class To>(To* elements) {
      each_pixel([&](int row, int c, int64_t at) { elements[at] = narrowed<To>(total_[row].at[c]); });
    });
  }

 private:
  __device__ static unsigned lane() { return threadIdx.x % kWarp; }
  __device__ static uint32_t number_of(const RoiGroup& group, int i) { return __shfl_sync(~0u, group.box, i * kHigh); }

  // Calls visit(row, channel, place in the result) for what this lane has of the image.
  template <class Visit>
  __device__ void each_pixel(Visit&& visit) const {
    const int32_t x = tile_.left + static_cast<int32_t>(lane());
    if (x >= p_.sides[0]) return;
    const int64_t first = ((tile_.image * p_.C + channel_) * p_.sides[1] + tile_.top) * p_.sides[0] + x;
#pragma unroll
    for (int row = 0; row < kHigh; ++row) {
#pragma unroll
      for (int c = 0; c < kRoiChannels; ++c) {
        if (tile_.top + row < p_.sides[1] && channel_ + c < p_.C) {
          visit(row, c, first + c * p_.pixels() + int64_t{row} * p_.sides[0]);
        }
      }
    }
  }

  __device__ const Real* weights_of(int64_t box, int axis) const {
    return tables_.weights + box * p_.weights_of_box() + (axis == 0 ? 0 : int64_t{p_.bins[0]} * p_.sides[0]);
  }

  // Returns the next boxes, from `next` on, and moves `next` past them.
  __device__ RoiGroup take(RoiBoxes& boxes, uint32_t& next) const {
    RoiGroup group;
    for (; group.count < together_ && next != RoiBoxes::kNone; ++group.count) {
      if (lane() / kHigh == static_cast<unsigned>(group.count)) group.box = next;
      next = boxes.next();
    }
    const int32_t y = tile_.top + static_cast<int32_t>(lane()) % kHigh;
    if (group.box != RoiBoxes::kNone && y < p_.sides[1]) {
      group.row = tables_.bins[group.box * p_.sides_of_box() + p_.sides[0] + y];
    }
    return group;
  }
  // Adds a group that was fetched. `following`: the box after it.
  __device__ void add(const RoiGroup& group, uint32_t following, uint32_t& last_run) {
    for (int i = 0; i < group.count; ++i) {
      const uint32_t box = number_of(group, i), run = box / kBoxRun,
                     after = i + 1 < group.count ? number_of(group, i + 1) : following;
      const bool ends = after == RoiBoxes::kNone || after / kBoxRun != run;
      // A run of one box is added as it is: no total is -0, so +0 and the box's sum make no difference to it.
      const bool is_alone = ends && last_run != run;
      sum_along_x(group, i, box);
      add_rows(i, box, is_alone);
      if (ends && !is_alone) end_run();
      last_run = run;
    }
  }

  // Fills the room by copies that are all under way together: to wait for each would take most of the time where few
  // warps are there to do something else meanwhile.
  __device__ void fetch(RoiGroup& group) {
    fetch_rows(group);
    for (int i = 0; i < group.count; ++i) {
      const int64_t box = number_of(group, i);
      fetch_columns(box, i);
      fetch_gradients(box, __shfl_sync(~0u, group.first_bin, i * kHigh), __shfl_sync(~0u, group.end_bin, i * kHigh),
                      room_.gradients + i * p_.bins_of_box());
    }
  }
  // The first kRoiListed weights of a column or row, numbered `side` among both.
  __device__ void fetch_listed(int64_t box, int64_t side, Real* to) {
    const Real* const from = tables_.listed + box * kRoiListed * p_.sides_of_box() + side;
#pragma unroll
    for (uint32_t k = 0; k < kRoiListed; ++k) copy_ahead<sizeof(Real)>(to + k * kWarp, from + k * p_.sides_of_box());
  }
  __device__ void fetch_rows(RoiGroup& group) {
    const RoiBins bins(group.row);
    room_.rows[lane()] = group.row;
    if (bins.count > 0) {
      const int32_t y = tile_.top + static_cast<int32_t>(lane()) % kHigh;
      fetch_listed(group.box, int64_t{p_.sides[0]} + y, room_.of_rows + lane());
    }
    uint32_t first = bins.count > 0 ? bins.first : ~0u, end = bins.first + bins.count;
#pragma unroll
    for (int step = 1; step < kHigh; step *= 2) {
      first = min(first, __shfl_xor_sync(~0u, first, step));
      end = max(end, __shfl_xor_sync(~0u, end, step));
    }
    group.first_bin = first;
    group.end_bin = end;
  }
  __device__ void fetch_columns(int64_t box, int i) {
    const int32_t x = tile_.left + static_cast<int32_t>(lane());
    uint32_t* const bins = room_.columns + i * kRoiWide + lane();
    if (x >= p_.sides[0]) {
      *bins = 0;
      return;
    }
    copy_ahead<sizeof(uint32_t)>(bins, tables_.bins + box * p_.sides_of_box() + x);
    fetch_listed(box, x, room_.of_columns + i * kRoiListed * kRoiWide + lane());
  }
  __device__ void fetch_gradients(int64_t box, uint32_t first_bin, uint32_t end_bin, Four<Real>* to) {
    if (first_bin >= end_bin) return;
    const Stored* from[kRoiChannels];
#pragma unroll
    for (int c = 0; c < kRoiChannels; ++c) {
      from[c] = p_.grad_output + (box * p_.C + min(channel_ + c, p_.C - 1)) * p_.bins_of_box();
    }
    const auto end = static_cast<int>(end_bin) * p_.bins[0];
#pragma unroll 2
    for (int i = static_cast<int>(first_bin) * p_.bins[0] + static_cast<int>(lane()); i < end; i += kWarp) {
      if constexpr (std::is_same_v<Stored, Real>) {
#pragma unroll
        for (int c = 0; c < kRoiChannels; ++c) copy_ahead<sizeof(Real)>(&to[i].at[c], from[c] + i);
      } else {
        Four<Real> read;
#pragma unroll
        for (int c = 0; c < kRoiChannels; ++c) read.at[c] = static_cast<Real>(widened(from[c][i]));
        to[i] = read;
      }
    }
  }

  // Sums up box i of the group along x, for this lane's column, of each row of bins that the tile reads.
  __device__ void sum_along_x(const RoiGroup& group, int i, int64_t box) {
    const uint32_t first_bin = __shfl_sync(~0u, group.first_bin, i * kHigh),
                   end_bin = __shfl_sync(~0u, group.end_bin, i * kHigh);
    const RoiBins bins(room_.columns[i * kRoiWide + lane()]);
    if (bins.count == 0) return;
    const Real* const listed = room_.of_columns + i * kRoiListed * kRoiWide + lane();
    const Real* const all = weights_of(box, 0) + int64_t{bins.first} * p_.sides[0] + tile_.left + lane();
    Real weights[kRoiListed];
#pragma unroll
    for (uint32_t k = 0; k < kRoiListed; ++k) weights[k] = k < bins.count ? listed[k * kRoiWide] : Real(0);
    const int wide = p_.bins[0];
    const Four<Real>* row = room_.gradients + i * p_.bins_of_box() + static_cast<int>(first_bin) * wide + bins.first;
    for (uint32_t j = first_bin; j < end_bin; ++j, row += wide) {
      Four<Real> sum = times(weights[0], row[0]);
#pragma unroll
      for (uint32_t k = 1; k < kRoiListed; ++k) {
        if (k < bins.count) sum = fused(weights[k], row[k], sum);
      }
#pragma unroll 1
      for (uint32_t k = kRoiListed; k < bins.count; ++k) sum = fused(all[int64_t{k} * p_.sides[0]], row[k], sum);
      room_.sums[j * kRoiWide + lane()] = sum;
    }
  }
  // Adds box i of the group to the rows of pixels that it reaches: to the totals, or to the run.
  __device__ void add_rows(int i, int64_t box, bool to_totals) {
    if (RoiBins(room_.columns[i * kRoiWide + lane()]).count == 0) return;
    Four<uint32_t> packed[kHigh / 4];
    Four<Real> first[kHigh / 4];  // weights of each row
#pragma unroll
    for (int four = 0; four < kHigh / 4; ++four) {
      packed[four] = *reinterpret_cast<const Four<uint32_t>*>(room_.rows + i * kHigh + 4 * four);
      first[four] = *reinterpret_cast<const Four<Real>*>(room_.of_rows + i * kHigh + 4 * four);
    }
#pragma unroll
    for (int row = 0; row < kHigh; ++row) {
      const RoiBins bins(packed[row / 4].at[row % 4]);
      if (bins.count == 0) continue;
      const Four<Real>* const along_x = room_.sums + bins.first * kRoiWide + lane();
      Four<Real> sum = times(first[row / 4].at[row % 4], along_x[0]);
#pragma unroll
      for (uint32_t k = 1; k < kRoiListed; ++k) {
        if (k < bins.count) sum = fused(room_.of_rows[k * kWarp + i * kHigh + row], along_x[k * kRoiWide], sum);
      }
      const Real* const all = weights_of(box, 1) + int64_t{bins.first} * p_.sides[1] + tile_.top + row;
#pragma unroll 1
      for (uint32_t k = kRoiListed; k < bins.count; ++k) {
        sum = fused(all[int64_t{k} * p_.sides[1]], along_x[k * kRoiWide], sum);
      }
      if (to_totals) {
        add_to(total_[row], sum);
      } else {
        add_to(run_[row], sum);
      }
    }
  }
  __device__ void end_run() {
#pragma unroll
    for (int row = 0; row < kHigh; ++row) {
      add_to(total_[row], run_[row]);
      run_[row] = Four<Real>{};
    }
  }

  const RoiCall<Stored>& p_;
  const RoiTables<Real>& tables_;
  const RoiTile tile_;
  const int64_t channel_;
  const int together_;
  const RoiRoom<Real> room_;
  Four<Real> run_[kHigh] = {}, total_[kHigh] = {};  // by row: of a run of boxes, of all before
};

// A block for each tile and some channels.
template <int kHigh, class Stored, class Real>
__global__ void __launch_bounds__(kRoiMostWarps* kWarp, sizeof(Real) == 4 ? 4 : 2)
    roi_tiles_kernel(const __grid_constant__ RoiCall<Stored> p, RoiTables<Real> tables, RoiSums<Real> sums,
                     int together) {
  const unsigned warp = threadIdx.x / kWarp;
  const int64_t channel = (int64_t{blockIdx.y} * (blockDim.x / kWarp) + warp) * kRoiChannels;
  if (channel >= p.C) return;
  char* const memory = dynamic_shared<char>() + warp * RoiRoom<Real>::bytes(p, together);
  RoiWarp<kHigh, Stored, Real> pixels(p, tables, RoiTile(p, blockIdx.x), channel, together, memory);
  if (sums.before != nullptr) pixels.start(sums.before);
  pixels.add_boxes();
  pixels.store(sums.to);
}

}  // namespace msda::kernels::cuda
