// The C ABI of roi_pool on the CPU.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "kernels/checked/roi_pool.h"
#include "kernels/checked/scatter.h"
#include "kernels/guarded.h"
#include "kernels/parallel.h"

namespace msda::kernels {
namespace {

constexpr int64_t kBoxesAtOnce = 1024;  // so that what they read takes little memory

template <class Real>
using Taps = std::vector<RoiTap<Real>>;

template <class In, class Real>
class RoiPoolRun {
 public:
  RoiPoolRun(const CheckedRoiPool& s, const msda_roi_pool_call& call, int32_t threads)
      : s_(s),
        boxes_(call.boxes),
        grad_output_(call.grad_output),
        indices_(static_cast<const int32_t*>(call.indices.data)),
        threads_(threads) {
    for (int64_t i = 0; i < s.K; ++i) {
      const In image = boxes_.data()[i * 5];
      if (image >= 0 && image < static_cast<In>(s.N)) continue;
      throw InvalidArgument(fmt::format("boxes: number {} is of image {}; there are {}", i, image, s.N));
    }
    const int64_t bins = s.pooling == MSDA_ROI_MAX ? s.K * s.C * s.bins_of_box() : 0;
    for (int64_t i = 0; i < bins; ++i) {
      if (indices_[i] >= -1 && indices_[i] < s.pixels()) continue;
      throw InvalidArgument(
          fmt::format("indices: number {} is {}; an image has {} pixels", i, indices_[i], s.pixels()));
    }
  }

  // Adds to `sums`, [N,C,H,W].
  void add(Real* sums) {
    for (int64_t first = 0; first < s_.K; first += kBoxesAtOnce) {
      const int64_t end = std::min(s_.K, first + kBoxesAtOnce);
      if (s_.pooling != MSDA_ROI_MAX) find_taps(first, end);
      parallel_for(s_.C, thread_count(threads_, s_.C), [&](int64_t channel, int) {
        for (int64_t box = first; box < end; ++box) {
          const auto image = static_cast<int64_t>(boxes_.data()[box * 5]);
          Real* const plane = sums + (image * s_.C + channel) * s_.pixels();
          if (s_.pooling == MSDA_ROI_MAX) {
            add_maxima(box * s_.C + channel, plane);
          } else {
            add_bin(box - first, channel, static_cast<Real>(grad_output_.data()[box * s_.C + channel]), plane);
          }
        }
      });
    }
  }

 private:
  void find_taps(int64_t first, int64_t end) {
    for (int axis = 0; axis < 2; ++axis) {
      const auto at = static_cast<size_t>(axis), bins = static_cast<size_t>(s_.bins[axis]);
      taps_[at].assign(static_cast<size_t>(end - first) * bins, {});
      for (size_t i = 0; i < taps_[at].size(); ++i) {
        const In* const edges = boxes_.data() + (first + static_cast<int64_t>(i / bins)) * 5 + 1 + axis;
        const PsRoiBin<Real> bin(s_, axis, static_cast<Real>(edges[0]), static_cast<Real>(edges[2]),
                                 static_cast<int32_t>(i % bins));
        for (int32_t pixel = bin.range().first; pixel < bin.range().end; ++pixel) {
          const Real weight = bin.weight(pixel);
          if (weight != Real(0)) taps_[at][i].push_back({weight, pixel});
        }
      }
    }
  }
  const Taps<Real>& taps(int64_t box, int64_t channel, int axis) const {
    return taps_[static_cast<size_t>(axis)][static_cast<size_t>(box * s_.bins[axis] + s_.bin_of(channel, axis))];
  }
  void add_bin(int64_t box, int64_t channel, Real gradient, Real* plane) const {
    const Taps<Real>&across = taps(box, channel, 0), &down = taps(box, channel, 1);
    const Real share =
        share_of_bin(s_, gradient, static_cast<int64_t>(down.size()), static_cast<int64_t>(across.size()));
    for (const RoiTap<Real>& y : down) {
      for (const RoiTap<Real>& x : across) {
        Real& sum = plane[int64_t{y.pixel} * s_.sides[0] + x.pixel];
        sum = sum + addend_of(y, x, share);
      }
    }
  }
  void add_maxima(int64_t row, Real* plane) const {
    for (int64_t i = row * s_.bins_of_box(); i < (row + 1) * s_.bins_of_box(); ++i) {
      if (indices_[i] >= 0) plane[indices_[i]] = plane[indices_[i]] + static_cast<Real>(grad_output_.data()[i]);
    }
  }

  const CheckedRoiPool& s_;
  const ContiguousInput<In> boxes_, grad_output_;
  const int32_t* indices_;
  int32_t threads_;
  std::array<std::vector<Taps<Real>>, 2> taps_;  // x, y: of each box, of each bin
};

template <class In, class Real>
void roi_pool_backward(const CheckedRoiPool& s, const msda_roi_pool_call& call, const msda_tensor& grad_input,
                       int32_t threads) {
  RoiPoolRun<In, Real> run(s, call, threads);
  ContiguousOutput<Real> result(grad_input);
  std::fill_n(result.data(), s.N * s.C * s.pixels(), Real(0));
  run.add(result.data());
  result.store();
}

}  // namespace
}  // namespace msda::kernels

using namespace msda::kernels;

msda_status msda_roi_pool_backward(const msda_roi_pool_call* call, const msda_options* options,
                                   const msda_tensor* grad_input) {
  return guarded([&] {
    if (call == nullptr || grad_input == nullptr) throw InvalidArgument("call or grad_input is a null pointer");
    const msda_options chosen = plain_options("roi_pool", options);
    const CheckedRoiPool checked = check_roi_pool(*call, *grad_input);
    const auto run = [&](auto backward) { backward(checked, *call, *grad_input, chosen.threads); };
    if (checked.float64_inputs) return run(roi_pool_backward<double, double>);
    if (chosen.mode == MSDA_MODE_FLOAT64) return run(roi_pool_backward<float, double>);
    run(roi_pool_backward<float, float>);
  });
}
