// The C ABI of separable maps for a GPU.
#include <cuda_runtime_api.h>

#include <algorithm>

#include "kernels/checked/scatter.h"
#include "kernels/cuda/separable/operator.h"
#include "kernels/guarded.h"

namespace msda::kernels::cuda {
namespace {

// Returns [N,C,(z,y,)x] as [N,(z,y,)x,C].
msda_tensor with_channels_last(const msda_tensor& tensor) {
  msda_tensor moved = tensor;
  for (int64_t* sizes : {moved.shape, moved.stride}) std::rotate(sizes + 1, sizes + 2, sizes + moved.rank);
  return moved;
}

void enqueue_separable(const msda_separable_call& call, const msda_options* options, const msda_tensor& grad_input,
                       Work& work) {
  const msda_options chosen = plain_options("a separable map", options);
  const CheckedSeparable checked = check_separable(call, grad_input);
  need_device();
  const bool float64 = checked.float64_inputs || chosen.mode == MSDA_MODE_FLOAT64;
  const msda_dtype dtype = float64 ? MSDA_FLOAT64 : call.grad_output.dtype;
  // The result's layout, since it is the larger tensor where images are pooled.
  const bool channels_last =
      call.sides + 2 == grad_input.rank && !is_contiguous(grad_input) && is_contiguous(with_channels_last(grad_input));
  const auto laid = [&](const msda_tensor& tensor) { return channels_last ? with_channels_last(tensor) : tensor; };
  const msda_tensor from = laid(call.grad_output), to = laid(grad_input);
  const int64_t inner = channels_last ? grad_input.shape[1] : 1;
  Input input(from, dtype);
  with_memory({&input}, Output(&to, float64), work, [&](Result result) {
    if (checked.planes == 0) return;
    separable_backward(checked, {checked.planes / inner, inner}, input, dtype, result, work);
  });
}

}  // namespace
}  // namespace msda::kernels::cuda

using namespace msda::kernels;  // NOLINT: the function below is C

msda_status msda_cuda_separable_backward(const msda_separable_call* call, const msda_options* options,
                                         const msda_tensor* grad_input, void* stream) {
  return cuda::enqueued(stream, [&](cuda::Work& work) {
    if (call == nullptr || grad_input == nullptr) throw InvalidArgument("call or grad_input is a null pointer");
    cuda::enqueue_separable(*call, options, *grad_input, work);
  });
}
