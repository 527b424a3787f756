// The C ABI of separable maps on the CPU.
#include <vector>

#include "kernels/checked/scatter.h"
#include "kernels/checked/separable.h"
#include "kernels/gather_sum.h"
#include "kernels/guarded.h"
#include "kernels/parallel.h"

namespace msda::kernels {
namespace {

class Quotient {
 public:
  Quotient() = default;
  explicit Quotient(int64_t by) : by_(by) {}
  int32_t operator()(int64_t n) const { return static_cast<int32_t>(n / by_); }

 private:
  int64_t by_ = 1;
};

template <class Real>
struct Term {
  int32_t output;
  Real weight;
};

// The terms of every input's sum along an axis.
template <class Real>
class Terms {
 public:
  explicit Terms(const SeparableSizes& sizes) {
    const SeparableAxis<Real, Quotient> axis(sizes);
    begin_.push_back(0);
    for (int32_t input = 0; input < sizes.in; ++input) {
      const SeparableReaders readers = axis.readers(input);
      for (int32_t i = 0; i < readers.count; ++i) {
        const int32_t output = readers.output(i);
        terms_.push_back({output, axis.weight(output)});
      }
      begin_.push_back(terms_.size());
    }
  }
  std::span<const Term<Real>> of(int64_t input) const {
    const auto i = static_cast<size_t>(input);
    return {terms_.data() + begin_[i], terms_.data() + begin_[i + 1]};
  }

 private:
  std::vector<size_t> begin_;
  std::vector<Term<Real>> terms_;
};

// Returns the sum of weight times value(output) over the terms.
template <class Real, class Value>
Real sum_of(std::span<const Term<Real>> terms, Value&& value) {
  const auto term = [&](int32_t i) -> const Term<Real>& { return terms[static_cast<size_t>(i)]; };
  return gather_sum<Real>(
      static_cast<int32_t>(terms.size()), [&](int32_t i) { return term(i).weight; },
      [&](int32_t i) { return value(term(i).output); });
}

template <class In, class Real>
void separable_backward(const CheckedSeparable& s, const msda_tensor& grad_output, const msda_tensor& grad_input,
                        int32_t threads) {
  const ContiguousInput<In> input(grad_output);
  ContiguousOutput<Real> result(grad_input);
  const Terms<Real> along[3] = {Terms<Real>(s.axes[0]), Terms<Real>(s.axes[1]), Terms<Real>(s.axes[2])};
  const int64_t width = s.axes[0].in, height = s.axes[1].in, depth = s.axes[2].in, tasks = s.planes * depth * height;
  parallel_for(tasks, thread_count(threads, tasks), [&](int64_t task, int) {
    const In* const plane = input.data() + task / (depth * height) * s.outputs();
    const auto of_z = along[2].of(task / height % depth), of_y = along[1].of(task % height);
    for (int64_t x = 0; x < width; ++x) {
      const auto of_x = along[0].of(x);
      const Real sum = sum_of(of_z, [&](int64_t k) {
        return sum_of(of_y, [&](int64_t j) {
          const In* const row = plane + (k * s.axes[1].out + j) * s.axes[0].out;
          return sum_of(of_x, [&](int64_t i) { return static_cast<Real>(row[i]); });
        });
      });
      result.data()[task * width + x] = Real(0) + sum;
    }
  });
  result.store();
}

}  // namespace
}  // namespace msda::kernels

using namespace msda::kernels;

msda_status msda_separable_backward(const msda_separable_call* call, const msda_options* options,
                                    const msda_tensor* grad_input) {
  return guarded([&] {
    if (call == nullptr || grad_input == nullptr) throw InvalidArgument("call or grad_input is a null pointer");
    const msda_options chosen = plain_options("a separable map", options);
    const CheckedSeparable checked = check_separable(*call, *grad_input);
    const auto run = [&](auto backward) { backward(checked, call->grad_output, *grad_input, chosen.threads); };
    if (checked.float64_inputs) return run(separable_backward<double, double>);
    if (chosen.mode == MSDA_MODE_FLOAT64) return run(separable_backward<float, double>);
    run(separable_backward<float, float>);
  });
}
