// The sums of grad_value over the samples of one cell, by the fixed tree (sample.h, kRun). A run's sums stay in
// registers until it ends; most cells have one run, whose sums go to the pixels from there.
#pragma once

#include <cstdint>

#include "kernels/cpu/run_tree.h"
#include "kernels/cpu/table.h"
#include "kernels/cpu/vectors.h"
#include "kernels/sample.h"

namespace msda::kernels::cpu {
inline namespace MSDA_ISA {

// Where a cell's corner sums are added: rows of channels, null for a corner outside the level. Two corners may have the
// same row, and are then added in their order.
template <class Real>
struct CornerRows {
  Real* row[4];
};

template <class In, class Real>
class CellSums {
 public:
  // `memory`: sum_size(the most samples, channels) numbers. The row of query q is grad_output + q * query_stride.
  CellSums(Real* memory, int64_t channels, const In* grad_output, int64_t query_stride)
      : tree_(memory, 4 * channels), channels_(channels), grad_output_(grad_output), query_stride_(query_stride) {}

  // Adds the sums of a cell's samples, at least one, to the rows.
  void add_to(const CornerRows<Real>& rows, const Sample<Real>* samples, int64_t count) {
    if (count <= kRun) {
      for_each_block<kWidestBlock<Real>>(0, channels_, [&]<class Width>(Width, int64_t channel) {
        add_block(rows, channel, run_sums<Width::value>(samples, static_cast<int>(count), channel));
      });
      return;
    }
    const Real* sums = sum_of_runs(samples, count);
    for_each_block<kWidestBlock<Real>>(0, channels_, [&]<class Width>(Width, int64_t channel) {
      add_block(rows, channel, Corners<Width::value>::load(sums + channel, channels_));
    });
  }

 private:
  // Some channels of the four corner sums.
  template <int kWidth>
  struct Corners {
    Block<Real, kWidth> sum[4];
    static Corners load(const Real* from, int64_t channels) {
      Corners corners;
      for (int i = 0; i < 4; ++i) corners.sum[i] = Block<Real, kWidth>::load(from + i * channels);
      return corners;
    }
    void store(Real* to, int64_t channels) const {
      for (int i = 0; i < 4; ++i) sum[i].store(to + i * channels);
    }
  };

  template <int kWidth>
  Corners<kWidth> contributions(const Sample<Real>& sample, int64_t channel) const {
    const auto weights = corner_weights(sample.fraction_y, sample.fraction_x);
    const In* row = grad_output_ + sample.query * query_stride_ + channel;
    const auto weighted = sample.attention * Block<Real, kWidth>::load(row);
    Corners<kWidth> corners;
    for (int i = 0; i < 4; ++i) corners.sum[i] = weights.w[i] * weighted;  // value_contribution()
    return corners;
  }

  template <int kWidth>
  Corners<kWidth> run_sums(const Sample<Real>* samples, int count, int64_t channel) const {
    Corners<kWidth> sums = contributions<kWidth>(samples[0], channel);
    for (int i = 1; i < count; ++i) {
      const auto addends = contributions<kWidth>(samples[i], channel);
      for (int corner = 0; corner < 4; ++corner) sums.sum[corner] = sums.sum[corner] + addends.sum[corner];
    }
    return sums;
  }

  template <int kWidth>
  static void add_block(const CornerRows<Real>& rows, int64_t channel, const Corners<kWidth>& sums) {
    for (int i = 0; i < 4; ++i) {
      if (rows.row[i] == nullptr) continue;
      Real* to = rows.row[i] + channel;
      (Block<Real, kWidth>::load(to) + sums.sum[i]).with_one_nan().store(to);
    }
  }

  // Returns [4][channels].
  const Real* sum_of_runs(const Sample<Real>* samples, int64_t count) {
    tree_.begin(count);
    for (int64_t first = 0; first < count; first += kRun) {
      const int run = static_cast<int>(count - first < kRun ? count - first : kRun);
      for_each_block<kWidestBlock<Real>>(0, channels_, [&]<class Width>(Width, int64_t channel) {
        run_sums<Width::value>(samples + first, run, channel).store(tree_.run() + channel, channels_);
      });
      tree_.added(run);
    }
    return tree_.sum();
  }

  RunTree<Real> tree_;
  int64_t channels_;
  const In* grad_output_;
  int64_t query_stride_;
};

}  // namespace MSDA_ISA
}  // namespace msda::kernels::cpu
