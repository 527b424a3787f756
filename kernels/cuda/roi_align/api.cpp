// The C ABI of ROIAlign for a GPU.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <limits>

#include "kernels/checked/scatter.h"
#include "kernels/cuda/roi_align/operator.h"
#include "kernels/guarded.h"

namespace msda::kernels::cuda {
namespace {

// Refuses calls that the kernels' 32-bit numbers cannot count, or whose bins do not fit a block's memory.
void check_roi_align_on_gpu(const CheckedRoiAlign& checked) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max(), kMostGroups = 65535, kChannelsOfGroup = 4;
  if (std::max(checked.bins[0], checked.bins[1]) > kMostRoiBins) {
    throw Unavailable("the GPU's kernels have at most 32 bins along a side of a box; the CPU's have more");
  }
  if (checked.K > kMost || checked.C > kMostGroups * kChannelsOfGroup || checked.N > kMost / checked.pixels()) {
    throw Unavailable("the call is larger than the GPU's kernels can count; the CPU's can");
  }
}

void enqueue_roi_align(const msda_roi_align_call& call, const msda_options* options, const msda_tensor& grad_input,
                       Work& work) {
  const msda_options chosen = plain_options("roi_align", options);
  const CheckedRoiAlign checked = check_roi_align(call, grad_input);
  check_roi_align_on_gpu(checked);
  need_device();
  const bool float64 = checked.float64_inputs || chosen.mode == MSDA_MODE_FLOAT64;
  const msda_dtype dtype = common_dtype({&call.boxes, &call.grad_output}, checked.float64_inputs, float64);
  Input boxes(call.boxes, dtype), grad_output(call.grad_output, dtype);
  with_memory({&boxes, &grad_output}, Output(&grad_input, float64), work,
              [&](Result result) { roi_align_backward(checked, boxes, grad_output, dtype, float64, result, work); });
}

}  // namespace
}  // namespace msda::kernels::cuda

using namespace msda::kernels;  // NOLINT: the function below is C

msda_status msda_cuda_roi_align_backward(const msda_roi_align_call* call, const msda_options* options,
                                         const msda_tensor* grad_input, void* stream) {
  return cuda::enqueued(stream, [&](cuda::Work& work) {
    if (call == nullptr || grad_input == nullptr) throw InvalidArgument("call or grad_input is a null pointer");
    cuda::enqueue_roi_align(*call, options, *grad_input, work);
  });
}
