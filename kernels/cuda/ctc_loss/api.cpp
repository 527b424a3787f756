// The C ABI of ctc_loss for a GPU.
#include <limits>

#include "kernels/checked/scatter.h"
#include "kernels/cuda/ctc_loss/operator.h"

namespace msda::kernels::cuda {
namespace {

void enqueue_ctc_loss(const msda_ctc_loss_call& call, const msda_tensor& grad_output, const msda_options* options,
                      const msda_tensor& grad_log_probs, Work& work) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const msda_options chosen = plain_options("ctc_loss", options);
  const CheckedCtcLoss checked = check_ctc_loss(call, grad_output, grad_log_probs);
  if (checked.most_labels > kMostCtcLabels) {
    throw Unavailable("the GPU's kernels take targets of at most 8191 labels; the CPU's take longer ones");
  }
  if (checked.C > kMost || (checked.T > 0 && checked.B > kMost / checked.T)) {
    throw Unavailable("the call is larger than the GPU's kernels can count; the CPU's can");
  }
  need_device();
  const bool float64 = checked.float64_inputs || chosen.mode == MSDA_MODE_FLOAT64;
  with_memory({}, Output(&grad_log_probs, float64), work,
              [&](Result result) { ctc_loss_backward(checked, call, grad_output, float64, result, work); });
}

}  // namespace
}  // namespace msda::kernels::cuda

using namespace msda::kernels;  // NOLINT: the function below is C

msda_status msda_cuda_ctc_loss_backward(const msda_ctc_loss_call* call, const msda_tensor* grad_output,
                                        const msda_options* options, const msda_tensor* grad_log_probs, void* stream) {
  return cuda::enqueued(stream, [&](cuda::Work& work) {
    if (call == nullptr || grad_output == nullptr || grad_log_probs == nullptr) {
      throw InvalidArgument("call, grad_output or grad_log_probs is a null pointer");
    }
    cuda::enqueue_ctc_loss(*call, *grad_output, options, *grad_log_probs, work);
  });
}
