// Launches the CUDA kernels: grids, shared memory, workspace. Each pair of types is instantiated in a file of its own,
// so that they compile in parallel.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/cuda/common/convert.h"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/msda/group_long.cuh"
#include "kernels/cuda/msda/group_short.cuh"
#include "kernels/cuda/msda/levels.cuh"
#include "kernels/cuda/msda/operator.h"
#include "kernels/cuda/msda/pixels.cuh"
#include "kernels/cuda/msda/short_call.cuh"
#include "kernels/names.h"

namespace msda::kernels::cuda {

// Returns whether rows of D elements can be read four at a time.
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
void Operator<Stored, Real>::forward(Problem<Stored> p, const std::vector<Level>& levels, Result output, Work& work) {
  const Device device = work.target().device();
  Workspace workspace(work);
  Level* far = nullptr;
  workspace.want(far, far_count(p.L));
  workspace.take();
  hand_over(levels, far, p.levels.far, p.levels.near, work);
  const bool whole = is_aligned(p.value, p.D, sizeof(Stored)) && is_aligned(output, p.D);
  const unsigned blocks = sample_blocks(device, p.B * p.Q * p.M);
  if (blocks == 0) return;
  const auto kernel = whole ? forward_kernel<true, Stored, Real> : forward_kernel<false, Stored, Real>;
  launch("forward_kernel", kernel, blocks, kSampleThreads, 0, work, p, output);
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

// Returns whether the cells tend to have several samples.
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

// Returns the shared memory that a block needs to group a list by itself, or 0 if it cannot.
inline int64_t bytes_of_short(const Plan& plan, int64_t samples, bool stable, const Device& device) {
  if (samples > kShortList) return 0;
  int64_t bytes = 0;
  for (const LevelPlan& level : plan.levels) {
    bytes = std::max(bytes, ShortRoom::bytes(samples, level.stride, stable));
  }
  return bytes <= device.shared_bytes - 1024 ? bytes : 0;
}

// One block groups each list, with this much shared memory.
template <class Stored, class Real>
void group_short(const Problem<Stored>& p, const Plan& plan, const LevelPlans& plans, int64_t bytes, bool stable,
                 const Grouped<Real>& to, Zeros zeros, Result grad_locations, Result grad_weights, Work& work) {
  const auto kernel = stable ? group_short_kernel<true, Stored, Real> : group_short_kernel<false, Stored, Real>;
  allow_shared(kernel, work.target());
  launch("group_short_kernel", kernel, static_cast<unsigned>(plan.heads * p.L), kShortThreads, bytes, work, p, plans,
         Division(p.L), plan.points, to.cells, to.sorted, zeros, grad_locations, grad_weights);
}

template <class Stored, class Real>
void group_long(const Problem<Stored>& p, const Plan& plan, const LevelPlans& plans, const Device& device, bool stable,
                const Grouped<Real>& to, Result grad_locations, Result grad_weights, Work& work) {
  const auto lists = static_cast<unsigned>(plan.heads * p.L);
  // Counters for the largest level that a block's shared memory can hold.
  uint32_t room = 0;
  for (const LevelPlan& level : plan.levels) {
    if (level.stride * 4 <= device.shared_bytes - kPlaceBytes) room = std::max(room, level.stride);
  }
  const auto blocks = static_cast<unsigned>(plan.heads * plan.chunks);
  const Division by_chunks(plan.chunks);
  const auto count = count_kernel<Stored, Real>;
  allow_shared(count, work.target());
  launch("count_kernel", count, blocks, kGroupThreads, room * 4, work, p, plans, by_chunks, plan.points, to.counts,
         room);
  const dim3 chunk_grid(lists, static_cast<unsigned>((plan.most_cells + kSumCells - 1) / kSumCells));
  launch("sum_chunks_kernel", sum_chunks_kernel, chunk_grid, kSumThreads, 0, work, static_cast<uint32_t>(p.L), plans,
         to.counts);
  launch("scan_kernel", scan_kernel, lists, kScanThreads, 0, work, static_cast<uint32_t>(p.L), plans, to.counts,
         to.cells, to.hot, to.hot_count, static_cast<uint32_t>(plan.most_hot));
  const auto place = stable ? place_kernel<true, Stored, Real> : place_kernel<false, Stored, Real>;
  allow_shared(place, work.target());
  launch("place_kernel", place, blocks, kGroupThreads, room * 4, work, p, plans, by_chunks, plan.points, to.counts,
         room, to.cells, to.sorted, grad_locations, grad_weights);
}

// Return the chunks of a row's channels, and the numbers that the sums of runs take (RunSums).
inline int64_t channel_chunks(int64_t D) { return (D + kLanes - 1) / kLanes; }
inline int64_t numbers_of_runs(int64_t D, int64_t runs) { return channel_chunks(D) * runs * kRunSize; }

// Consecutive heads among those of all batches.
struct Heads {
  int64_t first, count;
};

// Computes grad_value of some heads, from samples grouped by cell, and the samples' own gradients if they are wanted.
// Without `pixel_sums` the order is the CPU's; otherwise the sums are added atomically to pixel_sums, which holds all
// heads and is cleared first. Takes its memory from the workspace, which is allocated before begin().
template <class Stored, class Real>
class Scatter {
 public:
  Scatter(const Problem<Stored>& problem, Heads heads, const std::vector<Level>& levels, const Device& device,
          Real* pixel_sums, bool whole, Workspace& workspace)
      : p_(problem),
        device_(device),
        plan_(make_plan(levels, heads.count, p_.Q, p_.P, {kRunGroups<Real>, int64_t{kRunBlocks} * device.processors})),
        stable_(pixel_sums == nullptr),
        whole_(whole),
        short_bytes_(bytes_of_short(plan_, p_.Q * p_.P, stable_, device)),
        sums_{pixel_sums, plan_.runs} {
    p_.first_head = static_cast<uint32_t>(heads.first);
    const int64_t lists = heads.count * p_.L;
    workspace.want(far_, far_count(p_.L));
    if (short_bytes_ == 0) workspace.want(grouped_.counts, plan_.counts);
    workspace.want(grouped_.cells, plan_.cells);
    workspace.want(grouped_.sorted, lists * p_.Q * p_.P);
    workspace.want(grouped_.hot, lists * plan_.most_hot);
    workspace.want(grouped_.hot_count, lists);
    if (stable_) workspace.want(sums_.to, numbers_of_runs(p_.D, plan_.runs));
  }

  void begin(Work& work) { hand_over(plan_.levels, far_, plans_.far, plans_.near, work); }

  void run(Result grad_value, Result grad_locations, Result grad_weights, Work& work) {
    group(grad_locations, grad_weights, work);
    sum_runs(grad_locations, grad_weights, work);
    if (stable_) sum_pixels(grad_value, work);
  }

 private:
  void group(Result grad_locations, Result grad_weights, Work& work) {
    Zeros zeros{};  // what the grouping kernel clears as well
    if (!stable_) {
      const int64_t bytes = p_.B * p_.S * p_.M * p_.D * static_cast<int64_t>(sizeof(Real));
      if (short_bytes_ != 0 && bytes % sizeof(uint4) == 0 &&
          reinterpret_cast<uintptr_t>(sums_.to) % sizeof(uint4) == 0) {
        zeros = {reinterpret_cast<uint4*>(sums_.to), bytes / static_cast<int64_t>(sizeof(uint4))};
      } else {
        clear(sums_.to, bytes, work);
      }
    }
    if (short_bytes_ != 0) {
      group_short(p_, plan_, plans_, short_bytes_, stable_, grouped_, zeros, grad_locations, grad_weights, work);
    } else {
      group_long(p_, plan_, plans_, device_, stable_, grouped_, grad_locations, grad_weights, work);
    }
  }

  void sum_runs(Result grad_locations, Result grad_weights, Work& work) {
    const bool with_gradients = grad_locations.data != nullptr || grad_weights.data != nullptr;
    const auto kernel = whole_ ? sum_runs_kernel_of<true, Stored, Real>(with_gradients, !stable_)
                               : sum_runs_kernel_of<false, Stored, Real>(with_gradients, !stable_);
    launch("sum_runs_kernel", kernel, grid(plan_.heads * plan_.blocks), kRunThreads<Real>, 0, work, p_, plans_,
           plan_.points, Division(plan_.blocks), grouped_.cells, grouped_.sorted, sums_, grad_locations, grad_weights);
  }

  void sum_pixels(Result grad_value, Work& work) {
    if (plan_.most_hot > 0) {
      launch("fold_kernel", fold_kernel<Real>, grid(plan_.heads * p_.L), kFoldThreads, 0, work, plans_,
             static_cast<uint32_t>(p_.L), grouped_.hot, grouped_.hot_count, static_cast<uint32_t>(plan_.most_hot),
             sums_);
    }
    // Pixels at an edge take longer. Blocks begin in the first level's last row, so that the last blocks have no edge
    // pixels.
    const Level& first = plan_.levels[0].level;
    const int64_t blocks = (p_.S + kPixelGroups - 1) / kPixelGroups,
                  first_block = (int64_t{first.height} - 1) * first.width / kPixelGroups;
    const bool clamps = corners_clamp(p_.dialect, p_.padding);
    launch("sum_pixels_kernel", sum_pixels_kernel_of<Stored, Real>(whole_, clamps, is_dense(p_)),
           grid(plan_.heads * blocks), kPixelThreads, 0, work, p_, plans_, Division(plan_.heads),
           static_cast<uint32_t>(blocks), static_cast<uint32_t>(first_block), grouped_.cells, sums_, grad_value);
  }

  dim3 grid(int64_t blocks) const {
    return dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(channel_chunks(p_.D)));
  }

  Problem<Stored> p_;
  const Device& device_;
  const Plan plan_;
  const bool stable_, whole_;
  const int64_t short_bytes_;
  LevelPlan* far_ = nullptr;
  LevelPlans plans_{};
  Grouped<Real> grouped_;
  RunSums<Real> sums_;
};

// Returns how many bytes the sums of a whole call's runs take.
template <class Real, class Stored>
int64_t sum_bytes(const Problem<Stored>& p, const std::vector<Level>& levels) {
  int64_t runs = 0;
  for (const Level& level : levels) runs += p.B * p.M * most_runs(p.Q * p.P, level);
  return numbers_of_runs(p.D, runs) * int64_t{sizeof(Real)};
}

template <class Stored, class Real>
void Operator<Stored, Real>::backward(Problem<Stored> p, const std::vector<Level>& levels, bool atomic,
                                      Result grad_value, Result grad_locations, Result grad_weights, Work& work) {
  const Device device = work.target().device();
  const int64_t samples = p.B * p.Q * p.M * p.L * p.P, values = p.B * p.S * p.M * p.D;
  const bool whole = is_aligned(p.value, p.D, sizeof(Stored)) && is_aligned(p.grad_output, p.D, sizeof(Stored)) &&
                     is_aligned(grad_value, p.D);
  const bool scatters = grad_value.data != nullptr && samples > 0 && values > 0;
  bool with_gradients = (grad_locations.data != nullptr || grad_weights.data != nullptr) && samples > 0;

  Workspace workspace(work);
  Level* far_levels = nullptr;
  Real* sums = nullptr;
  const bool in_place = grad_value.dtype == (sizeof(Real) == 8 ? MSDA_FLOAT64 : MSDA_FLOAT32);
  workspace.want(far_levels, far_count(p.L));
  if (scatters && atomic && !in_place) workspace.want(sums, values);
  workspace.take();
  hand_over(levels, far_levels, p.levels.far, p.levels.near, work);

  if (grad_value.data != nullptr && !scatters) {
    clear(grad_value.data, values * bytes_of(grad_value.dtype), work);
  } else if (scatters) {
    Real* pixel_sums = nullptr;
    if (atomic) pixel_sums = in_place ? static_cast<Real*>(grad_value.data) : sums;
    const ShortCall<Stored, Real> short_call(p, levels, device, whole);
    const bool at_once = with_gradients && p.D <= kLanes;  // a sample's channels are one group's
    const Result of_locations = at_once ? grad_locations : Result{}, of_weights = at_once ? grad_weights : Result{};
    const int64_t heads = p.B * p.M, half = (17 * heads + 15) / 32;  // the other half begins later
    Workspace of_scatter(work);
    if (atomic && short_call.is_short()) {
      short_call.add(pixel_sums, grad_locations, grad_weights, work);
    } else if (!atomic && short_call.is_one_launch()) {
      short_call.sum(grad_value, grad_locations, grad_weights, work);
    } else if (!atomic && heads > 1 && sum_bytes<Real>(p, levels) > device.l2_bytes && work.can_fork()) {
      // Both halves run concurrently: one waits for memory while the other computes.
      Scatter<Stored, Real> first_half(p, {0, half}, levels, device, pixel_sums, whole, of_scatter);
      Scatter<Stored, Real> second_half(p, {half, heads - half}, levels, device, pixel_sums, whole, of_scatter);
      of_scatter.take();
      first_half.begin(work);
      second_half.begin(work);
      work.beside([&] { first_half.run(grad_value, of_locations, of_weights, work); },
                  [&] { second_half.run(grad_value, of_locations, of_weights, work); });
    } else {
      Scatter<Stored, Real> all(p, {0, heads}, levels, device, pixel_sums, whole, of_scatter);
      of_scatter.take();
      all.begin(work);
      all.run(grad_value, of_locations, of_weights, work);
    }
    if (at_once) with_gradients = false;
    if (atomic && !in_place) {
      const int64_t shape[] = {p.B, p.S, p.M, p.D};
      spread(sums, msda_contiguous(grad_value.data, grad_value.dtype, 4, shape), work);
    }
  }
  if (with_gradients) {
    const auto kernel = sample_gradients_kernel_of<Stored, Real>(whole, p.D <= kLanes);
    launch("sample_gradients_kernel", kernel, sample_blocks(device, p.B * p.Q * p.M), kSampleThreads, 0, work, p,
           grad_locations, grad_weights);
  }
}

}  // namespace msda::kernels::cuda
