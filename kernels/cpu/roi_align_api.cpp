// The C ABI of ROIAlign on the CPU.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "kernels/checked/roi_align.h"
#include "kernels/checked/scatter.h"
#include "kernels/guarded.h"
#include "kernels/parallel.h"

namespace msda::kernels {
namespace {

// The pixels along one axis that a box reads, and the bins that read each of them.
template <class Real>
struct BoxSide {
  int32_t first = 0, end = 0;  // pixels
  std::vector<RoiReaders<Real>> bins;
  std::vector<Real> weights;  // [pixels, bins]

  BoxSide(const RoiSizes& s, int axis, Real low, Real high) {
    const RoiAxis<Real> box(s, axis, low, high);
    std::vector<Real> some(static_cast<size_t>(s.bins[axis]));
    for (int32_t pixel = 0; pixel < s.sides[axis]; ++pixel) {
      if (!box.may_reach(s.bins[axis], pixel, pixel)) continue;
      if (bins.empty()) first = pixel;
      end = pixel + 1;
      bins.emplace_back(box, s.bins[axis], pixel, some.data(), 1);
      weights.insert(weights.end(), some.begin(), some.end());
    }
  }
};

template <class Real>
struct Box {
  int64_t image;
  BoxSide<Real> x, y;
};

template <class In>
void check_images(const RoiSizes& s, const In* boxes) {
  for (int64_t i = 0; i < s.K; ++i) {
    const In image = boxes[i * 5];
    if (image >= 0 && image < static_cast<In>(s.N)) continue;
    throw InvalidArgument(fmt::format("boxes: number {} is of image {}; there are {}", i, image, s.N));
  }
}

template <class In, class Real>
Box<Real> box_of(const RoiSizes& s, const In* box) {
  return {static_cast<int64_t>(box[0]), {s, 0, Real(box[1]), Real(box[3])}, {s, 1, Real(box[2]), Real(box[4])}};
}

// Adds a box's share of one channel to `sums`, of the pixels of its image.
template <class In, class Real>
void add_box(const RoiSizes& s, const Box<Real>& box, const In* grad_output, Real* sums) {
  for (int32_t row = box.y.first; row < box.y.end; ++row) {
    const auto j = static_cast<size_t>(row - box.y.first);
    const RoiReaders<Real>& down = box.y.bins[j];
    const Real* const of_row = box.y.weights.data() + j * static_cast<size_t>(s.bins[1]);
    for (int32_t column = box.x.first; down.first < down.end && column < box.x.end; ++column) {
      const auto i = static_cast<size_t>(column - box.x.first);
      const RoiReaders<Real>& across = box.x.bins[i];
      if (across.first >= across.end) continue;
      const Real* const of_column = box.x.weights.data() + i * static_cast<size_t>(s.bins[0]);
      const auto of_bins = [&](int32_t k) {
        const In* const bins = grad_output + (down.first + k) * s.bins[0] + across.first;
        return gather_sum<Real>(
            across.end - across.first, [&](int32_t l) { return of_column[across.first + l]; },
            [&](int32_t l) { return static_cast<Real>(bins[l]); });
      };
      Real& sum = sums[int64_t{row} * s.sides[0] + column];
      sum = sum + gather_sum<Real>(
                      down.end - down.first, [&](int32_t k) { return of_row[down.first + k]; }, of_bins);
    }
  }
}

// One channel of a run of boxes.
template <class In, class Real>
void add_run(const RoiSizes& s, const std::vector<Box<Real>>& boxes, const In* grad_output, int64_t channel,
             std::vector<Real>& run, Real* result) {
  std::vector<bool> done(boxes.size());
  for (size_t first = 0; first < boxes.size(); ++first) {
    if (done[first]) continue;
    run.assign(static_cast<size_t>(s.pixels()), Real(0));
    for (size_t i = first; i < boxes.size(); ++i) {
      if (boxes[i].image != boxes[first].image) continue;
      done[i] = true;
      add_box(s, boxes[i], grad_output + (static_cast<int64_t>(i) * s.C + channel) * s.bins_of_box(), run.data());
    }
    Real* const plane = result + (boxes[first].image * s.C + channel) * s.pixels();
    for (int64_t i = 0; i < s.pixels(); ++i) plane[i] = plane[i] + run[static_cast<size_t>(i)];
  }
}

template <class In, class Real>
void roi_align_backward(const CheckedRoiAlign& s, const msda_roi_align_call& call, const msda_tensor& grad_input,
                        int32_t threads) {
  const ContiguousInput<In> boxes(call.boxes), grad_output(call.grad_output);
  std::vector<Box<Real>> run;
  check_images(s, boxes.data());
  ContiguousOutput<Real> result(grad_input);
  std::fill_n(result.data(), s.N * s.C * s.pixels(), Real(0));
  for (int64_t first = 0; first < s.K; first += kBoxRun) {
    run.clear();
    for (int64_t i = first; i < std::min(s.K, first + kBoxRun); ++i) {
      run.push_back(box_of<In, Real>(s, boxes.data() + i * 5));
    }
    parallel_for(s.C, thread_count(threads, s.C), [&](int64_t channel, int) {
      std::vector<Real> memory;
      add_run(s, run, grad_output.data() + first * s.C * s.bins_of_box(), channel, memory, result.data());
    });
  }
  result.store();
}

}  // namespace
}  // namespace msda::kernels

using namespace msda::kernels;

msda_status msda_roi_align_backward(const msda_roi_align_call* call, const msda_options* options,
                                    const msda_tensor* grad_input) {
  return guarded([&] {
    if (call == nullptr || grad_input == nullptr) throw InvalidArgument("call or grad_input is a null pointer");
    const msda_options chosen = plain_options("roi_align", options);
    const CheckedRoiAlign checked = check_roi_align(*call, *grad_input);
    const auto run = [&](auto backward) { backward(checked, *call, *grad_input, chosen.threads); };
    if (checked.float64_inputs) return run(roi_align_backward<double, double>);
    if (chosen.mode == MSDA_MODE_FLOAT64) return run(roi_align_backward<float, double>);
    run(roi_align_backward<float, float>);
  });
}
