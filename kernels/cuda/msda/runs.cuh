// Processes the samples in the order of group.cuh, so that the four corners, which a cell's samples share, are read
// once. Eight threads take a segment of the list, that is, all runs that begin in it, so segments have about equal
// work, however many samples a cell has. Each run's addends to the four corners are summed from left to right, and each
// sample's own gradients are computed.
#pragma once

#include "kernels/cuda/common/ahead.cuh"
#include "kernels/cuda/msda/add_four.cuh"
#include "kernels/cuda/msda/group.cuh"

namespace msda::kernels::cuda {

// Blocks for doubles have half the size, because of their shared memory.
template <class Real>
inline constexpr int kRunThreads = sizeof(Real) == 4 ? 128 : 64;
template <class Real>
inline constexpr int kRunGroups = kRunThreads<Real> / kGroup;
inline constexpr int kRunBlocks = 6;  // of a multiprocessor at a time

// Where the sums over runs go: each to its own place, or by atomic additions to the pixels.
inline constexpr int kRunSize = 4 * kLanes;  // numbers
template <class Real>
struct RunSums {
  Real* to;      // [chunk of channels][run][4][kLanes], the runs of a level head after head; atomic: grad_value
  int64_t most;  // runs to a chunk of channels
};

// Where runs begin among kRun consecutive samples. All lanes of a warp must call it; groups of eight pass the same
// sample.
template <class Real>
struct RunBegins {
  uint32_t from;
  uint32_t begins[kRun / kGroup];
  __device__ RunBegins(const Entry<Real>* entries, uint32_t first, uint32_t filled) : from(first) {
#pragma unroll
    for (uint32_t i = 0; i < kRun / kGroup; ++i) {
      const uint32_t at = from + i * kGroup + threadIdx.x % kGroup;
      begins[i] = at < filled ? static_cast<uint32_t>(entries[at].sample) & Entry<Real>::kRunBegins : 0u;
    }
  }
  // Returns the next beginning, or `filled`.
  __device__ uint32_t next(uint32_t filled) const {
    uint32_t first = filled;
#pragma unroll
    for (uint32_t i = kRun / kGroup; i-- > 0;) {
      const unsigned found = __ballot_sync(~0u, begins[i] != 0) >> (threadIdx.x & 24u) & 0xffu;
      if (found != 0) first = from + i * kGroup + static_cast<uint32_t>(__ffs(static_cast<int>(found)) - 1);
    }
    return first;
  }
};

struct Segment {
  uint32_t begin, end;
  __device__ uint32_t length() const { return end - begin; }
};

// Returns the segment of each of a block's groups: all runs that begin among this many samples. The groups of one warp
// advance together and wait for the longest, so they get segments of similar length.
template <class Real>
__device__ inline Segment segment_of_group(const Entry<Real>* entries, uint32_t block_begin, uint32_t samples,
                                           uint32_t filled) {
  constexpr uint32_t kGroups = kRunGroups<Real>;
  __shared__ uint32_t begins[kGroups + 1], order[kGroups];
  const uint32_t group = threadIdx.x / kGroup;
  const bool speaks = threadIdx.x % kGroup == 0;
  const RunBegins<Real> mine(entries, min(block_begin + group * samples, filled), filled);
  const RunBegins<Real> next_block(entries, min(block_begin + kGroups * samples, filled), filled);
  const uint32_t begin = mine.next(filled), end_of_block = next_block.next(filled);
  if (speaks) begins[group] = begin;
  if (threadIdx.x == 0) begins[kGroups] = end_of_block;
  __syncthreads();
  const auto segment = [&](uint32_t index) { return Segment{begins[index], begins[index + 1]}; };
  if (speaks) {
    const uint32_t length = segment(group).length();
    uint32_t longer = 0;
#pragma unroll
    for (uint32_t compared = 0; compared < kGroups; ++compared) {
      const uint32_t its_length = segment(compared).length();
      longer += its_length > length || (its_length == length && compared < group) ? 1 : 0;
    }
    order[longer] = group;
  }
  __syncthreads();
  return segment(order[group]);
}

// A group's pipeline: the batch of samples that it works on, and the next ones.
template <class Stored, class Real>
struct Ahead {
  static constexpr int kBatch = 4;
  Entry<Real> entries[4][kBatch];
  Four<Stored> grad_output[2][kBatch][kGroup];
};

template <bool kWhole, bool kGradients, bool kAtomic, class Stored, class Real>
__global__ void __launch_bounds__(kRunThreads<Real>, kRunBlocks)
    sum_runs_kernel(Problem<Stored> p, LevelPlans plans, Points points, Division by_blocks, const CellStart* cells,
                    const Entry<Real>* sorted, RunSums<Real> sums, Result grad_locations, Result grad_weights) {
  using Of = Entry<Real>;
  constexpr int kBatch = Ahead<Stored, Real>::kBatch;
  __shared__ Ahead<Stored, Real> of_block[kRunGroups<Real>];
  Ahead<Stored, Real>& ahead = *kept_shared(&of_block[threadIdx.x / kGroup]);
  const int lane = static_cast<int>(threadIdx.x % kGroup);
  Four<Stored>* const rows = kept_shared(&ahead.grad_output[0][0][lane]);
  const Share share = share_of(by_blocks);
  const uint32_t head = share.head;
  int l = 0;
  while (l + 1 < p.L && plan_of(plans, l + 1).first_block <= share.number) ++l;
  const LevelPlan& plan = plan_of(plans, l);
  const uint32_t block_begin = (share.number - plan.first_block) * plan.segment * kRunGroups<Real>;
  const uint32_t filled = starts_of(cells, plan, head)[plan.cells].sample;
  if (block_begin >= filled) return;
  const Of* entries = sorted + list_of(p, head, l);
  const auto [at, end] = segment_of_group(entries, block_begin, plan.segment, filled);

  const int channel = static_cast<int>(blockIdx.y) * kLanes + 4 * lane, channels = static_cast<int>(p.D) - channel;
  const auto row_elements = static_cast<uint32_t>(p.M * p.D), row_step = row_elements * uint32_t{sizeof(Stored)};
  const int64_t level_offset = (first_row_of(p, head, p.S) + plan.level.start * p.M) * p.D + channel;
  const Stored* grad_output = p.grad_output + first_row_of(p, head, p.Q) * p.D + channel;
  const Stored* value = p.value + level_offset;
  const int64_t first_run = int64_t{blockIdx.y} * sums.most + plan.first_run + int64_t{head} * plan.most_runs;
  // Where the pixels are, from the first channel on that this thread adds to; or where the runs go.
  const int added = static_cast<int>(blockIdx.y) * kLanes + first_channel<Real>(lane);
  Real* const to =
      kept_global(kAtomic ? sums.to + level_offset - channel + added : sums.to + first_run * kRunSize + 4 * lane);
  [[maybe_unused]] const unsigned lanes_of_group = 0xffu << (threadIdx.x & 24u);
  const SampleIndex index(p, points, head, l);

  // Samples from the current batch on: how many are left to this group, and what this lane fetches of them.
  int left = static_cast<int>(end - at);
  constexpr int kParts = kEntryParts<Real>;
  const EntryPart* parts = kept_global(reinterpret_cast<const EntryPart*>(entries + at) + lane);
  EntryPart* const fetched_parts = kept_shared(reinterpret_cast<EntryPart*>(ahead.entries[0]) + lane);
  const auto fetch_entries = [&](int batches, int slot) {
#pragma unroll
    for (int part = 0; part < kBatch * kParts; part += kGroup) {
      if (batches * kBatch + (part + lane) / kParts >= left) break;
      copy_ahead<sizeof(EntryPart)>(fetched_parts + slot * kBatch * kParts + part,
                                    parts + batches * kBatch * kParts + part);
    }
  };
  // Threads beyond the last channel add zeros, which saves a test for each sample.
  const bool has_channels = kept(channels > 0 ? 1 : 0) != 0;
  const auto fetch_rows = [&](int batches, int slot, int entry_slot) {
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      if (!has_channels || batches * kBatch + i >= left) break;
      const uint32_t query = (static_cast<uint32_t>(ahead.entries[entry_slot][i].sample) & Of::kNumber) >> points.bits;
      copy_four_ahead<kWhole>(rows[(slot * kBatch + i) * kGroup], row_at(grad_output, query, row_step), channels);
    }
  };
  if (!has_channels) {
    for (auto& slot : ahead.grad_output) {
      for (auto& row : slot) row[lane] = Four<Stored>{};
    }
  }
  fetch_entries(0, 0);
  fetch_entries(1, 1);
  wait_for_copies();
  __syncwarp();
  fetch_rows(0, 0, 0);

  // The current run, by corner and channel: its sums, and what its corners read.
  Real sum[4][4], corner[4][4] = {};
  Corners cell{};
  Real* run = nullptr;  // where its sum goes
  bool open = false;
  const auto width = static_cast<uint32_t>(plan.level.width);
  const auto close = [&] {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      if constexpr (kAtomic) {
        exchange_channels(sum[c], lanes_of_group);
        if (cell.has(c)) {
          Real* const pixel = row_at(to, cell.pixel(c, width), row_elements * uint32_t{sizeof(Real)});
          add_four<kWhole, kChannelStep<Real>>(pixel, static_cast<int>(p.D) - added, sum[c]);
        }
      } else {
        *reinterpret_cast<Four<Real>*>(run + c * kLanes) = *reinterpret_cast<Four<Real>*>(sum[c]);
      }
    }
  };
  const auto read_corners = [&] {
    if (cell.flags == Corners::kAllDifferent) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        load_four<kWhole>(row_at(value, cell.first + c / 2 * width + c % 2, row_step), channels, corner[c]);
      }
    } else {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
#pragma unroll
        for (int d = 0; d < 4; ++d) corner[c][d] = Real(0);
        if (cell.has(c)) load_four<kWhole>(row_at(value, cell.pixel(c, width), row_step), channels, corner[c]);
      }
    }
  };

  const Real slope_x = slope_of<Real>(p, plan.level.width), slope_y = slope_of<Real>(p, plan.level.height);
  for (int batch = 0; __any_sync(~0u, left > 0); ++batch, left -= kBatch, parts += kBatch * kParts) {
    wait_for_copies();
    __syncwarp();
    fetch_entries(2, (batch + 2) % 4);
    fetch_rows(1, (batch + 1) % 2, (batch + 1) % 4);
    const Of* const batch_entries = kept_shared(ahead.entries[batch % 4]);
    const Four<Stored>* const batch_rows = kept_shared(rows + batch % 2 * kBatch * kGroup);
    Real batch_sums[kBatch][3];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      batch_sums[i][0] = batch_sums[i][1] = batch_sums[i][2] = Real(0);
      if (i >= left) continue;
      const Of entry = batch_entries[i];
      if ((entry.sample & Of::kRunBegins) != 0) {
        if (open) close();
        open = true;
        cell = entry.place.corners;
        if constexpr (!kAtomic) run = row_at(to, entry.place.run, uint32_t{kRunSize * sizeof(Real)});
        if constexpr (kGradients) {
          if (has_channels) read_corners();
        }
        const Real nothing = kept(Real(-0.0));  // adding it changes no bit
#pragma unroll
        for (int c = 0; c < 4; ++c) {
#pragma unroll
          for (int d = 0; d < 4; ++d) sum[c][d] = nothing;
        }
      }
      const auto weights = corner_weights(entry.fraction_y, entry.fraction_x);
      const Four<Stored> row = batch_rows[i * kGroup];
      ChannelSums<4, Real> channel_sums;
#pragma unroll
      for (int d = 0; d < 4; ++d) {
        const Real go = static_cast<Real>(widened(row.at[d])), weighted = go * entry.attention;
#pragma unroll
        for (int c = 0; c < 4; ++c) sum[c][d] = sum[c][d] + value_contribution(weights.w[c], weighted);
        if constexpr (kGradients) {
          channel_sums.add(d, go, weights, entry.fraction_y, entry.fraction_x, corner[0][d], corner[1][d], corner[2][d],
                           corner[3][d]);
        }
      }
      sum_up(channel_sums, batch_sums[i]);
    }
    if constexpr (kGradients) {
      Real total[3];
      sums_over_group(batch_sums, total);
      const int mine = lane % kBatch;
      if (mine < left) {
        const Of entry = batch_entries[mine];
        const uint32_t number = static_cast<uint32_t>(entry.sample) & Of::kNumber;
        const int64_t sample = index.of_number(number);
        if (lane < kBatch) {
          if (grad_weights.data != nullptr) store_one(grad_weights.data, grad_weights.dtype, sample, total[0]);
        } else if (grad_locations.data != nullptr) {
          store_two(grad_locations.data, grad_locations.dtype, sample,
                    location_gradient(total[1], entry.attention, (entry.sample & Of::kFlatX) != 0 ? Real(0) : slope_x),
                    location_gradient(total[2], entry.attention, (entry.sample & Of::kFlatY) != 0 ? Real(0) : slope_y));
        }
      }
    }
  }
  if (open) close();
}

}  // namespace msda::kernels::cuda
