// The C ABI of deform_conv2d on the CPU.
#include <optional>
#include <vector>

#include "kernels/checked/deform_conv2d.h"
#include "kernels/checked/scatter.h"
#include "kernels/guarded.h"
#include "kernels/parallel.h"

namespace msda::kernels {
namespace {

template <class In, class Real>
class DeformRun {
 public:
  DeformRun(const CheckedDeform& s, const msda_deform_conv2d_call& call, const DeformResults& results)
      : s_(s),
        input_(call.input),
        offset_(call.offset),
        grad_columns_(call.grad_columns),
        grad_offset_(*results.grad_offset),
        columns_(*results.columns),
        masked_(static_cast<size_t>(s.N * s.C * s.samples())),
        grid_(static_cast<size_t>(s.N * s.groups * s.samples() * 2)) {
    if (!s.has_mask) return;
    mask_.emplace(call.mask);
    grad_mask_.emplace(*results.grad_mask);
  }

  void run(int32_t threads) {
    const int64_t tasks = s_.N * s_.groups;
    parallel_for(tasks, thread_count(threads, tasks), [&](int64_t task, int) {
      for (int64_t i = 0; i < s_.samples(); ++i) compute(task, i);
    });
    grad_offset_.store();
    columns_.store();
    if (grad_mask_) grad_mask_->store();
  }
  Real* grid() { return grid_.data(); }
  const Real* masked() const { return masked_.data(); }

 private:
  // `task`: an image and group.
  void compute(int64_t task, int64_t i) {
    const int64_t pair = task * s_.taps() * 2 * s_.places() + i / s_.places() * 2 * s_.places() + i % s_.places();
    const DeformSample<Real> sample(s_, i, static_cast<Real>(offset_.data()[pair]),
                                    static_cast<Real>(offset_.data()[pair + s_.places()]));
    const int64_t number = task * s_.samples() + i;
    const Real mask = mask_ ? static_cast<Real>(mask_->data()[number]) : Real(1);
    grid_[static_cast<size_t>(2 * number)] = sample.at[1];
    grid_[static_cast<size_t>(2 * number + 1)] = sample.at[0];
    ChannelSums<kLanes, Real> sums;
    for (int64_t c = 0; c < s_.channels(); ++c) {
      const In* const image = input_.data() + (task * s_.channels() + c) * s_.pixels();
      Real values[4];
      for (int k = 0; k < 4; ++k)
        values[k] = sample.corner[k] < 0 ? Real(0) : static_cast<Real>(image[sample.corner[k]]);
      const int64_t at = (task * s_.channels() + c) * s_.samples() + i;
      const Real gradient = static_cast<Real>(grad_columns_.data()[at]);
      sums.add(static_cast<int>(c % kLanes), gradient, sample.weights, sample.fraction[0], sample.fraction[1],
               values[0], values[1], values[2], values[3]);
      columns_.data()[at] = mask * interpolate(sample.weights, values[0], values[1], values[2], values[3]);
      masked_[static_cast<size_t>(at)] = mask * gradient;
    }
    grad_offset_.data()[pair] = sum_lanes(sums.y) * mask;
    grad_offset_.data()[pair + s_.places()] = sum_lanes(sums.x) * mask;
    if (grad_mask_) grad_mask_->data()[number] = sum_lanes(sums.attention);
  }

  const CheckedDeform& s_;
  const ContiguousInput<In> input_, offset_, grad_columns_;
  std::optional<ContiguousInput<In>> mask_;
  ContiguousOutput<Real> grad_offset_, columns_;
  std::optional<ContiguousOutput<Real>> grad_mask_;
  std::vector<Real> masked_, grid_;
};

template <class In, class Real>
void deform_backward(const CheckedDeform& s, const msda_deform_conv2d_call& call, const DeformResults& results,
                     const msda_options& options) {
  DeformRun<In, Real> run(s, call, results);
  run.run(options.threads);
  const bool float64 = sizeof(Real) == 8;
  const DeformScatter scatter = scatter_of(s, call, *results.grad_input, run.grid(), float64, run.masked(),
                                           float64 ? MSDA_FLOAT64 : MSDA_FLOAT32);
  check_scattered(
      msda_grid_sample_backward(&scatter.call, &scatter.grad_output, &options, &scatter.grad_input, nullptr));
}

}  // namespace
}  // namespace msda::kernels

using namespace msda::kernels;

msda_status msda_deform_conv2d_backward(const msda_deform_conv2d_call* call, const msda_options* options,
                                        const msda_tensor* grad_input, const msda_tensor* grad_offset,
                                        const msda_tensor* grad_mask, const msda_tensor* columns) {
  return guarded([&] {
    const DeformResults results{grad_input, grad_offset, grad_mask, columns};
    const msda_options chosen = plain_options("deform_conv2d", options);
    const CheckedDeform checked = check_deform(call, results);
    const auto run = [&](auto backward) { backward(checked, *call, results, chosen); };
    if (checked.dtype == MSDA_FLOAT64) return run(deform_backward<double, double>);
    if (chosen.mode == MSDA_MODE_FLOAT64) return run(deform_backward<float, double>);
    run(deform_backward<float, float>);
  });
}
