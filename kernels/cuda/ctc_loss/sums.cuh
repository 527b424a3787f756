// The two kernels of ctc_loss's backward pass: the recursion from step to step, a block a sequence; and the sums of
// each step, a block each.
#pragma once

#include "kernels/checked/ctc_loss.h"
#include "kernels/cuda/common/result.h"
#include "kernels/cuda/common/storage.cuh"
#include "kernels/cuda/common/warp.cuh"

namespace msda::kernels::cuda {

inline constexpr int kCtcBatch = 128;         // sequences whose lengths fit a launch's parameters
inline constexpr int kCtcThreads = 128;       // of a step's sums
inline constexpr int kCtcMostThreads = 1024;  // of the recursion

// Sequences from `first` on. Strides count elements.
template <class Stored>
struct CtcCall : CtcSizes {
  const Stored *log_probs, *log_alpha, *loss, *grad_output;
  int64_t log_probs_stride[3], loss_stride, grad_output_stride;
  msda_tensor targets;
  int64_t target_step, first;
  CtcSequence sequences[kCtcBatch];

  // Returns the label of a position, or -1 where the target names none.
  __device__ int32_t label(const CtcSequence& sequence, int32_t position) const {
    if (position % 2 == 0) return static_cast<int32_t>(blank);
    const int64_t label = integer_at(targets, sequence.first + position / 2 * target_step);
    return label >= 0 && label < C ? static_cast<int32_t>(label) : -1;
  }
  template <class Real>
  __device__ Real log_prob(int64_t b, int64_t t, int32_t label) const {
    if (label < 0) return Real(-INFINITY);
    return static_cast<Real>(
        log_probs[t * log_probs_stride[0] + b * log_probs_stride[1] + label * log_probs_stride[2]]);
  }
};

// What the recursion finds out, of the launch's sequences.
template <class Real>
struct CtcFound {
  Real* beta;      // [sequences, T, positions]
  int32_t* next;   // [sequences, labels]: the next one equal to it, as a number in the target; -1: none
  uint8_t* heads;  // [sequences, labels]: 1 if none before is equal to it, and it is not the blank
};

// Lists the labels of a target that are equal, in their order.
template <class Stored, class Real>
__device__ inline void link_labels(const CtcCall<Stored>& p, const CtcSequence& sequence, CtcFound<Real> found,
                                   int64_t begin) {
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < sequence.labels; i += static_cast<int32_t>(blockDim.x)) {
    const int32_t label = p.label(sequence, 2 * i + 1);
    int32_t next = i + 1, before = i - 1;
    while (next < sequence.labels && p.label(sequence, 2 * next + 1) != label) ++next;
    while (before >= 0 && p.label(sequence, 2 * before + 1) != label) --before;
    found.next[begin + i] = next < sequence.labels ? next : -1;
    found.heads[begin + i] = before < 0 && label >= 0 && label != p.blank ? 1 : 0;
  }
}

// kEach: positions of a thread. kShared: the step at hand and the one after it are in the block's memory, too.
template <int kEach, bool kShared, class Stored, class Real>
__global__ void __launch_bounds__(kCtcMostThreads)
    ctc_beta_kernel(const __grid_constant__ CtcCall<Stored> p, CtcFound<Real> found) {
  const CtcSequence& sequence = p.sequences[blockIdx.x];
  const int64_t b = p.first + blockIdx.x;
  link_labels(p, sequence, found, int64_t{blockIdx.x} * (p.positions / 2));
  const int32_t count = 2 * sequence.labels + 1, step = static_cast<int32_t>(blockDim.x);
  const Real none(-INFINITY);
  int32_t label[kEach];
  bool may_skip[kEach];
  Real log_prob[kEach];  // of the step at hand, read while the one after it is computed
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    const int32_t i = static_cast<int32_t>(threadIdx.x) + k * step;
    label[k] = i < count ? p.label(sequence, i) : -1;
    may_skip[k] = i + 2 < count && p.label(sequence, i + 2) != label[k];
    log_prob[k] = sequence.steps > 0 ? p.template log_prob<Real>(b, sequence.steps - 1, label[k]) : none;
  }
  Real* const rows = found.beta + int64_t{blockIdx.x} * p.T * p.positions;
  Real* const room = dynamic_shared<Real>();
  for (int32_t t = sequence.steps - 1; t >= 0; --t) {
    Real* const row = rows + t * p.positions;
    Real* const now = kShared ? room + t % 2 * count : row;
    const Real* const after = kShared ? room + (t + 1) % 2 * count : row + p.positions;
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const int32_t i = static_cast<int32_t>(threadIdx.x) + k * step;
      if (i >= count) continue;
      const Real of_label = log_prob[k];
      if (t > 0) log_prob[k] = p.template log_prob<Real>(b, t - 1, label[k]);
      Real beta = i + 2 >= count ? of_label : none;
      if (t < sequence.steps - 1) {
        beta = log_beta(after[i], i + 1 < count ? after[i + 1] : none, may_skip[k] ? after[i + 2] : none, of_label);
      }
      row[i] = beta;
      if (kShared) now[i] = beta;
    }
    __syncthreads();
  }
}

// Sums up the blanks' probabilities: in lanes, of pairs of positions, and the lanes by pairs. A warp calls it; all of
// its lanes get the sum.
template <class Stored, class Real>
__device__ inline Real sum_of_blanks(const CtcCall<Stored>& p, const CtcSequence& sequence, const Real* probability) {
  const int32_t count = 2 * sequence.labels + 1;
  Real sum(0);
  for (int32_t i = 2 * static_cast<int32_t>(threadIdx.x % kWarp); i < count; i += 2 * kCtcLanes) {
    sum = sum + probability[i];
    if (i + 1 < count && p.label(sequence, i + 1) == p.blank) sum = sum + probability[i + 1];
  }
  static_assert(kCtcLanes == kWarp);
#pragma unroll
  for (int step = 1; step < kCtcLanes; step *= 2) sum = sum + __shfl_xor_sync(~0u, sum, step);
  return sum;
}

template <class Stored, class Real>
__global__ void __launch_bounds__(kCtcThreads)
    ctc_sums_kernel(const __grid_constant__ CtcCall<Stored> p, CtcFound<Real> found, Result grad_log_probs) {
  const auto number = static_cast<int64_t>(blockIdx.x) / p.T, t = static_cast<int64_t>(blockIdx.x) % p.T;
  const int64_t b = p.first + number, row = (t * p.B + b) * p.C;
  const CtcSequence& sequence = p.sequences[number];
  const Real loss = static_cast<Real>(p.loss[b * p.loss_stride]),
             scale = static_cast<Real>(p.grad_output[b * p.grad_output_stride]);
  const bool is_past = t >= sequence.steps, has_loss = loss != Real(INFINITY);
  const Real otherwise = is_past ? Real(0) : gradient_without_loss<Real>(p.zero_infinity);
  const auto store = [&](int32_t label, Real log_prob, Real probability) {
    store_one(grad_log_probs.data, grad_log_probs.dtype, row + label, ctc_gradient(log_prob, probability, scale));
  };
  for (int32_t c = static_cast<int32_t>(threadIdx.x); c < p.C; c += kCtcThreads) {
    if (is_past || !has_loss) {
      store_one(grad_log_probs.data, grad_log_probs.dtype, row + c, otherwise);
    } else {
      store(c, p.template log_prob<Real>(b, t, c), Real(0));
    }
  }
  if (is_past || !has_loss) return;
  Real* const probability = dynamic_shared<Real>();
  const Stored* const alpha = p.log_alpha + (b * p.T + t) * p.positions;
  const Real* const beta = found.beta + (number * p.T + t) * p.positions;
  const int32_t count = 2 * sequence.labels + 1;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < count; i += kCtcThreads) {
    const int32_t label = p.label(sequence, i);
    const Real of_label = p.template log_prob<Real>(b, t, label);
    probability[i] = label < 0 ? Real(0) : ctc_probability(static_cast<Real>(alpha[i]), beta[i], loss, of_label);
  }
  __syncthreads();
  if (threadIdx.x < kWarp) {
    const Real sum = sum_of_blanks(p, sequence, probability);
    const auto blank = static_cast<int32_t>(p.blank);
    if (threadIdx.x == 0) store(blank, p.template log_prob<Real>(b, t, blank), sum);
  }
  const int64_t begin = number * (p.positions / 2);
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < sequence.labels; i += kCtcThreads) {
    if (found.heads[begin + i] == 0) continue;
    Real sum(0);
    for (int32_t j = i; j >= 0; j = found.next[begin + j]) sum = sum + probability[2 * j + 1];
    const int32_t label = p.label(sequence, 2 * i + 1);
    store(label, p.template log_prob<Real>(b, t, label), sum);
  }
}

}  // namespace msda::kernels::cuda
