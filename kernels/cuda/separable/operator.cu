#include <algorithm>
#include <limits>

#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/separable/gather.cuh"
#include "kernels/cuda/separable/operator.h"

namespace msda::kernels::cuda {
namespace {

constexpr int64_t kMostThreads = std::numeric_limits<int32_t>::max();  // that Division takes

template <class Stored, class Real>
using Kernel = void (*)(SeparableCall<Stored, Real>);

// Finds the threads of kernels that sum up `vector` elements side by side in `outers` outers at a time.
template <class Stored, class Real>
void divide(SeparableCall<Stored, Real>& p, int64_t vector, int64_t outers, Work& work) {
  const int64_t groups = p.inner / vector, threads = p.inputs / p.inner * groups;
  if (threads > kMostThreads) {
    throw Unavailable("grad_input is larger than the GPU's kernels can count; the CPU's can");
  }
  // Threads that fill the GPU a few times; each finds its readers once for all outers that are left to it.
  const int64_t filling = int64_t{work.target().device().processors} * 2048;
  const int64_t lanes = std::min((filling + threads - 1) / threads, (p.outers + outers - 1) / outers);
  p.lanes = std::clamp<int64_t>(lanes, 1, kMostThreads / threads);
  p.input_step = p.lanes * p.inputs;
  p.output_step = p.lanes * p.outputs;
  p.threads = static_cast<uint32_t>(threads * p.lanes);
  p.groups = Division(groups);
  for (int axis = 0; axis < 3; ++axis) p.sides[axis] = Division(p.axes[axis].in);
}

template <class Stored, class Real>
void add(const char* name, Kernel<Stored, Real> kernel, const SeparableCall<Stored, Real>& p, Work& work) {
  launch(name, kernel, (p.threads + kSeparableThreads - 1) / kSeparableThreads, kSeparableThreads, 0, work, p);
}

template <int kVector, int kOuters, class Stored, class Real>
void add_runs(SeparableCall<Stored, Real> p, bool has_corners, Work& work) {
  divide(p, kVector, kOuters, work);
  add("separable_kernel", separable_kernel<Stored, Real, kVector, kOuters>, p, work);
  if (has_corners) add("separable_corners_kernel", separable_corners_kernel<Stored, Real, kVector, kOuters>, p, work);
}

template <class Stored, class Real>
void run(const CheckedSeparable& checked, SeparableLayout layout, const Input& grad_output, Result grad_input,
         Work& work) {
  SeparableCall<Stored, Real> p{};
  p.grad_output = grad_output.data<Stored>();
  p.grad_input = grad_input;
  p.outers = layout.outers;
  p.inner = layout.inner;
  p.inputs = checked.inputs() * layout.inner;
  p.outputs = checked.outputs() * layout.inner;
  for (int axis = 0; axis < 3; ++axis) p.axes[axis] = SeparableAxis<Real, Quotient>(checked.axes[axis]);
  int64_t most = 1, product = 1;  // readers of an element, along an axis and, where that is a run at most, together
  for (const SeparableSizes& axis : checked.axes) {
    most = std::max(most, axis.most_readers());
    product *= std::min<int64_t>(axis.most_readers(), kRun);
  }
  if (most > kRun) {
    divide(p, 1, 1, work);
    return add("separable_crowds_kernel", separable_crowds_kernel<Stored, Real>, p, work);
  }
  const auto is_aligned = [](const void* data, int64_t bytes) {
    return reinterpret_cast<uintptr_t>(data) % bytes == 0;
  };
  const bool by_fours = p.inner % 4 == 0 && is_aligned(p.grad_output, 4 * sizeof(Stored)) &&
                        is_aligned(grad_input.data, 4 * bytes_of(grad_input.dtype));
  if (by_fours) return add_runs<4, 2>(p, product > kMostAlone, work);
  add_runs<1, 8>(p, product > kMostAlone, work);
}

}  // namespace

void separable_backward(const CheckedSeparable& checked, SeparableLayout layout, const Input& grad_output,
                        msda_dtype dtype, Result grad_input, Work& work) {
  if (dtype == MSDA_FLOAT64) return run<double, double>(checked, layout, grad_output, grad_input, work);
  if (dtype == MSDA_FLOAT16) return run<__half, float>(checked, layout, grad_output, grad_input, work);
  if (dtype == MSDA_BFLOAT16) return run<__nv_bfloat16, float>(checked, layout, grad_output, grad_input, work);
  run<float, float>(checked, layout, grad_output, grad_input, work);
}

}  // namespace msda::kernels::cuda
