// The C ABI of interpolate on the CPU.
#include <vector>

#include "kernels/checked/interpolate.h"
#include "kernels/checked/scatter.h"
#include "kernels/guarded.h"
#include "kernels/parallel.h"

namespace msda::kernels {
namespace {

// The readers of each pixel along an axis, with their weights.
template <class Real>
struct Readers {
  struct Of {
    int32_t first, count;
    const Real* weights;
  };
  explicit Readers(const ResizeAxis& axis) {
    const Resize<Real> resize(axis);
    begin.push_back(0);
    for (int32_t pixel = 0; pixel < axis.in; ++pixel) {
      const auto found = resize.readers(pixel);
      first.push_back(found.first);
      for (int32_t i = found.first; i < found.end; ++i) weights.push_back(resize.weight(i, pixel));
      begin.push_back(weights.size());
    }
  }
  Of of(int64_t pixel) const {
    const auto i = static_cast<size_t>(pixel);
    return {first[i], static_cast<int32_t>(begin[i + 1] - begin[i]), weights.data() + begin[i]};
  }
  std::vector<int32_t> first;
  std::vector<size_t> begin;
  std::vector<Real> weights;
};

template <class In, class Real>
void interpolate_backward(const CheckedInterpolate& s, const msda_tensor& grad_output, const msda_tensor& grad_input,
                          int32_t threads) {
  const ContiguousInput<In> input(grad_output);
  ContiguousOutput<Real> result(grad_input);
  const Readers<Real> along[3] = {Readers<Real>(s.axes[0]), Readers<Real>(s.axes[1]), Readers<Real>(s.axes[2])};
  const int64_t width = s.axes[0].in, height = s.axes[1].in, depth = s.axes[2].in, tasks = s.planes * depth * height;
  parallel_for(tasks, thread_count(threads, tasks), [&](int64_t task, int) {
    const In* const plane = input.data() + task / (depth * height) * s.outputs();
    const auto z = along[2].of(task / height % depth), y = along[1].of(task % height);
    for (int64_t pixel = 0; pixel < width; ++pixel) {
      const auto x = along[0].of(pixel);
      const auto row = [&](int32_t k, int32_t j) {
        const In* const from = plane + (int64_t{z.first + k} * s.axes[1].out + y.first + j) * s.axes[0].out + x.first;
        return gather_sum<Real>(
            x.count, [&](int32_t i) { return x.weights[i]; }, [&](int32_t i) { return static_cast<Real>(from[i]); });
      };
      const auto slice = [&](int32_t k) {
        return gather_sum<Real>(
            y.count, [&](int32_t j) { return y.weights[j]; }, [&](int32_t j) { return row(k, j); });
      };
      result.data()[task * width + pixel] = Real(0) + gather_sum<Real>(
                                                          z.count, [&](int32_t k) { return z.weights[k]; }, slice);
    }
  });
  result.store();
}

}  // namespace
}  // namespace msda::kernels

using namespace msda::kernels;

msda_status msda_interpolate_backward(const msda_interpolate_call* call, const msda_options* options,
                                      const msda_tensor* grad_input) {
  return guarded([&] {
    if (call == nullptr || grad_input == nullptr) throw InvalidArgument("call or grad_input is a null pointer");
    const msda_options chosen = plain_options("interpolate", options);
    const CheckedInterpolate checked = check_interpolate(*call, *grad_input);
    const auto run = [&](auto backward) { backward(checked, call->grad_output, *grad_input, chosen.threads); };
    if (checked.float64_inputs) return run(interpolate_backward<double, double>);
    if (chosen.mode == MSDA_MODE_FLOAT64) return run(interpolate_backward<float, double>);
    run(interpolate_backward<float, float>);
  });
}
