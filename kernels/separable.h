/* The backward passes of PyTorch's average pooling and padding, in libmsda. These operators depend on sizes alone: each
 * is a linear map that is the product of one sparse matrix an axis. Arithmetic, errors and options are those of msda.h;
 * the modes are deterministic and float64.
 *
 * Shapes. The last 1 to 3 dimensions of both tensors are the sides z, y and x; those before, at least one, are equal in
 * both. `grad_input` has the sides of the operator's input, `grad_output` those of its output. Tensors may have any
 * strides; those of [N,C,(z,y,)x], and of [N,(z,y,)x,C] permuted to it (channels_last), are not copied.
 *
 * docs/determinism.md gives every operation and its order.
 */
#pragma once

#include "kernels/msda.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum msda_separable MSDA_ENUM_TYPE {
  MSDA_AVG_POOL = 0,
  MSDA_ADAPTIVE_AVG_POOL = 1, /* the sizes decide */
  MSDA_REFLECTION_PAD = 2,
  MSDA_REPLICATION_PAD = 3
} msda_separable;

typedef struct msda_separable_call {
  msda_separable map;
  int32_t sides;     /* 1 to 3 */
  int32_t ceil_mode; /* of avg_pool, 0 or 1, as the next three */
  int32_t count_include_pad;
  int64_t divisor_override;          /* 0: none */
  int64_t kernel_size[3], stride[3]; /* of x, y, z */
  int64_t padding[3];       /* of x, y, z: of avg_pool on both sides, of pads before the input; may be negative */
  int64_t padding_after[3]; /* of pads */
  msda_tensor grad_output;
} msda_separable_call;

/* grad_input, overwritten whole. `options` may be null. */
MSDA_API msda_status msda_separable_backward(const msda_separable_call* call, const msda_options* options,
                                             const msda_tensor* grad_input);

/* The same on the current GPU, with the same bits; all tensors are in memory of that GPU. The work is enqueued on
 * `stream`, a cudaStream_t (null: the default stream), and the function does not wait for it. `threads` is ignored. */
MSDA_API msda_status msda_cuda_separable_backward(const msda_separable_call* call, const msda_options* options,
                                                  const msda_tensor* grad_input, void* stream);

#ifdef __cplusplus
}
#endif
