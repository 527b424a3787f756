#include <algorithm>
#include <limits>

#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/separable/gather.cuh"
#include "kernels/cuda/separable/operator.h"

namespace msda::kernels::cuda {
namespace {

constexpr int64_t kMostThreads = std::numeric_limits<int32_t>::max();  // that Division takes

// Adds a kernel whose threads sum up `vector` elements side by side in `outers` outers at a time.
template <class Stored, class Real>
void add(const char* name, void (*kernel)(SeparableCall<Stored, Real>), SeparableCall<Stored, Real> p, int64_t vector,
         int64_t outers, Work& work) {
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
  launch(name, kernel, (p.threads + kSeparableThreads - 1) / kSeparableThreads, kSeparableThreads, 0, work, p);
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
  const bool is_crowded =
      std::ranges::any_of(checked.axes, [](const SeparableSizes& axis) { return axis.most_readers() > kRun; });
  if (is_crowded) return add("separable_crowds_kernel", separable_crowds_kernel<Stored, Real>, p, 1, 1, work);
  const auto is_aligned = [](const void* data, int64_t bytes) {
    return reinterpret_cast<uintptr_t>(data) % bytes == 0;
  };
  if (p.inner % 4 == 0 && is_aligned(p.grad_output, 4 * sizeof(Stored)) &&
      is_aligned(grad_input.data, 4 * bytes_of(grad_input.dtype))) {
    return add("separable_kernel", separable_kernel<Stored, Real, 4, 2>, p, 4, 2, work);
  }
  add("separable_kernel", separable_kernel<Stored, Real, 1, 8>, p, 1, 8, work);
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
