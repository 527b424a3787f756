// The C ABI of interpolate for a GPU.
#include <cuda_runtime_api.h>

#include <limits>

#include "kernels/checked/scatter.h"
#include "kernels/cuda/interpolate/operator.h"
#include "kernels/guarded.h"

namespace msda::kernels::cuda {
namespace {

void enqueue_interpolate(const msda_interpolate_call& call, const msda_options* options, const msda_tensor& grad_input,
                         Work& work) {
  const msda_options chosen = plain_options("interpolate", options);
  const CheckedInterpolate checked = check_interpolate(call, grad_input);
  if (checked.pixels() > std::numeric_limits<int32_t>::max()) {  // of blocks, at most one to a pixel
    throw Unavailable("the image is larger than the GPU's kernels can count; the CPU's can");
  }
  need_device();
  const bool float64 = checked.float64_inputs || chosen.mode == MSDA_MODE_FLOAT64;
  const msda_dtype dtype = common_dtype({&call.grad_output}, checked.float64_inputs, float64);
  Input grad_output(call.grad_output, dtype);
  with_memory({&grad_output}, Output(&grad_input, float64), work,
              [&](Result result) { interpolate_backward(checked, grad_output, dtype, float64, result, work); });
}

}  // namespace
}  // namespace msda::kernels::cuda

using namespace msda::kernels;  // NOLINT: the function below is C

msda_status msda_cuda_interpolate_backward(const msda_interpolate_call* call, const msda_options* options,
                                           const msda_tensor* grad_input, void* stream) {
  return cuda::enqueued(stream, [&](cuda::Work& work) {
    if (call == nullptr || grad_input == nullptr) throw InvalidArgument("call or grad_input is a null pointer");
    cuda::enqueue_interpolate(*call, options, *grad_input, work);
  });
}
