// The C ABI of deform_conv2d for a GPU.
#include <limits>

#include "kernels/checked/scatter.h"
#include "kernels/cuda/deform_conv2d/operator.h"
#include "kernels/names.h"

namespace msda::kernels::cuda {
namespace {

void enqueue_deform(const msda_deform_conv2d_call* call, const msda_options* options, const DeformResults& results,
                    Work& work) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max(), kSamplesOfBlock = 32;
  const msda_options chosen = plain_options("deform_conv2d", options);
  const CheckedDeform checked = check_deform(call, results);
  const int64_t tasks = checked.N * checked.groups;
  if (tasks > 0 && checked.samples() / kSamplesOfBlock + 1 > kMost / tasks) {
    throw Unavailable("the call is larger than the GPU's kernels can count; the CPU's can");
  }
  need_device();
  const bool float64 = checked.dtype == MSDA_FLOAT64 || chosen.mode == MSDA_MODE_FLOAT64;
  const msda_dtype real = float64 ? MSDA_FLOAT64 : MSDA_FLOAT32;
  const auto bytes = static_cast<size_t>(bytes_of(real));
  void *grid = nullptr, *masked = nullptr;
  Workspace workspace(work);
  workspace.want(grid, tasks * checked.samples() * 2, bytes);
  if (checked.has_mask) workspace.want(masked, checked.N * checked.C * checked.samples(), bytes);
  workspace.take();
  if (tasks > 0 && checked.samples() > 0) deform_samples(checked, *call, results, float64, grid, masked, work);
  const DeformScatter scatter =
      scatter_of(checked, *call, *results.grad_input, grid, float64,
                 checked.has_mask ? masked : call->grad_columns.data, checked.has_mask ? real : checked.dtype);
  check_scattered(msda_cuda_grid_sample_backward(&scatter.call, &scatter.grad_output, &chosen, &scatter.grad_input,
                                                 nullptr, work.stream()));
}

}  // namespace
}  // namespace msda::kernels::cuda

using namespace msda::kernels;  // NOLINT: the function below is C

msda_status msda_cuda_deform_conv2d_backward(const msda_deform_conv2d_call* call, const msda_options* options,
                                             const msda_tensor* grad_input, const msda_tensor* grad_offset,
                                             const msda_tensor* grad_mask, const msda_tensor* columns, void* stream) {
  return cuda::enqueued(stream, [&](cuda::Work& work) {
    cuda::enqueue_deform(call, options, {grad_input, grad_offset, grad_mask, columns}, work);
  });
}
