// The backward pass of ctc_loss on a GPU, of a checked call.
#pragma once

#include "kernels/checked/ctc_loss.h"
#include "kernels/cuda/common/call.h"

namespace msda::kernels::cuda {

inline constexpr int32_t kMostCtcLabels = 8191;  // of a target

// The tensors of the call, but `lengths`, are in the GPU's memory. Throws CudaError or std::bad_alloc.
void ctc_loss_backward(const CheckedCtcLoss& checked, const msda_ctc_loss_call& call, const msda_tensor& grad_output,
                       bool float64, Result grad_log_probs, Work& work);

}  // namespace msda::kernels::cuda
