// The C ABI of roi_pool for a GPU.
#include <limits>

#include "kernels/checked/scatter.h"
#include "kernels/cuda/roi_pool/operator.h"

namespace msda::kernels::cuda {
namespace {

// Refuses calls that the kernels' 32-bit numbers cannot count.
void check_roi_pool_on_gpu(const CheckedRoiPool& checked) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max(), kMostBins = 1 << 25;  // of 32 boxes
  if (checked.K > kMost || checked.pixels() > kMost || checked.bins_of_box() > kMostBins ||
      (checked.C > 0 && checked.N > kMost / checked.C / checked.pixels())) {
    throw Unavailable("the call is larger than the GPU's kernels can count; the CPU's can");
  }
}

void enqueue_roi_pool(const msda_roi_pool_call& call, const msda_options* options, const msda_tensor& grad_input,
                      Work& work) {
  const msda_options chosen = plain_options("roi_pool", options);
  const CheckedRoiPool checked = check_roi_pool(call, grad_input);
  check_roi_pool_on_gpu(checked);
  need_device();
  const bool float64 = checked.float64_inputs || chosen.mode == MSDA_MODE_FLOAT64;
  const msda_dtype dtype = common_dtype({&call.boxes, &call.grad_output}, checked.float64_inputs, float64);
  Input boxes(call.boxes, dtype), grad_output(call.grad_output, dtype);
  with_memory({&boxes, &grad_output}, Output(&grad_input, float64), work, [&](Result result) {
    roi_pool_backward(checked, boxes, grad_output, static_cast<const int32_t*>(call.indices.data), dtype, float64,
                      result, work);
  });
}

}  // namespace
}  // namespace msda::kernels::cuda

using namespace msda::kernels;  // NOLINT: the function below is C

msda_status msda_cuda_roi_pool_backward(const msda_roi_pool_call* call, const msda_options* options,
                                        const msda_tensor* grad_input, void* stream) {
  return cuda::enqueued(stream, [&](cuda::Work& work) {
    if (call == nullptr || grad_input == nullptr) throw InvalidArgument("call or grad_input is a null pointer");
    cuda::enqueue_roi_pool(*call, options, *grad_input, work);
  });
}
