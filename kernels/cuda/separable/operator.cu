#include <algorithm>
#include <limits>

#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/separable/gather.cuh"
#include "kernels/cuda/separable/operator.h"

namespace msda::kernels::cuda {
namespace {

constexpr int64_t kMostThreads = std::numeric_limits<int32_t>::max();  // that Division takes

template <class Stored, class Real, int kVector, int kOuters>
void run(SeparableCall<Stored, Real> p, Work& work) {
  const int64_t groups = p.inner / kVector, threads = p.inputs / p.inner * groups;
  if (threads > kMostThreads) {
    throw Unavailable("grad_input is larger than the GPU's kernels can count; the CPU's can");
  }
  // Fewer lanes than outers where these fill the GPU several times over: a thread then finds its readers once for more.
  const int64_t filled = int64_t{work.target().device().processors} * 2048 * 8;
  p.lanes = std::clamp<int64_t>(std::min((filled + threads - 1) / threads, (p.outers + kOuters - 1) / kOuters), 1,
                                kMostThreads / threads);
  p.threads = static_cast<uint32_t>(threads * p.lanes);
  p.groups = Division(groups);
  for (int axis = 0; axis < 3; ++axis) p.sides[axis] = Division(p.axes[axis].in);
  const uint32_t blocks = (p.threads + kSeparableThreads - 1) / kSeparableThreads;
  launch("separable_kernel", separable_kernel<Stored, Real, kVector, kOuters>, blocks, kSeparableThreads, 0, work, p);
}

template <class Stored, class Real>
void choose(const CheckedSeparable& checked, SeparableLayout layout, const Input& grad_output, Result grad_input,
            Work& work) {
  SeparableCall<Stored, Real> p{};
  p.grad_output = grad_output.data<Stored>();
  p.grad_input = grad_input;
  p.outers = layout.outers;
  p.inner = layout.inner;
  p.inputs = checked.inputs() * layout.inner;
  p.outputs = checked.outputs() * layout.inner;
  for (int axis = 0; axis < 3; ++axis) p.axes[axis] = SeparableAxis<Real, Quotient>(checked.axes[axis]);
  const auto is_aligned = [](const void* data, int64_t bytes) {
    return reinterpret_cast<uintptr_t>(data) % bytes == 0;
  };
  if (p.inner % 4 == 0 && is_aligned(p.grad_output, 4 * sizeof(Stored)) &&
      is_aligned(grad_input.data, 4 * bytes_of(grad_input.dtype))) {
    return run<Stored, Real, 4, 2>(p, work);
  }
  run<Stored, Real, 1, 8>(p, work);
}

}  // namespace

void separable_backward(const CheckedSeparable& checked, SeparableLayout layout, const Input& grad_output,
                        msda_dtype dtype, bool float64, Result grad_input, Work& work) {
  if (dtype == MSDA_FLOAT64) return choose<double, double>(checked, layout, grad_output, grad_input, work);
  if (float64) return choose<float, double>(checked, layout, grad_output, grad_input, work);
  if (dtype == MSDA_FLOAT16) return choose<__half, float>(checked, layout, grad_output, grad_input, work);
  if (dtype == MSDA_BFLOAT16) return choose<__nv_bfloat16, float>(checked, layout, grad_output, grad_input, work);
  choose<float, float>(checked, layout, grad_output, grad_input, work);
}

}  // namespace msda::kernels::cuda
