// Launches of the CUDA kernels: grids, shared memory, workspace. Instantiated once for each pair of types, each in a
// file of its own, so that they compile side by side.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/cuda/fork.h"
#include "kernels/cuda/group_long.cuh"
#include "kernels/cuda/group_short.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operator.h"
#include "kernels/cuda/per_sample.cuh"
#include "kernels/cuda/pixels.cuh"
#include "kernels/names.h"

namespace msda::kernels::cuda {

// The current device.
struct Device {
  int processors = 0, shared_bytes = 0, l2_bytes = 0;
  Device() {
    int device = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
    check(cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
          "cudaDeviceGetAttribute");
    check(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, device), "cudaDeviceGetAttribute");
  }
};

template <class Kernel>
void allow_shared(Kernel* kernel, int64_t bytes) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
        "cudaFuncSetAttribute");
}

// Whether rows of D elements can be read four at a time.
inline bool is_aligned(const void* pointer, int64_t D, int64_t element_bytes) {
  return D % 4 == 0 && reinterpret_cast<uintptr_t>(pointer) % static_cast<uint64_t>(4 * element_bytes) == 0;
}
inline bool is_aligned(const Result& result, int64_t D) {
  return result.data == nullptr || is_aligned(result.data, D, bytes_of(result.dtype));
}

inline unsigned sample_blocks(const Device& device, int64_t rows) {
  const int64_t most = (rows + kSampleThreads / kGroup - 1) / (kSampleThreads / kGroup);
  return static_cast<unsigned>(std::min<int64_t>(most, 8 * device.processors));
}

template <class Stored, class Real>
void Operator<Stored, Real>::forward(Problem<Stored> p, const std::vector<Level>& levels, Result output,
                                     cudaStream_t stream) {
  const Device device;
  Workspace workspace(stream);
  Level* far = nullptr;
  workspace.want(far, far_count(p.L));
  workspace.take();
  hand_over(levels, far, p.levels.far, p.levels.near, stream);
  const bool whole = is_aligned(p.value, p.D, sizeof(Stored)) && is_aligned(output, p.D);
  const unsigned blocks = sample_blocks(device, p.B * p.Q * p.M);
  if (blocks == 0) return;
  const auto kernel = whole ? forward_kernel<true, Stored, Real> : forward_kernel<false, Stored, Real>;
  launch("forward_kernel", kernel, blocks, kSampleThreads, 0, stream, p, output);
}

template <bool kWhole, class Stored, class Real>
auto sum_runs_kernel_of(bool gradients, bool atomic) {
  if (gradients) {
    return atomic ? sum_runs_kernel<kWhole, true, true, Stored, Real>
                  : sum_runs_kernel<kWhole, true, false, Stored, Real>;
  }
  return atomic ? sum_runs_kernel<kWhole, false, true, Stored, Real>
                : sum_runs_kernel<kWhole, false, false, Stored, Real>;
}

// Whether the cells tend to have several samples.
template <class Stored>
bool is_dense(const Problem<Stored>& p) {
  return p.Q * p.P * p.L >= 8 * p.S;
}

template <class Stored, class Real>
auto sum_pixels_kernel_of(bool whole, bool clamps, bool dense) {
  const auto of_dense = [&]<bool kDense>() {
    if (clamps) {
      return whole ? sum_pixels_kernel<true, true, kDense, Stored, Real>
                   : sum_pixels_kernel<false, true, kDense, Stored, Real>;
    }
    return whole ? sum_pixels_kernel<true, false, kDense, Stored, Real>
                 : sum_pixels_kernel<false, false, kDense, Stored, Real>;
  };
  return dense ? of_dense.template operator()<true>() : of_dense.template operator()<false>();
}

template <class Stored, class Real>
auto sample_gradients_kernel_of(bool whole, bool one_chunk) {
  if (one_chunk) {
    return whole ? sample_gradients_kernel<true, true, Stored, Real>
                 : sample_gradients_kernel<false, true, Stored, Real>;
  }
  return whole ? sample_gradients_kernel<true, false, Stored, Real>
               : sample_gradients_kernel<false, false, Stored, Real>;
}

// The samples grouped by cell, in device memory.
template <class Real>
struct Grouped {
  CellStart* cells = nullptr;
  Entry<Real>* sorted = nullptr;
  uint32_t* hot_count = nullptr;
  HotCell* hot = nullptr;
  uint32_t* counts = nullptr;  // on the way there, for long lists
};

// The shared memory that a block needs to group a list by itself, or 0 where it cannot.
inline int64_t bytes_of_short(const Plan& plan, int64_t samples, bool stable, const Device& device) {
  if (samples > kShortList) return 0;
  int64_t bytes = 0;
  for (const LevelPlan& level : plan.levels) {
    bytes = std::max(bytes, ShortRoom::bytes(samples, level.stride, stable));
  }
  return bytes <= device.shared_bytes - 1024 ? bytes : 0;
}

// Each list by one block, with so much shared memory.
template <class Stored, class Real>
void group_short(const Problem<Stored>& p, const Plan& plan, const LevelPlans& plans, int64_t bytes, bool stable,
                 const Grouped<Real>& to, Zeros zeros, Result grad_locations, Result grad_weights,
                 cudaStream_t stream) {
  const auto kernel = stable ? group_short_kernel<true, Stored, Real> : group_short_kernel<false, Stored, Real>;
  allow_shared(kernel, bytes);
  launch("group_short_kernel", kernel, static_cast<unsigned>(plan.heads * p.L), kShortThreads, bytes, stream, p, plans,
         Division(p.L), plan.points, to.cells, to.sorted, zeros, grad_locations, grad_weights);
}

template <class Stored, class Real>
void group_long(const Problem<Stored>& p, const Plan& plan, const LevelPlans& plans, const Device& device, bool stable,
                const Grouped<Real>& to, Result grad_locations, Result grad_weights, cudaStream_t stream) {
  const auto lists = static_cast<unsigned>(plan.heads * p.L);
  // Counters for the largest level that a block's shared memory can hold.
  uint32_t room = 0;
  for (const LevelPlan& level : plan.levels) {
    if (level.stride * 4 <= device.shared_bytes - kPlaceBytes) room = std::max(room, level.stride);
  }
  const auto blocks = static_cast<unsigned>(plan.heads * plan.chunks);
  const Division by_chunks(plan.chunks);
  const auto count = count_kernel<Stored, Real>;
  allow_shared(count, int64_t{room} * 4);
  launch("count_kernel", count, blocks, kGroupThreads, room * 4, stream, p, plans, by_chunks, plan.points, to.counts,
         room);
  const dim3 chunk_grid(lists, static_cast<unsigned>((plan.most_cells + kSumCells - 1) / kSumCells));
  launch("sum_chunks_kernel", sum_chunks_kernel, chunk_grid, kSumThreads, 0, stream, static_cast<uint32_t>(p.L), plans,
         to.counts);
  launch("scan_kernel", scan_kernel, lists, kScanThreads, 0, stream, static_cast<uint32_t>(p.L), plans, to.counts,
         to.cells, to.hot, to.hot_count, static_cast<uint32_t>(plan.most_hot));
  const auto place = stable ? place_kernel<true, Stored, Real> : place_kernel<false, Stored, Real>;
  allow_shared(place, int64_t{room} * 4);
  launch("place_kernel", place, blocks, kGroupThreads, room * 4, stream, p, plans, by_chunks, plan.points, to.counts,
         room, to.cells, to.sorted, grad_locations, grad_weights);
}

// Of the heads of all batches some that follow one another.
struct Heads {
  int64_t first, count;
};

// grad_value, grouped by cell, and beside it the samples' own gradients where `with_gradients`. Without `pixel_sums` in
// the CPU's order; else atomically into pixel_sums, which become zeros before, of all heads.
template <class Stored, class Real>
void scatter(Problem<Stored> p, Heads of, const std::vector<Level>& levels, const Device& device, Real* pixel_sums,
             Result grad_value, bool with_gradients, Result grad_locations, Result grad_weights, bool whole,
             cudaStream_t stream) {
  p.first_head = static_cast<uint32_t>(of.first);
  const int64_t heads = of.count, samples = p.Q * p.P, lists = heads * p.L;
  const Plan plan = make_plan(levels, heads, p.Q, p.P, {kRunGroups<Real>, int64_t{kRunBlocks} * device.processors});
  if (!with_gradients) grad_locations.data = grad_weights.data = nullptr;

  Workspace workspace(stream);
  LevelPlan* far = nullptr;
  Grouped<Real> grouped;
  RunSums<Real> sums{pixel_sums, plan.runs};
  const int64_t channel_chunks = (p.D + kLanes - 1) / kLanes;
  workspace.want(far, far_count(p.L));
  const bool stable = pixel_sums == nullptr;
  const int64_t short_bytes = bytes_of_short(plan, samples, stable, device);
  if (short_bytes == 0) workspace.want(grouped.counts, plan.counts);
  workspace.want(grouped.cells, plan.cells);
  workspace.want(grouped.sorted, lists * samples);
  workspace.want(grouped.hot, lists * plan.most_hot);
  workspace.want(grouped.hot_count, lists);
  if (stable) workspace.want(sums.to, channel_chunks * plan.runs * 4 * kLanes);
  workspace.take();
  LevelPlans plans{};
  hand_over(plan.levels, far, plans.far, plans.near, stream);
  Zeros zeros{};  // what grouping clears beside
  if (!stable) {
    const int64_t bytes = p.B * p.S * p.M * p.D * static_cast<int64_t>(sizeof(Real));
    if (short_bytes != 0 && bytes % sizeof(uint4) == 0 &&
        reinterpret_cast<uintptr_t>(pixel_sums) % sizeof(uint4) == 0) {
      zeros = {reinterpret_cast<uint4*>(pixel_sums), bytes / static_cast<int64_t>(sizeof(uint4))};
    } else {
      check(cudaMemsetAsync(pixel_sums, 0, bytes, stream), "cudaMemsetAsync");
    }
  }
  if (short_bytes != 0) {
    group_short(p, plan, plans, short_bytes, stable, grouped, zeros, grad_locations, grad_weights, stream);
  } else {
    group_long(p, plan, plans, device, stable, grouped, grad_locations, grad_weights, stream);
  }

  const dim3 run_grid(static_cast<unsigned>(heads * plan.blocks), static_cast<unsigned>(channel_chunks));
  const auto sum_runs = whole ? sum_runs_kernel_of<true, Stored, Real>(with_gradients, !stable)
                              : sum_runs_kernel_of<false, Stored, Real>(with_gradients, !stable);
  launch("sum_runs_kernel", sum_runs, run_grid, kRunThreads<Real>, 0, stream, p, plans, plan.points,
         Division(plan.blocks), grouped.cells, grouped.sorted, sums, grad_locations, grad_weights);
  if (!stable) return;
  if (plan.most_hot > 0) {
    const dim3 fold_grid(static_cast<unsigned>(lists), static_cast<unsigned>(channel_chunks));
    launch("fold_kernel", fold_kernel<Real>, fold_grid, kFoldThreads, 0, stream, plans, static_cast<uint32_t>(p.L),
           grouped.hot, grouped.hot_count, static_cast<uint32_t>(plan.most_hot), sums);
  }
  const auto sum_pixels = sum_pixels_kernel_of<Stored, Real>(
      whole, p.dialect == MSDA_MSDA_TRITON && p.padding == MSDA_PADDING_BORDER, is_dense(p));
  // Pixels at an edge take longer: blocks begin in the first level's last row, so that the last ones have none to end
  // with.
  const int64_t pixel_blocks = (p.S + kPixelGroups - 1) / kPixelGroups,
                first_block = (int64_t{levels[0].height} - 1) * levels[0].width / kPixelGroups;
  const dim3 pixel_grid(static_cast<unsigned>(heads * pixel_blocks), static_cast<unsigned>(channel_chunks));
  launch("sum_pixels_kernel", sum_pixels, pixel_grid, kPixelThreads, 0, stream, p, plans, Division(heads),
         static_cast<uint32_t>(first_block), grouped.cells, sums, grad_value);
}

// How many bytes the sums of runs take (RunSums).
template <class Real, class Stored>
int64_t sum_bytes(const Problem<Stored>& p, const std::vector<Level>& levels) {
  int64_t runs = 0;
  for (const Level& level : levels) runs += p.B * p.M * most_runs(p.Q * p.P, level);
  return (p.D + kLanes - 1) / kLanes * runs * int64_t{4 * kLanes * sizeof(Real)};
}

template <class Stored, class Real>
void Operator<Stored, Real>::backward(Problem<Stored> p, const std::vector<Level>& levels, bool atomic,
                                      Result grad_value, Result grad_locations, Result grad_weights,
                                      cudaStream_t stream) {
  const Device device;
  const int64_t samples = p.B * p.Q * p.M * p.L * p.P, values = p.B * p.S * p.M * p.D;
  const bool whole = is_aligned(p.value, p.D, sizeof(Stored)) && is_aligned(p.grad_output, p.D, sizeof(Stored)) &&
                     is_aligned(grad_value, p.D);
  const bool scatters = grad_value.data != nullptr && samples > 0 && values > 0;
  bool with_gradients = (grad_locations.data != nullptr || grad_weights.data != nullptr) && samples > 0;

  Workspace workspace(stream);
  Level* far_levels = nullptr;
  Real* sums = nullptr;
  const bool in_place = grad_value.dtype == (sizeof(Real) == 8 ? MSDA_FLOAT64 : MSDA_FLOAT32);
  workspace.want(far_levels, far_count(p.L));
  if (scatters && atomic && !in_place) workspace.want(sums, values);
  workspace.take();
  hand_over(levels, far_levels, p.levels.far, p.levels.near, stream);

  if (grad_value.data != nullptr && !scatters) {
    check(cudaMemsetAsync(grad_value.data, 0, values * bytes_of(grad_value.dtype), stream), "cudaMemsetAsync");
  } else if (scatters) {
    Real* pixel_sums = nullptr;
    if (atomic) pixel_sums = in_place ? static_cast<Real*>(grad_value.data) : sums;
    const bool at_once = with_gradients && p.D <= kLanes;  // a sample's channels are one group's
    const auto scatter_of = [&](Heads heads, cudaStream_t on) {
      scatter(p, heads, levels, device, pixel_sums, grad_value, at_once, grad_locations, grad_weights, whole, on);
    };
    const int64_t heads = p.B * p.M, half = (heads + 1) / 2;
    if (!atomic && heads > 1 && sum_bytes<Real>(p, levels) > device.l2_bytes && can_fork(stream)) {
      // Side by side: one half waits for memory while the other computes.
      Fork fork(stream);
      scatter_of({0, half}, stream);
      scatter_of({half, heads - half}, fork.side());
      fork.join();
    } else {
      scatter_of({0, heads}, stream);
    }
    if (at_once) with_gradients = false;
    if (atomic && !in_place) {
      const int64_t shape[] = {p.B, p.S, p.M, p.D};
      spread(sums, msda_contiguous(grad_value.data, grad_value.dtype, 4, shape), stream);
    }
  }
  if (with_gradients) {
    const auto kernel = sample_gradients_kernel_of<Stored, Real>(whole, p.D <= kLanes);
    launch("sample_gradients_kernel", kernel, sample_blocks(device, p.B * p.Q * p.M), kSampleThreads, 0, stream, p,
           grad_locations, grad_weights);
  }
}

}  // namespace msda::kernels::cuda
