// Launches the CUDA kernels of grid_sample. Each pair of types is instantiated in a file of its own, so that they
// compile in parallel.
#pragma once

#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/grid_sample/at_once.cuh"
#include "kernels/cuda/grid_sample/long.cuh"
#include "kernels/cuda/grid_sample/pixels.cuh"
#include "kernels/cuda/grid_sample/samples.cuh"
#include "kernels/cuda/grid_sample/short.cuh"
#include "kernels/cuda/grid_sample/sort.cuh"

namespace msda::kernels::cuda {

// Shared memory beside what a kernel asks for: what sum_tile declares for the first kernel's threads, and the rest.
template <class Real>
inline constexpr int64_t kOtherShared = int64_t{sizeof(uint32_t) + sizeof(Real)} * kFirstThreads + 1024;

inline int64_t blocks_of(int64_t items, int64_t each) { return (items + each - 1) / each; }

// Addends of a pixel, on average, up to which a thread has a pixel of its own though few threads have one.
inline constexpr int64_t kFewToSum = 4, kFewToSort = 16;

// How a deterministic backward pass is done.
template <class Stored, class Real>
struct GridPlan {
  int64_t short_bytes = 0;  // shared memory in which one block groups a range's addends; 0: they are too many
  GridRanges ranges;
  GridAtOnce at_once;
  int64_t plane_bytes = 0;
  GridPlanes planes;
  GridParts parts;
  int64_t together = 0;        // numbers of grad_output, a sample's channels side by side; 0: not needed
  int64_t blocks_of_list = 1;  // that put eight channels of a batch together

  GridPlan(const GridCall<Stored>& p, int taps, const Device& device, bool wants_input, bool wants_grid) {
    const int64_t room = device.shared_bytes - kOtherShared<Real>;
    if (wants_input && !sums_at_once(p, taps, device)) {
      divide_pixels(p, taps, device, room);
      parts.channels = static_cast<uint32_t>(blocks_of(p.C, kPixelChannels));
      parts.by_channels = Division(parts.channels);
      const int64_t lists = p.N * parts.channels;
      const bool has_teams =
          p.samples * taps > kFewToSum * p.pixels && lists * blocks_of(p.pixels, kPixelThreads) < 2 * device.processors;
      if (has_teams) parts.tile = static_cast<uint32_t>(tile_of(p.pixels, lists, kTeams, device));
      parts.by_tiles = Division(blocks_of(p.pixels, parts.tile));
      if (p.C >= kFewChannels) together = p.N * parts.channels * p.samples * kPixelChannels;
    }
    const int64_t lists = together > 0 ? p.N * parts.channels : 0;
    if (wants_grid && taps > 1 && p.C > 0 && p.samples > 0) divide_planes(p, device, room, lists);
    if (lists > 0) divide_lists(p, device, lists);
  }

  // Returns how many blocks of the first kernel group, and perhaps sum up, addends.
  uint32_t grouping(int64_t N) const { return at_once.channels > 0 ? at_once.blocks(N, ranges) : ranges.blocks(N); }

 private:
  // Returns whether each block can group a range's addends and sum up eight channels of them, with little room and in
  // few turns: each group of channels groups anew.
  bool sums_at_once(const GridCall<Stored>& p, int taps, const Device& device) {
    constexpr int64_t kMostTurns = 2;
    if (p.C < kFewChannels || p.samples > short_samples(taps)) return false;
    const int64_t channels = blocks_of(p.C, kPixelChannels), lists = p.N * channels;
    if (lists > kMostTurns * device.processors) return false;
    divide_ranges(p, device.processors / lists);
    const int64_t bytes = GridShortRoom<Real>::bytes(ranges.pixels, p.samples * taps, true,
                                                     p.samples * kPixelChannels * int64_t{sizeof(Stored)});
    if (bytes > device.shared_bytes / kFirstBlocks - kOtherShared<Real>) return false;
    short_bytes = bytes;
    at_once.channels = static_cast<uint32_t>(channels);
    at_once.by_channels = Division(channels);
    at_once.has_teams = p.samples * taps > kFewToSum * p.pixels && ranges.pixels <= kFirstThreads / 2;
    return true;
  }

  // Divides a batch's pixels into a few ranges.
  void divide_ranges(const GridCall<Stored>& p, int64_t wanted) {
    constexpr int64_t kMost = 4, kEach = GridShortRoom<Real>::kEach;
    const int64_t number = std::clamp<int64_t>(wanted, 1, kMost);
    const int64_t pixels = std::max<int64_t>(blocks_of(blocks_of(p.pixels, number), kEach) * kEach, kEach);
    ranges = {static_cast<uint32_t>(std::max<int64_t>(blocks_of(p.pixels, pixels), 1)), pixels};
  }

  // Returns as many blocks for each as run at a time, or `most` if not even one for each does.
  static int64_t blocks_to_each(int64_t number, int64_t at_a_time, int64_t most) {
    return std::clamp<int64_t>(at_a_time >= number ? at_a_time / number : most, 1, std::max<int64_t>(most, 1));
  }

  // Returns how many blocks of the first kernel the device runs at a time, beside those that group.
  int64_t at_a_time(const GridCall<Stored>& p, const Device& device) const {
    const bool has_room = std::max(short_bytes, plane_bytes) + kOtherShared<Real> <= device.shared_bytes / kFirstBlocks;
    return (has_room ? kFirstBlocks : 1) * device.processors - grouping(p.N);
  }

  void divide_lists(const GridCall<Stored>& p, const Device& device, int64_t lists) {
    const int64_t most = std::max<int64_t>(blocks_of(p.samples, kFirstThreads), 1);
    const bool has_others = short_bytes > 0 || plane_bytes > 0;  // that run beside them, and longer
    blocks_of_list = has_others ? blocks_to_each(lists, at_a_time(p, device) - planes.blocks(p.N), most) : most;
  }

  // Reading planes whole is worth it if a good part of them is needed.
  static constexpr int64_t kPixelsToSample = 16;
  // With fewer channels, putting them side by side would cost more than it saves.
  static constexpr int64_t kFewChannels = 5;

  // Takes a few ranges if there are few batches: besides looking at the samples, their blocks then have less to do one
  // after the other.
  void divide_pixels(const GridCall<Stored>& p, int taps, const Device& device, int64_t room) {
    if (p.samples > short_samples(taps)) return;
    divide_ranges(p, device.processors / (2 * std::max<int64_t>(p.N, 1)));
    const int64_t bytes =
        ranges.pixels < room / 4 ? GridShortRoom<Real>::bytes(ranges.pixels, p.samples * taps, false) : room + 1;
    if (bytes <= room) {
      short_bytes = bytes;
    } else {
      ranges = {};
    }
  }

  // `others`: blocks that run beside these.
  void divide_planes(const GridCall<Stored>& p, const Device& device, int64_t room, int64_t others) {
    if (p.pixels > room || p.pixels > kPixelsToSample * p.samples || GridPlanes::rounds(p.C) > room) return;
    const int64_t bytes = GridPlanes::bytes(p.C, p.pixels, sizeof(Stored));
    if (bytes > room) return;
    plane_bytes = bytes;
    planes.groups = static_cast<uint32_t>(std::min<int64_t>(blocks_of(p.C, kPlaneLanes), kLanes / kPlaneLanes));
    const int64_t wanted = blocks_of(device.processors, p.N * planes.groups);
    const int64_t most = std::max<int64_t>(p.samples / std::max<int64_t>(kFirstThreads, p.pixels / 16), 1);
    planes.parts = static_cast<uint32_t>(
        std::min(blocks_to_each(p.N * planes.groups, at_a_time(p, device) - others, wanted), most));
    planes.part = blocks_of(p.samples, planes.parts);
  }
};

// Memory for grouping long calls.
struct GridLongRoom {
  uint32_t* ranks;      // [N, samples * taps]
  uint32_t* tile_sums;  // of GridLists::begin
};

// What the blocks of the first kernel do: some group addends; then some sum planes; the others put channels together,
// some of them for each batch and eight channels.
struct FirstBlocks {
  uint32_t grouping, planes;
  GridAtOnce at_once;
  Division by_blocks, by_channels;
};

template <int kAxes, int kTaps, class Stored, class Real>
__global__ void __launch_bounds__(kFirstThreads, kFirstBlocks)
    grid_first_kernel(GridCall<Stored> p, FirstBlocks blocks, GridRanges ranges, GridLists<Real> lists,
                      GridPlanes planes, Real* partial, Stored* together, Result grad_input) {
  uint32_t block = blockIdx.x;
  if (block < blocks.grouping) {
    if (blocks.at_once.channels > 0) {
      sum_range<kAxes, kTaps, Real>(p, blocks.at_once, ranges, block, grad_input);
    } else {
      group_range<kAxes, kTaps>(p, ranges, block, lists);
    }
    return;
  }
  block -= blocks.grouping;
  if (block < blocks.planes) {
    sum_planes<kAxes, kTaps>(p, planes, block, partial);
    return;
  }
  const auto [list, of_list] = blocks.by_blocks.divide(block - blocks.planes);
  const auto [n, group] = blocks.by_channels.divide(list);
  for (int64_t sample = int64_t{of_list} * kFirstThreads + threadIdx.x; sample < p.samples;
       sample += int64_t{blocks.by_blocks.by} * kFirstThreads) {
    put_together(p, list, n, int64_t{group} * kPixelChannels, sample, together);
  }
}

template <int kAxes, int kTaps, class Stored, class Real>
void launch_first(const GridCall<Stored>& p, const GridPlan<Stored, Real>& plan, const GridLists<Real>& lists,
                  Real* partial, Stored* together, Result grad_input, Work& work) {
  const int64_t each = plan.blocks_of_list, channels = plan.parts.channels;
  const FirstBlocks blocks{plan.grouping(p.N), plan.planes.blocks(p.N), plan.at_once, Division(each),
                           Division(std::max<int64_t>(channels, 1))};
  const auto all =
      static_cast<unsigned>(blocks.grouping + blocks.planes + (plan.together > 0 ? p.N * channels * each : 0));
  if (all == 0) return;
  const auto kernel = grid_first_kernel<kAxes, kTaps, Stored, Real>;
  const int64_t bytes = std::max(plan.short_bytes, plan.plane_bytes);
  allow_shared(kernel, work.target());
  launch("grid_first_kernel", kernel, all, kFirstThreads, bytes, work, p, blocks, plan.ranges, lists, plan.planes,
         partial, together, grad_input);
}

template <int kAxes, int kTaps, class Stored, class Real>
void group_long(const GridCall<Stored>& p, const GridLists<Real>& lists, const GridLongRoom& room, Work& work) {
  const int64_t numbers = p.N * lists.stride;
  clear(lists.begin, numbers * int64_t{sizeof(uint32_t)}, work);
  const int64_t blocks = blocks_of(p.samples, kCountThreads), tiles = blocks_of(numbers, kScanAllTile);
  const auto of_samples = static_cast<unsigned>(p.N * blocks);
  if (p.samples > 0) {
    launch("grid_count_kernel", grid_count_kernel<kAxes, kTaps, Stored, Real>, of_samples, kCountThreads, 0, work, p,
           Division(blocks), lists, room.ranks);
  }
  launch("grid_tile_sums_kernel", grid_tile_sums_kernel, static_cast<unsigned>(tiles), kScanAllThreads, 0, work,
         lists.begin, numbers, room.tile_sums);
  launch("grid_scan_kernel", grid_scan_kernel, static_cast<unsigned>(tiles), kScanAllThreads, 0, work, lists.begin,
         numbers, room.tile_sums);
  if (p.samples == 0) return;
  launch("grid_scatter_kernel", grid_scatter_kernel<kAxes, kTaps, Stored, Real>, of_samples, kCountThreads, 0, work, p,
         Division(blocks), room.ranks, lists);
  constexpr int64_t kThreads = kSortThreads<Real>;
  const bool have_few = p.samples * taps_of_sample(kAxes, kTaps) <= kFewToSort * p.pixels;
  const int64_t tile = have_few ? kThreads : tile_of(p.pixels, p.N, kThreads, work.target().device()),
                tiles_of_batch = blocks_of(p.pixels, tile);
  launch("grid_sort_kernel", grid_sort_kernel<kAxes, kTaps, Stored, Real>, static_cast<unsigned>(p.N * tiles_of_batch),
         kSortThreads<Real>, 0, work, p, Division(tiles_of_batch), static_cast<uint32_t>(tile), lists);
}

template <int kAxes, int kTaps, bool kAtomic, class Stored, class Real>
void launch_samples(const GridCall<Stored>& p, Real* sums, Result grad_grid, Work& work) {
  if (p.samples == 0) return;
  const uint32_t log = groups_log(p.C);
  const int64_t blocks = blocks_of(p.samples, kGridThreads >> log);
  launch("grid_samples_kernel", grid_samples_kernel<kAxes, kTaps, kAtomic, Stored, Real>,
         static_cast<unsigned>(p.N * blocks), kGridThreads, 0, work, p, Division(blocks), log, sums, grad_grid);
}

template <int kAxes, int kTaps, class Stored, class Real>
void grid_atomic(const GridCall<Stored>& p, Result grad_input, Result grad_grid, Work& work) {
  Real* const sums = p.C > 0 ? static_cast<Real*>(grad_input.data) : nullptr;
  if (sums != nullptr) clear(sums, p.N * p.C * p.pixels * int64_t{sizeof(Real)}, work);
  launch_samples<kAxes, kTaps, true>(p, sums, grad_grid, work);
}

template <int kAxes, int kTaps, class Stored, class Real>
void grid_deterministic(const GridCall<Stored>& p, Result grad_input, Result grad_grid, Work& work) {
  constexpr int kCount = taps_of_sample(kAxes, kTaps);
  const bool wants_input = grad_input.data != nullptr && p.C > 0, wants_grid = grad_grid.data != nullptr;
  const GridPlan<Stored, Real> plan(p, kCount, work.target().device(), wants_input, wants_grid);
  const bool sums = wants_input && plan.at_once.channels == 0;  // by kernels of their own
  const bool is_long = sums && plan.short_bytes == 0, has_planes = plan.plane_bytes > 0;
  GridLists<Real> lists{};
  GridLongRoom room{};
  Real* partial = nullptr;
  Stored* together = nullptr;
  Workspace workspace(work);
  if (sums) {
    const int64_t addends = p.N * p.samples * kCount;
    lists.stride = p.pixels / 4 * 4 + 4;
    workspace.want(lists.begin, p.N * lists.stride);
    workspace.want(lists.entries, addends);
    if (is_long) {
      workspace.want(room.ranks, addends);
      workspace.want(room.tile_sums, blocks_of(p.N * lists.stride, kScanAllTile));
    }
  }
  if (has_planes) workspace.want(partial, p.N * plan.planes.groups * p.samples * kAxes);
  if (plan.together > 0) workspace.want(together, plan.together);
  workspace.take();
  launch_first<kAxes, kTaps>(p, plan, lists, partial, together, grad_input, work);
  if (is_long) group_long<kAxes, kTaps>(p, lists, room, work);
  if (wants_grid && !has_planes) launch_samples<kAxes, kTaps, false, Stored, Real>(p, nullptr, grad_grid, work);
  if (!sums && !has_planes) return;
  const auto kernel = grid_pixels_kernel<kAxes, kTaps, Stored, Real>;
  const int64_t combining = has_planes ? blocks_of(p.samples, kPixelThreads) : 0;
  const uint32_t summing = plan.parts.blocks(p.N);
  launch("grid_pixels_kernel", kernel, static_cast<unsigned>(summing + p.N * combining), kPixelThreads, 0, work, p,
         plan.parts, together, lists, grad_input, summing, Division(std::max<int64_t>(combining, 1)),
         plan.planes.groups, partial, grad_grid);
}

template <class Stored, class Real>
void GridOperator<Stored, Real>::backward(const GridCall<Stored>& p, int axes, bool atomic, Result grad_input,
                                          Result grad_grid, Work& work) {
  if (p.N == 0) return;
  const auto run = [&]<int kAxes, int kTaps>() {
    if (atomic) return grid_atomic<kAxes, kTaps, Stored, Real>(p, grad_input, grad_grid, work);
    grid_deterministic<kAxes, kTaps, Stored, Real>(p, grad_input, grad_grid, work);
  };
  const bool nearest = p.interpolation == MSDA_NEAREST;
  if (axes == 2) return nearest ? run.template operator()<2, 1>() : run.template operator()<2, 2>();
  return nearest ? run.template operator()<3, 1>() : run.template operator()<3, 2>();
}

}  // namespace msda::kernels::cuda
