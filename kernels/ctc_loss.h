/* The backward pass of PyTorch's ctc_loss, in libmsda. Arithmetic, errors and options are those of msda.h; the modes
 * are deterministic and float64.
 *
 * Shapes. T time steps, B sequences, C labels, S the longest target.
 *
 *     log_probs, grad_log_probs          [T,B,C]
 *     targets                            [B,S], or one after the other, [sum of their lengths]; int32 or int64
 *     lengths                            [2,B], int64, on the host: how many steps a sequence has, how many labels its
 *                                        target
 *     neg_log_likelihood, grad_output    [B]
 *     log_alpha                          [B,T,2*S+1], contiguous, as the forward pass of PyTorch returns it
 *
 * docs/determinism.md gives every operation and its order.
 */
#pragma once

#include "kernels/msda.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct msda_ctc_loss_call {
  int64_t blank;         /* the label between the target's */
  int32_t zero_infinity; /* 1: sequences whose loss is infinite have a gradient of 0, not of NaN */
  msda_tensor log_probs;
  msda_tensor targets;
  msda_tensor lengths;
  msda_tensor neg_log_likelihood;
  msda_tensor log_alpha;
} msda_ctc_loss_call;

/* grad_log_probs, overwritten whole. `options` may be null. The floating-point tensors but it are float32 or float64,
 * all of one type. A label outside log_probs is an error. */
MSDA_API msda_status msda_ctc_loss_backward(const msda_ctc_loss_call* call, const msda_tensor* grad_output,
                                            const msda_options* options, const msda_tensor* grad_log_probs);

/* The same on the current GPU, with the same bits, for targets of at most 8,191 labels; all tensors but `lengths` are
 * in memory of that GPU. The work is enqueued on `stream`, a cudaStream_t (null: the default stream), and the function
 * does not wait for it: a label outside log_probs has probability 0. `threads` is ignored. */
MSDA_API msda_status msda_cuda_ctc_loss_backward(const msda_ctc_loss_call* call, const msda_tensor* grad_output,
                                                 const msda_options* options, const msda_tensor* grad_log_probs,
                                                 void* stream);

#ifdef __cplusplus
}
#endif
