// Launches the backward pass of a short call, where launches, and the waits between them, would take most of the time:
// one kernel without a workspace; with atomic additions, it runs after grad_value has been cleared.
#pragma once

#include <vector>

#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/msda/at_once.cuh"

namespace msda::kernels::cuda {

template <class Stored, class Real>
class ShortCall {
 public:
  ShortCall(const Problem<Stored>& problem, const std::vector<Level>& levels, const Device& device, bool whole)
      : p_(problem), heads_(problem.B * problem.M), whole_(whole), row_parts_(heads_, problem.Q, problem.L, problem.P) {
    constexpr int kPartsOfProcessor = 4, kOwnBytes = 2048;
    const int64_t of_list = p_.Q * p_.P;
    is_short_ =
        p_.D <= kLanes && p_.L <= Levels::kNear && of_list <= kAtOnceSamples && heads_ * p_.L * of_list <= kAtOnceCall;
    if (!is_short_) return;
    plan_ = make_at_once_plan(levels, heads_, of_list, int64_t{kPartsOfProcessor} * device.processors);
    bytes_ = PartRoom<Real>::bytes(of_list, plan_.most_cells);
    fits_ = plan_.most_cells < PartRoom<Real>::kMostCells && bytes_ <= device.shared_bytes - kOwnBytes;
  }
  bool is_short() const { return is_short_; }
  // Returns whether sum() can do it: not if a level is so wide that the cells of a row of pixels do not fit into a
  // block.
  bool is_one_launch() const { return is_short_ && fits_; }

  // Computes all gradients that are wanted, deterministic.
  void sum(Result grad_value, Result grad_locations, Result grad_weights, Work& work) const {
    const auto kernel = whole_ ? at_once_kernel<true, Stored, Real> : at_once_kernel<false, Stored, Real>;
    constexpr int64_t kDeclared = 1 << 10;
    static_assert(sizeof(PartCounts) <= kDeclared);
    if (bytes_ + kDeclared > kSharedWithoutAsking) allow_shared(kernel, work.target());
    const bool with_gradients = grad_locations.data != nullptr || grad_weights.data != nullptr;
    const auto part_blocks = static_cast<uint32_t>(heads_ * plan_.parts);
    launch("at_once_kernel", kernel, part_blocks + (with_gradients ? blocks_of(row_parts_) : 0), kAtOnceThreads, bytes_,
           work, p_, plan_, Division(plan_.parts), Points(p_.P), part_blocks, row_parts_, grad_value, grad_locations,
           grad_weights);
  }
  // Clears `sums`, [B,S,M,D], and adds to it. If clearing takes long, the first batches are cleared first and added to
  // while the others are cleared.
  void add(Real* sums, Result grad_locations, Result grad_weights, Work& work) const {
    constexpr int64_t kLong = 16 << 20;  // bytes
    const int64_t first = bytes_of_batch() * p_.B >= kLong && work.can_fork() ? p_.B / 4 : 0;
    const auto add_rest = [&] {
      clear(sums + first * numbers_of_batch(), bytes_of_batch() * (p_.B - first), work);
      add_batches(first, p_.B - first, sums, grad_locations, grad_weights, work);
    };
    if (first == 0) return add_rest();
    clear(sums, bytes_of_batch() * first, work);
    work.beside([&] { add_batches(0, first, sums, grad_locations, grad_weights, work); }, add_rest);
  }

 private:
  static unsigned blocks_of(const RowParts& row_parts) {
    constexpr uint32_t kGroups = kSampleThreads / kGroup;
    return (row_parts.count + kGroups - 1) / kGroups;
  }
  int64_t numbers_of_batch() const { return p_.S * p_.M * p_.D; }
  int64_t bytes_of_batch() const { return numbers_of_batch() * int64_t{sizeof(Real)}; }

  // Adds `count` batches from `first` on.
  void add_batches(int64_t first, int64_t count, Real* sums, const Result& grad_locations, const Result& grad_weights,
                   Work& work) const {
    const int64_t rows = first * p_.Q * p_.M, samples = rows * p_.L * p_.P;
    Problem<Stored> p = p_;
    p.B = count;
    p.value += first * numbers_of_batch();
    p.sampling_locations += 2 * samples;
    p.attention_weights += samples;
    p.grad_output += rows * p.D;
    const RowParts row_parts(count * p.M, p.Q, p.L, p.P);
    const auto kernel =
        whole_ ? short_gradients_kernel<true, true, Stored, Real> : short_gradients_kernel<false, true, Stored, Real>;
    launch("short_gradients_kernel", kernel, blocks_of(row_parts), kSampleThreads, 0, work, p, row_parts,
           sums + first * numbers_of_batch(), grad_locations.from(2 * samples), grad_weights.from(samples));
  }

  const Problem<Stored>& p_;
  const int64_t heads_;
  const bool whole_;
  const RowParts row_parts_;
  bool is_short_ = false, fits_ = false;
  AtOncePlan plan_;
  int64_t bytes_ = 0;
};

}  // namespace msda::kernels::cuda
