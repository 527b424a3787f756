/* The backward pass of max pooling, in libmsda: PyTorch's max_pool3d, adaptive_max_pool2d and 3d, and
 * fractional_max_pool2d and 3d. Errors and options are those of msda.h; the modes are deterministic and float64.
 *
 *     grad_input[n, p, c] = +0 + the sum over outputs o with indices[n, o, c] = p of  grad_output[n, o, c]
 *
 * Its bits are those of msda_scatter_add (scatter_add.h) along dimension 1, which is its CPU side: the addends come in
 * the order of the outputs. This function needs no sort, since it knows which outputs can name a pixel.
 *
 * Shapes. The three tensors have three dimensions: n counts images, or their channels' planes; p and o count pixels
 * row by row, x fastest; c counts channels that lie side by side, and may be 1.
 */
#pragma once

#include "kernels/msda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One side of an image: output i chooses among the pixels from floor(i * step / per) - before on, `span` of them. */
typedef struct msda_pool_side {
  int64_t pixels, outputs;
  int64_t step, per; /* 0 or more; 1 or more */
  int64_t before, span;
} msda_pool_side;

typedef struct msda_max_pool_call {
  msda_pool_side side[3]; /* x, y, z; an image without z has one pixel and one output there */
  msda_tensor indices;    /* int64, contiguous */
  msda_tensor grad_output;
} msda_max_pool_call;

/* grad_input, overwritten whole, on the current GPU, in whose memory all tensors are. `options` may be null. The work
 * is enqueued on `stream`, a cudaStream_t (null: the default stream), and the function does not wait for it. Outputs
 * whose index lies outside of their window are left out. */
MSDA_API msda_status msda_cuda_max_pool_backward(const msda_max_pool_call* call, const msda_options* options,
                                                 const msda_tensor* grad_input, void* stream);

#ifdef __cplusplus
}
#endif
